use cuda_std::prelude::*;

#[kernel(block = (32, 8))]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
