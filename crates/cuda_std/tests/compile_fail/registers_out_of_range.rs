use cuda_std::prelude::*;

#[kernel(max_registers = 512)]
pub fn tile(_index: ThreadIndex) {}

fn main() {}
