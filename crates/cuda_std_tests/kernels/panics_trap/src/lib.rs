//! A crate whose panics trap.

#![allow(missing_docs)]

use cuda_std::prelude::*;

/// `out[i] = x[first + i]`; what lies past the end is a trap.
#[kernel]
pub fn gather(index: ThreadIndex, first: u32, x: &[f32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = x[first as usize + index.get()];
    }
}
