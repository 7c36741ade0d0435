//! Stores with cache hints.

use super::Access;
use cuda_std_macros::gpu_only;

#[cfg(target_os = "cuda")]
use super::{in_global, is_global, store_instruction};

/// What the caches are to do at a store to global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreHint {
    /// Into the caches, `st.global.wb`: what a plain store does.
    WriteBack,
    /// Into L2 only, `st.global.cg`.
    L2,
    /// Unlikely to be read soon, `st.global.cs`: the first to go from the caches.
    Streaming,
    /// Through L2 to the memory, `st.global.wt`.
    WriteThrough,
    /// Not into L1.
    NoAllocate,
    /// The first to go from L1.
    EvictFirst,
    /// The last to go from L1.
    EvictLast,
}

/// Stores `value` to `*to`, with a hint for the caches. The hint is a constant.
#[gpu_only]
#[inline(always)]
pub fn store<T: Access>(to: &mut T, value: T, hint: StoreHint) {
    if !is_global(to) {
        *to = value;
        return;
    }
    /// One arm for each hint.
    macro_rules! hints {
        ($($hint:ident: $words:literal;)*) => {
            // SAFETY: an exclusive reference to global memory, of the size that is stored.
            unsafe {
                match hint {
                    $(StoreHint::$hint => {
                        store_instruction!(T, $words, "", in_global(to), value, (options(nostack)))
                    })*
                }
            }
        };
    }
    hints! {
        WriteBack: ".global.wb";
        L2: ".global.cg";
        Streaming: ".global.cs";
        WriteThrough: ".global.wt";
        NoAllocate: ".global.L1::no_allocate";
        EvictFirst: ".global.L1::evict_first";
        EvictLast: ".global.L1::evict_last";
    }
}

/// Stores what another thread or the host may read at the same time: the store happens, once, as
/// `st.volatile`, and values of up to 8 bytes arrive whole. It orders nothing; atomics do.
///
/// # Safety
/// - `pointer` is valid for writes of an aligned `T`.
/// - Concurrent accesses are volatile or atomic accesses of the same size.
#[gpu_only]
#[inline(always)]
pub unsafe fn store_volatile<T: Access>(pointer: *mut T, value: T) {
    // SAFETY: the caller's promise.
    unsafe { store_instruction!(T, ".volatile", "", pointer, value, (options(nostack))) }
}
