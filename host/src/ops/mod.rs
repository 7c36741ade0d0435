//! Ready-made operations on device buffers. Each has the name of its kernel and of its test.
//!
//! The first argument is a [`Stream`](crate::Stream) or a [`Gpu`](crate::Gpu), which has a stream of its own. An operation is
//! enqueued on it and returns at once, unless it returns a number. Every length is checked before the launch.
//!
//! Where an operation takes several element types, its `where` clause names the kernel and asks for an
//! [`Instance`](cuda_std::launch::Instance): an element type that the kernel has no instance for does not compile.

pub mod attention;
pub mod blur;
pub mod copy;
pub mod equalize;
pub mod fill;
pub mod grayscale;
pub mod histogram;
pub mod map;
pub mod matmul;
pub mod merge;
pub mod norm;
mod number;
pub mod out_of_core;
pub mod particles;
pub mod polynomial;
pub mod random;
pub mod reduce;
mod rows;
pub mod saxpy;
pub mod scan;
mod scratch;
pub mod search;
pub mod select;
pub mod sobel;
pub mod softmax;
pub mod sort;
pub mod spheres;
pub mod spmv;
pub mod stencil;
mod tensor_maps;
pub mod training;
pub mod transpose;
pub mod vecadd;
mod views;

pub use blur::blur;
pub use copy::{copy, copy_every, copy_pitched, copy_strided};
pub use equalize::equalize;
pub use fill::fill;
pub use grayscale::grayscale;
pub use histogram::histogram;
pub use map::{map, zip};
pub use matmul::{matmul, matmul_into};
pub use merge::{
    merge, merge_into, merge_pairs_into, set_difference, set_intersection,
    set_symmetric_difference, set_union,
};
pub use number::Number;
pub use polynomial::Polynomial;
pub use rows::RowValue;
pub use saxpy::saxpy;
pub use scratch::Scratch;
pub use search::{lower_bound, upper_bound};
pub use sobel::sobel;
pub use softmax::softmax;
pub use spmv::{Csr, spmv_into};
pub use transpose::transpose;
pub use vecadd::vecadd;

use crate::error::{GpuError, GpuResult};

mod sealed {
    /// Keeps other crates from implementing the traits above it. `T` stands for the parameters of such a trait: without them
    /// another crate could implement it for a type of this crate and a parameter of its own.
    pub trait Sealed<T = ()> {}
}

/// The blocks of a grid; `u32::MAX`, which no device accepts, where there are more than can be counted: the
/// launch is refused and does not cover a part.
fn block_count(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

/// An error unless two lengths agree, in elements.
fn same_len(operation: &'static str, expected: usize, found: usize) -> GpuResult<()> {
    if expected == found {
        return Ok(());
    }
    Err(GpuError::SizeMismatch { operation, expected, found })
}
