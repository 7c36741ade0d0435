use cuda_std::prelude::*;

#[kernel(block = -1)]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
