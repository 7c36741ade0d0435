//! `y = alpha * x + y`, the BLAS level-1 update.

use crate::prelude::*;

/// One element of the update. The compiler contracts it to a fused multiply-add on the GPU.
#[inline(always)]
pub fn axpy(alpha: f32, x: f32, y: f32) -> f32 {
    alpha * x + y
}

/// Updates `y: [n]` in place from `x: [n]`. Threads past the end do nothing.
#[kernel]
pub fn saxpy(index: ThreadIndex, alpha: f32, x: &[f32], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        *y = axpy(alpha, x[index.get()], *y);
    }
}
