//! The type names the array.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>, a: Shared) {}

fn main() {}
