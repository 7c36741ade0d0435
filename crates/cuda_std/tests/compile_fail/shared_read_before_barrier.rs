//! The elements of other threads cannot be read before the barrier.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>, tile: Shared<[u32; 256]>, out: AtomicSlice<u32>) {
    let tile = tile.put(&block, 1);
    out.store(0, tile[255 - block.thread()], Relaxed);
}

fn main() {}
