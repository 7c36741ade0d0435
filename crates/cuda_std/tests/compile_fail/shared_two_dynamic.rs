//! A launch has one piece of dynamic shared memory.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>, a: Shared<[u32], 0>, b: Shared<[f32], 1>) {}

fn main() {}
