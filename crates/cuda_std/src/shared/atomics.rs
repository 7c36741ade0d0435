//! Counters in shared memory.

use super::array::SharedArray;
#[cfg(target_os = "cuda")]
use super::array::storage;
use core::sync::atomic::{AtomicU32, Ordering};
use cuda_std_macros::gpu_only;

/// `N` counters in shared memory, zero at first, that all threads of the block add to.
///
/// ```
/// use cuda_std::prelude::*;
///
/// /// Counts how often each byte occurs.
/// #[kernel]
/// pub fn histogram(index: ThreadIndex, bytes: &[u8], counts: AtomicSlice<u32>) {
///     let block = SharedAtomics::<256>::zeroed();
///     for i in index.grid_stride(bytes.len()) {
///         block.add(bytes[i.get()] as usize, 1);
///     }
///     // Every thread has counted before the sums are read.
///     thread::sync_threads();
///     let mut bin = thread::index_in_block() as usize;
///     while bin < 256 {
///         counts.fetch_add(bin, block.get(bin), Relaxed);
///         bin += thread::threads_in_block() as usize;
///     }
/// }
/// # fn main() {}
/// ```
///
/// # Why it is safe
///
/// 1. The memory holds `u32`s and nothing else: its storage belongs to this type, and only the
///    functions here reach it.
/// 2. Every access, the first zeroing included, is an atomic one, so no order of accesses is a data
///    race, and any bits are a `u32`. A thread that reads without a barrier before it may see a sum
///    that others still add to, and nothing worse.
/// 3. Every access compares the index with `N`.
#[derive(Clone, Copy, Debug)]
pub struct SharedAtomics<const N: usize> {
    counters: SharedArray<u32, N>,
}

impl<const N: usize> SharedAtomics<N> {
    /// The block's `N` counters, set to zero. All threads of the block must call this together.
    ///
    /// There is one set of counters for each `N`: a second call clears them again, and two sets of
    /// equal length that live at once need [`numbered`](Self::numbered).
    #[gpu_only]
    #[inline(always)]
    pub fn zeroed() -> Self {
        Self::numbered::<0>()
    }

    /// The set numbered `ID` of the block's sets of `N` counters; see [`zeroed`](Self::zeroed).
    #[gpu_only]
    #[inline(always)]
    pub fn numbered<const ID: u32>() -> Self {
        // SAFETY: the storage is a shared array of this type.
        let counters = unsafe { SharedArray::from_raw(storage::<Self, u32, N, 16, ID>()) };
        let this = Self { counters };
        // Readers of the counters' previous use are done before they are cleared …
        crate::thread::sync_threads();
        this.clear();
        // … and no thread counts before all are.
        crate::thread::sync_threads();
        this
    }

    #[cfg(target_os = "cuda")]
    #[inline(always)]
    fn clear(self) {
        let mut bin = crate::thread::index_in_block() as usize;
        while bin < N {
            self.counter(bin).store(0, Ordering::Relaxed);
            bin += crate::thread::threads_in_block() as usize;
        }
    }

    /// The number of counters.
    #[inline(always)]
    pub const fn len(self) -> usize {
        N
    }

    /// Whether there are no counters.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        N == 0
    }

    /// Adds to a counter, wrapping. Panics past the end.
    #[inline(always)]
    pub fn add(self, bin: usize, count: u32) {
        self.fetch_add(bin, count);
    }

    /// Adds to a counter, wrapping, and returns what it was before. Panics past the end.
    #[inline(always)]
    pub fn fetch_add(self, bin: usize, count: u32) -> u32 {
        self.counter(bin).fetch_add(count, Ordering::Relaxed)
    }

    /// The counter's value. Panics past the end.
    ///
    /// Others may still add to it: [`sync_threads`](crate::thread::sync_threads) comes first.
    #[inline(always)]
    pub fn get(self, bin: usize) -> u32 {
        self.counter(bin).load(Ordering::Relaxed)
    }

    /// The pointer to the first counter: the cluster's other blocks have theirs at the same place.
    #[cfg(target_os = "cuda")]
    #[inline(always)]
    pub(crate) fn as_mut_ptr(self) -> *mut u32 {
        self.counters.as_mut_ptr()
    }

    #[inline(always)]
    fn counter<'a>(self, bin: usize) -> &'a AtomicU32 {
        assert!(bin < N);
        // SAFETY: in bounds, aligned, and every access to the counters is atomic. The handle exists
        // only while the block runs, and shared memory lives as long.
        unsafe { AtomicU32::from_ptr(self.counters.as_mut_ptr().add(bin)) }
    }
}
