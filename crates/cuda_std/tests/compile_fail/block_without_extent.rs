//! The token names the threads of a block.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block) {}

fn main() {}
