//! Histogram of bytes into 256 bins, with a private copy of the bins in each block's shared memory.

use cuda_std::atomic::Ordering::Relaxed;
use cuda_std::prelude::*;

/// Bins: one for each byte value.
pub const BINS: usize = 256;
/// Threads in a block; each also moves one bin at the end.
pub const BLOCK: u32 = 256;
/// Most blocks of a launch: fewer blocks merge fewer copies.
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
