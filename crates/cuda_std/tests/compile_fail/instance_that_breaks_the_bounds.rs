use cuda_std::prelude::*;

pub trait Number: Copy {}
impl Number for f32 {}

#[kernel(f32, u8)]
pub fn fill<T: Number>(_index: ThreadIndex, _value: T) {}

fn main() {}
