use cuda_std::prelude::*;

#[kernel]
pub fn fill<'a>(_index: ThreadIndex, _x: &'a [f32]) {}

fn main() {}
