//! The kernels, and nothing else: this crate is compiled for the GPU, and for the host's launchers.

use cuda_std::prelude::*;

/// Multiplies `x: [n]` by `factor`. Threads past the end do nothing.
#[kernel]
pub fn scale(index: ThreadIndex, factor: f32, mut x: DisjointSlice<f32>) {
    if let Some(x) = x.get_mut(index) {
        *x *= factor;
    }
}
