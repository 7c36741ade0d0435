//! What runs in each thread does not reach the token of the block.

use cuda_std::prelude::*;

#[kernel]
pub fn k(mut block: Block<256>) {
    block.each(|thread| {
        if thread.index < 32 {
            block.sync(());
        }
    });
}

fn main() {}
