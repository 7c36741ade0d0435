//! `out = a + b`, element by element: one thread an element.

use crate::prelude::*;

/// Adds `a: [n]` and `b: [n]` into `out: [n]`. Threads past the end do nothing.
#[kernel]
pub fn vecadd(index: ThreadIndex, a: &[f32], b: &[f32], mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        let i = index.get();
        *out = a[i] + b[i];
    }
}
