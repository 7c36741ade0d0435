//! Shared memory that nothing was written to goes through no barrier.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>, tile: Shared<[u32; 256]>) {
    let tile = block.sync(tile);
}

fn main() {}
