//! There is one handle of an array.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>, tile: Shared<[u32; 256]>) {
    let one = tile.put(&block, 1);
    let other = tile.put(&block, 2);
    block.sync((one, other));
}

fn main() {}
