//! No reference of a reading phase outlives the barrier that ends it.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>, tile: Shared<[u32; 256]>, out: AtomicSlice<u32>) {
    let tile = tile.put(&block, 1);
    let tile = block.sync(tile);
    let mirrored = &tile[255 - block.thread()];
    let mut tile = block.sync(tile);
    tile.put(&block, 2);
    out.store(0, *mirrored, Relaxed);
}

fn main() {}
