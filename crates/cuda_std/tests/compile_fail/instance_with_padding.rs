use cuda_std::prelude::*;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Padded {
    byte: u8,
    word: u32,
}

#[kernel(f32, Padded)]
pub fn fill<T: Copy>(_index: ThreadIndex, _value: T) {}

fn main() {}
