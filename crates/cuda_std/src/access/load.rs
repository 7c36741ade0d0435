//! Loads.

use super::Access;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{in_global, is_global, load_instruction};

/// What the caches are to do at a load from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadHint {
    /// Through the read-only path, `ld.global.nc` (`__ldg`): nobody writes the memory while the
    /// kernel runs. The compiler may move such a load across every store.
    ReadOnly,
    /// [`ReadOnly`](Self::ReadOnly), and not into L1: for data that is read once.
    ReadOnlyNoAllocate,
    /// [`ReadOnly`](Self::ReadOnly), and the 128 bytes around into L2.
    ReadOnlyPrefetch128,
    /// [`ReadOnly`](Self::ReadOnly), and the 256 bytes around into L2.
    ReadOnlyPrefetch256,
    /// [`ReadOnlyNoAllocate`](Self::ReadOnlyNoAllocate), and the 256 bytes around into L2: for data
    /// that is read once, in order.
    ReadOnlyNoAllocatePrefetch256,
    /// Into L1 and L2, `ld.global.ca`: what a plain load does.
    AllLevels,
    /// Into L2 only, `ld.global.cg`.
    L2,
    /// Likely to be read once, `ld.global.cs`: the first to go from the caches.
    Streaming,
    /// Read for the last time, `ld.global.lu`.
    LastUse,
    /// Not into L1.
    NoAllocate,
    /// The first to go from L1.
    EvictFirst,
    /// The last to go from L1.
    EvictLast,
}

/// Loads `*value`, with a hint for the caches. The hint is a constant.
#[gpu_only]
#[inline(always)]
pub fn load<T: Access>(value: &T, hint: LoadHint) -> T {
    if !is_global(value) {
        return *value;
    }
    /// One arm for each hint.
    macro_rules! hints {
        ($($hint:ident: $words:literal;)*) => {
            // SAFETY: a reference to global memory; the value is plain, of the size that is loaded.
            unsafe {
                match hint {
                    $(LoadHint::$hint => load_instruction!(
                        T, $words, "", in_global(value), (options(pure, readonly, nostack))
                    ),)*
                }
            }
        };
    }
    hints! {
        ReadOnly: ".global.nc";
        ReadOnlyNoAllocate: ".global.nc.L1::no_allocate";
        ReadOnlyPrefetch128: ".global.nc.L2::128B";
        ReadOnlyPrefetch256: ".global.nc.L2::256B";
        ReadOnlyNoAllocatePrefetch256: ".global.nc.L1::no_allocate.L2::256B";
        AllLevels: ".global.ca";
        L2: ".global.cg";
        Streaming: ".global.cs";
        LastUse: ".global.lu";
        NoAllocate: ".global.L1::no_allocate";
        EvictFirst: ".global.L1::evict_first";
        EvictLast: ".global.L1::evict_last";
    }
}

/// Loads what another thread or the host may write at the same time: the load happens, once, as
/// `ld.volatile`, and values of up to 8 bytes arrive whole. It orders nothing; atomics do.
///
/// # Safety
/// - `pointer` is valid for reads of an aligned, initialised `T`.
/// - Whoever writes at the same time does so by volatile or atomic accesses of the same size.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_volatile<T: Access>(pointer: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { load_instruction!(T, ".volatile", "", pointer, (options(nostack))) }
}
