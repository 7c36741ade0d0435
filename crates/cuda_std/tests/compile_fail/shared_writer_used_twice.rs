//! The barrier takes the writer's handle.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>, tile: Shared<[u32; 256]>) {
    let mut tile = tile.put(&block, 1);
    let read = block.sync(tile);
    tile.put(&block, read[0]);
}

fn main() {}
