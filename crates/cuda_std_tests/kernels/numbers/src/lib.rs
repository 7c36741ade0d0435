//! Numbers of 16 and 8 bits, random numbers, and accesses to memory.
//!
//! What a kernel computes is a plain function of its inputs, which the tests call on the host too.

#![allow(missing_docs)]

pub mod access;
pub mod bytes;
pub mod halves;
pub mod random;

use cuda_std::prelude::*;

/// Writes a thread's results: `out[k * threads + thread]` is result `k`.
#[inline(always)]
pub fn put_rows<T, const N: usize>(index: ThreadIndex, rows: [T; N], out: &mut DisjointSlice<T>) {
    for (k, row) in rows.into_iter().enumerate() {
        *out.get_mut(index.stride(k)).expect("room for the results") = row;
    }
}
