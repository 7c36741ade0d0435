use cuda_std::prelude::*;

#[kernel(f32, core::primitive::f32)]
pub fn fill<T: Copy>(_index: ThreadIndex, _value: T) {}

fn main() {}
