//! The kernel of the book's chapter.

use cuda_std::prelude::*;

#[kernel]
pub fn waves(index: ThreadIndex, x: &[f32], mut y: DisjointSlice<f32>) {
    if let Some(y) = y.get_mut(index) {
        let x = x[index.get()];
        *y = (-x * x).exp() * x.sin();
    }
}
