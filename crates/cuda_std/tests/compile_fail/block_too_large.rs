use cuda_std::prelude::*;

const SIDE: u32 = 33;

#[kernel(block = (SIDE, SIDE))]
pub fn tile(_index: ThreadIndex2) {}

fn main() {}
