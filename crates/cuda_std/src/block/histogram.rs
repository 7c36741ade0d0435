//! Counting by atomic additions in shared memory.

use super::token::Block;
use crate::shared::{Reader, Shared, Writer};
use core::sync::atomic::{AtomicU32, Ordering};

impl<const X: usize, const Y: usize, const Z: usize> Block<X, Y, Z> {
    /// Counts how often each bin occurs among the samples of all threads: bin `b` of the result is their
    /// number modulo 2^32. A thread may have any number of samples. Panics if a sample is past the last bin.
    ///
    /// The block need not have whole warps.
    ///
    /// *Cost:* two barriers; one atomic addition in shared memory for each sample.
    #[inline(always)]
    pub fn histogram<const BINS: usize, const ID: u32>(
        &mut self,
        bins: Shared<[u32; BINS], ID>,
        samples: impl IntoIterator<Item = usize>,
    ) -> Reader<[u32; BINS], ID> {
        let writer = bins.zeroed(self);
        self.histogram_on(writer, samples)
    }

    /// [`histogram`](Self::histogram) that adds to the counts that the bins have. *Cost:* that of [`histogram`](Self::histogram).
    #[inline(always)]
    pub fn histogram_on<const BINS: usize, const ID: u32>(
        &mut self,
        bins: Writer<[u32; BINS], ID>,
        samples: impl IntoIterator<Item = usize>,
    ) -> Reader<[u32; BINS], ID> {
        let bins = bins.into_raw();
        // No thread counts before all bins are set.
        self.sync(());
        for bin in samples {
            assert!(bin < BINS, "a sample is past the last bin");
            // SAFETY: in bounds, and until the next barrier every access is atomic.
            unsafe { AtomicU32::from_ptr(bins.cast::<u32>().add(bin).as_ptr()) }
                .fetch_add(1, Ordering::Relaxed);
        }
        // Every thread has counted.
        self.sync(());
        // SAFETY: that was the barrier, and the handle was taken apart here.
        unsafe { Reader::from_raw(bins) }
    }
}
