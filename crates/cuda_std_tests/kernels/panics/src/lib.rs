//! Kernels that panic.

#![allow(missing_docs)]

mod collectives;
mod kinds;

pub use collectives::*;
pub use kinds::*;

use cuda_std::prelude::{DisjointSlice, ThreadIndex};

fn set(out: &mut DisjointSlice<u32>, index: ThreadIndex, value: u32) {
    if let Some(out) = out.get_mut(index) {
        *out = value;
    }
}
