//! A kernel that can panic, with values that the host formats, and one that cannot.

#![allow(missing_docs)]

use cuda_std::prelude::*;

/// `out[i] = x[first + i]`, with the compiler's own check.
#[kernel]
pub fn gather(index: ThreadIndex, first: u32, x: &[f32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = x[first as usize + index.get()];
    }
}

/// The same without a check that could fail.
#[kernel]
pub fn gather_or_zero(index: ThreadIndex, first: u32, x: &[f32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = x.get(first as usize + index.get()).copied().unwrap_or(0.0);
    }
}
