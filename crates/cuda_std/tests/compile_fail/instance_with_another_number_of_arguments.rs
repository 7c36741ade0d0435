use cuda_std::prelude::*;

#[kernel((f32, 4), (f32, 4, 5), f64)]
pub fn fill<T: Copy, const N: usize>(_index: ThreadIndex, _value: T) {}

fn main() {}
