//! Loads with cache hints.

use super::Access;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{in_global, is_global, load_instruction};

/// What the caches are to do at a load from global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadHint {
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

/// What the caches are to do at a load by the read-only path: see [`load_read_only`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadOnlyHint {
    /// Into L1 and L2, `ld.global.nc` (`__ldg`).
    AllLevels,
    /// Not into L1: for data that is read once.
    NoAllocate,
    /// The 128 bytes around into L2.
    Prefetch128,
    /// The 256 bytes around into L2.
    Prefetch256,
    /// Not into L1, and the 256 bytes around into L2: for data that is read once, in order.
    NoAllocatePrefetch256,
}

/// One load by the instruction of each hint, of a reference to global memory.
#[cfg(target_os = "cuda")]
macro_rules! hints {
    ($ty:ty, $value:ident, $hint:ident: $($of:ident::$name:ident = $words:literal;)*) => {
        // SAFETY: a reference to global memory; the value is plain, of the size that is loaded.
        unsafe {
            match $hint {
                $($of::$name => load_instruction!(
                    $ty, $words, "", in_global($value), (options(pure, readonly, nostack))
                ),)*
            }
        }
    };
}

/// Loads `*value`, with a hint for the caches. The hint is a constant.
#[gpu_only]
#[inline(always)]
pub fn load<T: Access>(value: &T, hint: LoadHint) -> T {
    if !is_global(value) {
        return *value;
    }
    hints! { T, value, hint:
        LoadHint::AllLevels = ".global.ca";
        LoadHint::L2 = ".global.cg";
        LoadHint::Streaming = ".global.cs";
        LoadHint::LastUse = ".global.lu";
        LoadHint::NoAllocate = ".global.L1::no_allocate";
        LoadHint::EvictFirst = ".global.L1::evict_first";
        LoadHint::EvictLast = ".global.L1::evict_last";
    }
}

/// Loads `*value` through the read-only path, `ld.global.nc` (`__ldg`). The hint is a constant.
///
/// The compiler may move such a load across every store and barrier.
///
/// # Safety
/// If `*value` lies in global memory, nothing writes it while the kernel runs, not only while the reference
/// lives: it is part of a `&[T]` or `&T` that the launch gave the kernel, or of a constant.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_read_only<T: Access>(value: &T, hint: ReadOnlyHint) -> T {
    if !is_global(value) {
        return *value;
    }
    hints! { T, value, hint:
        ReadOnlyHint::AllLevels = ".global.nc";
        ReadOnlyHint::NoAllocate = ".global.nc.L1::no_allocate";
        ReadOnlyHint::Prefetch128 = ".global.nc.L2::128B";
        ReadOnlyHint::Prefetch256 = ".global.nc.L2::256B";
        ReadOnlyHint::NoAllocatePrefetch256 = ".global.nc.L1::no_allocate.L2::256B";
    }
}

/// Loads what another thread or the host may write at the same time: the load happens, once, as
/// `ld.volatile`, and values of up to 8 bytes arrive whole. It orders nothing; atomics do.
///
/// # Safety
/// - `pointer` is valid for reads of an aligned, initialised `T`.
/// - Concurrent writers use volatile or atomic accesses of the same size.
#[gpu_only]
#[inline(always)]
pub unsafe fn load_volatile<T: Access>(pointer: *const T) -> T {
    // SAFETY: the caller's promise.
    unsafe { load_instruction!(T, ".volatile", "", pointer, (options(nostack))) }
}
