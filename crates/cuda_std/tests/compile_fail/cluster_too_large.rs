use cuda_std::prelude::*;

#[kernel(block = 64, cluster = (4, 5))]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
