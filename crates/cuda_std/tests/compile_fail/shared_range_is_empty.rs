use cuda_std::prelude::*;

#[kernel(block = 64, dynamic_shared = 2048..=1024)]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
