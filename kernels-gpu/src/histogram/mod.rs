//! Histograms: how many samples fall into each bin. Counts are `u32`, so a bin holds at most 2³² − 1 samples.
//!
//! * [`histogram_global`](fn@histogram_global), [`histogram_search`](fn@histogram_search): an atomic addition to
//!   global memory for each sample. What to read first, and what is left when the bins do not fit into shared memory.
//! * [`histogram`](fn@histogram): a private copy of the bins in each block's shared memory, merged at the end.
//! * [`shared`]: 16-byte loads, and several copies of the bins in a block, so that the lanes of a warp rarely meet.
//!
//! Integer counts do not depend on an order, so every form gives the same numbers in every run.

pub mod bins;
pub mod shared;

pub use shared::{histogram_bytes, histogram_ranges, histogram_shared};

use crate::prelude::*;
use bins::{Binning, Even, EvenFloats, Sample};
use cuda_std::atomic::Ordering::Relaxed;

/// Bins of [`histogram`](fn@histogram): one for each byte value.
pub const BINS: usize = 256;
/// Threads in a block of [`histogram`](fn@histogram); each also moves one bin at the end.
pub const BLOCK: u32 = 256;
/// Most blocks of a launch of [`histogram`](fn@histogram): fewer blocks merge fewer copies.
pub const MAX_BLOCKS: u32 = 8 * 132;

/// Adds the counts of `bytes: [n]` to `bins: [256]`. Any number of blocks.
#[kernel(block = BLOCK)]
pub fn histogram(index: ThreadIndex, bytes: &[u8], bins: AtomicSlice<u32>) {
    let private = SharedAtomics::<BINS>::zeroed();
    for i in index.grid_stride(bytes.len()) {
        private.add(bytes[i.get()] as usize, 1);
    }
    // Every count of this block is in before any is moved.
    thread::sync_threads();
    let mut bin = thread::thread_idx_x() as usize;
    while bin < BINS {
        let count = private.get(bin);
        if count > 0 {
            bins.fetch_add(bin, count, Relaxed);
        }
        bin += BLOCK as usize;
    }
}

/// The plain form. Adds to `bins: [bins]` how many of `samples: [n]` the binning puts into each. Any grid.
#[kernel((u8, Even), (u16, Even), (u32, Even), (f32, EvenFloats))]
pub fn histogram_global<T: Sample, B: Binning<T>>(
    index: ThreadIndex,
    samples: &[T],
    binning: B,
    bins: AtomicSlice<u32>,
) {
    for i in index.grid_stride(samples.len()) {
        let bin = binning.bin(samples[i.get()]) as usize;
        if bin < bins.len() {
            bins.fetch_add(bin, 1, Relaxed);
        }
    }
}

/// The plain form for boundaries: a binary search for each sample.
///
/// `levels: [bins + 1]` are the [keys](Sample::key) of the boundaries, in order; a sample belongs to the last bin that begins
/// at or below it. The last boundary is `last`, inclusive. Any grid.
#[kernel(u8, u16, u32, f32)]
pub fn histogram_search<T: Sample>(
    index: ThreadIndex,
    samples: &[T],
    levels: &[u32],
    last: u32,
    bins: AtomicSlice<u32>,
) {
    for i in index.grid_stride(samples.len()) {
        let key = samples[i.get()].key();
        let begun = levels.partition_point(|level| *level <= key);
        if begun > 0 && key <= last {
            bins.fetch_add(begun - 1, 1, Relaxed);
        }
    }
}
