use cuda_std::prelude::*;

#[kernel]
pub fn keep(_x: &'static [u32; 64]) {}

fn main() {}
