//! Whoever uses the array orders its accesses.

use cuda_std::prelude::*;

#[kernel]
pub fn k(index: ThreadIndex, mut x: DisjointSlice<f32>) {
    static mut TILE: SharedArray<f32, 256> = SharedArray::UNINIT;
    TILE[thread::thread_idx_x() as usize] = 1.0;
    if let Some(x) = x.get_mut(index) {
        *x = TILE[0];
    }
}

fn main() {}
