//! `put` writes an array as long as the block.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<128>, tile: Shared<[u32; 256]>) {
    tile.put(&block, 1);
}

fn main() {}
