use cuda_std::prelude::*;

#[kernel(block = 64, block = 128)]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
