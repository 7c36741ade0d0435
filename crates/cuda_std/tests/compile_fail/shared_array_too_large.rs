//! No GPU loads a kernel that declares more than 48 KiB of shared memory.

use cuda_std::prelude::*;

#[kernel]
pub fn k() {
    let _tile = shared_array![f64; 6145];
    let _fits = shared_array![f64; 6144];
}

fn main() {}
