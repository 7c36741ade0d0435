//! What one thread does alone holds no barrier, and a collective's operator neither.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>) {
    block.once(|| block.sync(()));
}

fn main() {}
