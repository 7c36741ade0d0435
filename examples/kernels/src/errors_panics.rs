//! The kernel of `11_errors_panics`: an index that can be out of bounds.

use cuda_std::prelude::*;

/// `out[i] = x[indices[i]]`; `indices: [n]`, `out: [n]`. An index past the end of `x` panics, as on the host.
#[kernel]
pub fn gather(index: ThreadIndex, x: &[f32], indices: &[u32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = x[indices[index.get()] as usize];
    }
}
