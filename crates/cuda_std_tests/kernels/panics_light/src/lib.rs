//! Kernels that can panic, with values that the host formats, and one that cannot. Those of each file share the panic
//! handler: it depends on the values of their messages how much of it is left.

#![allow(missing_docs)]

mod no_values;
mod one_type;
mod several_types;

pub use no_values::*;
pub use one_type::*;
pub use several_types::*;

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
