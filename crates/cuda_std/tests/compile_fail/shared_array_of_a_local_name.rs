//! The array is declared outside of the function, where its length is another one.

use cuda_std::prelude::*;

const N: usize = 4;

#[kernel]
pub fn k() {
    const N: usize = 256;
    let _tile = shared_array![u32; N];
}

fn main() {}
