//! There is one token of a block.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>) {
    let (mut one, mut other) = (block, block);
    one.sync(());
    other.sync(());
}

fn main() {}
