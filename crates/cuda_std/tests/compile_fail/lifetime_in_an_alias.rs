//! An alias hides the lifetime, and the launch is as short as before.

use cuda_std::kernel;

type AtomicSlice<T> = cuda_std::atomic::AtomicSlice<'static, T>;
type Forever<T> = &'static T;

#[kernel]
pub fn keep_a_view(_words: AtomicSlice<u32>) {}

#[kernel]
pub fn keep_a_reference(_x: Forever<u32>) {}

fn main() {}
