//! A static is one for all instances of a generic function.

use cuda_std::prelude::*;

#[kernel(f32, f64)]
pub fn k<T: Copy>(_x: &[T]) {
    static mut TILE: SharedArray<T, 256> = SharedArray::UNINIT;
}

fn main() {}
