//! Two handles of one type could change places in some threads and not in others.

use cuda_std::prelude::*;

#[kernel]
pub fn k(block: Block<256>, a: Shared<[u32; 256], 3>, b: Shared<[u32; 256], 3>) {}

fn main() {}
