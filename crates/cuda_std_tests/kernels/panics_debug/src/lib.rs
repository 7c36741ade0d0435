//! A crate built with overflow checks and debug assertions.

#![allow(missing_docs)]

use cuda_std::prelude::*;

/// `out[i] = x[i] + more`, for bytes.
#[kernel]
pub fn add(index: ThreadIndex, more: u8, x: &[u8], mut out: DisjointSlice<u8>) {
    debug_assert!(x.len() < 100, "{} are too many", x.len());
    if let Some(out) = out.get_mut(index) {
        *out = x[index.get()] + more;
    }
}
