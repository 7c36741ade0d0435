//! Outside of a kernel's body nothing would move the static: it would lie in global memory, one for all blocks.

use cuda_std::prelude::*;

static mut TILE: SharedArray<f32, 256> = SharedArray::UNINIT;

#[kernel]
pub fn k(index: ThreadIndex, mut x: DisjointSlice<f32>) {
    if let Some(x) = x.get_mut(index) {
        // SAFETY: none, it does not compile.
        *x = unsafe { SharedArray::get(TILE, 0) };
    }
}

fn main() {}
