//! The buffer may be freed when the kernel has run: nothing of it can be kept.

use cuda_std::prelude::*;

#[kernel]
pub fn keep(_x: &'static [u32]) {}

fn main() {}
