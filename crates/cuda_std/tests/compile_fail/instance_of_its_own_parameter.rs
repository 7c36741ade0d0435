//! In an instance the second parameter's `T` is the first argument; a launcher of another `T` is not made.

use cuda_std::prelude::*;

type T = f64;

#[kernel((f32, T))]
pub fn pair<T: Copy, U: Copy>(_a: &[T], _b: &[U]) {}

fn main() {
    let _ = pair::<f32, f32>::KERNEL;
    let _ = pair::<f32, T>::KERNEL;
}
