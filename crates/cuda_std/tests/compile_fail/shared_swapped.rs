//! Handles of different arrays have different types.

use cuda_std::prelude::*;

fn swap<T>(a: &mut T, b: &mut T) {
    core::mem::swap(a, b);
}

#[kernel]
pub fn k(block: Block<64>, a: Shared<[u32; 64], 0>, b: Shared<[u32; 64], 1>) {
    let (mut a, mut b) = (a.put(&block, 1), b.put(&block, 2));
    if block.thread() < 5 {
        swap(&mut a, &mut b);
    }
}

fn main() {}
