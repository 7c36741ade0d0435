//! Prefetches into the L1 and L2 caches.

use cuda_std_macros::gpu_only;

/// A cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheLevel {
    /// The multiprocessor's own.
    L1,
    /// The device's.
    L2,
    /// The device's, where the line is the last to go.
    L2EvictLast,
}

/// Asks for the line in which `*value` begins to be brought into a cache, and does not wait.
#[gpu_only]
#[inline(always)]
pub fn prefetch<T>(value: &T, level: CacheLevel) {
    if !super::is_global(value) {
        return;
    }
    let pointer = super::in_global(value);
    // SAFETY: a reference to global memory; a prefetch changes no value.
    unsafe {
        match level {
            CacheLevel::L1 => {
                core::arch::asm!("prefetch.global.L1 [{0}];", in(reg64) pointer, options(nostack))
            }
            CacheLevel::L2 => {
                core::arch::asm!("prefetch.global.L2 [{0}];", in(reg64) pointer, options(nostack))
            }
            CacheLevel::L2EvictLast => core::arch::asm!(
                "prefetch.global.L2::evict_last [{0}];",
                in(reg64) pointer,
                options(nostack),
            ),
        }
    }
}
