//! The kernel of `dist`: a sum over points, of which each rank has a share.

use cuda_std::prelude::*;

/// The area below 4 / (1 + x²) over strip `point` of the `points` into which the range from 0 to 1 is divided, by its height in
/// the middle.
pub fn strip(point: usize, points: usize) -> f64 {
    let width = 1.0 / points as f64;
    let x = (point as f64 + 0.5) * width;
    4.0 / (1.0 + x * x) * width
}

/// `out[i]`: the strip at the point `first + i`, for `out: [n]`. One thread for each element; threads past the end do nothing.
#[kernel]
pub fn strips(index: ThreadIndex, first: usize, points: usize, mut out: DisjointSlice<f64>) {
    if let Some(out) = out.get_mut(index) {
        *out = strip(first + index.get(), points);
    }
}
