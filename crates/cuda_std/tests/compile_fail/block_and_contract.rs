//! The token is the contract of the block.

use cuda_std::prelude::*;

#[kernel(block = 128)]
pub fn k(block: Block<256>) {}

fn main() {}
