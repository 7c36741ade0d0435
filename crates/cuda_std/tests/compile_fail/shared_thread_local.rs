//! What belongs to one thread does not lie in shared memory.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>, index: ThreadIndex, tile: Shared<[ThreadIndex; 256]>) {
    tile.put(&block, index);
}

fn main() {}
