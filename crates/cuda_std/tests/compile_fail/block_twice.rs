//! A kernel has one token of its block.

use cuda_std::prelude::*;

#[kernel]
pub fn k(one: Block<256>, other: Block<256>) {}

fn main() {}
