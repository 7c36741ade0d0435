use cuda_std::prelude::*;

#[kernel(block = (4, 4, 4, 4))]
pub fn tile() {}

fn main() {}
