//! Nothing is written while all threads may read.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>, tile: Shared<[u32; 256]>) {
    let tile = tile.put(&block, 1);
    let mut tile = block.sync(tile);
    tile[block.thread()] = 2;
    tile.put(&block, 2);
}

fn main() {}
