//! Matrix products: `D = epilogue(alpha · A·B + beta · C)`, for batches of matrices in any order.
//!
//! | module | kernels | since |
//! |---|---|---|
//! | [`hopper`] | tiles by the copy engine, multiplied by warpgroups (`wgmma`); the fastest | `sm_90a` |
//! | [`skinny`] | products with at most 16 rows, or columns, which memory bounds | `sm_80` |
//! | [`warps`] | tiles by `cp.async`, multiplied by warps (`mma`): for older devices, and for matrices that the copy engine cannot address | `sm_80` |
//! | [`pack`] | copies of operands that the copy engine cannot address | `sm_80` |
//! | [`parts`] | copies of operands of f32 as two parts of TF32 | `sm_90a` |
//! | [`groups`] | the tiles of groups of rows, each with a B of its own | `sm_80` |
//! | [`scaling`] | scales of 8-bit floats, which both of the above apply | `sm_80` |
//! | [`gradient`] | the gradient before an activation, and that of a bias | `sm_80` |
//! | [`finish`] | the sum of partial sums, and its epilogue: the end of a product that was split along K | `sm_80` |
//!
//! Every kernel takes a [`Problem`], the matrices, two vectors for the epilogue, and an [`Epilogue`]:
//!
//! ```text
//! (problem: Problem, a: &[T], b: &[T], c: &[D], per_row: &[D], per_column: &[D], d: DisjointSlice<D>, epilogue: E)
//! ```
//!
//! Operands that [`Epilogue::OPERANDS`] does not name, and C where `beta` is 0, are empty slices that nothing reads. The host's
//! `ops::matmul` checks shapes and overlaps, chooses the kernel, and makes D row-major.

pub mod beside;
pub mod bytes;
mod epilogue;
mod factor;
pub mod finish;
pub mod form;
pub mod gradient;
pub mod groups;
pub mod hopper;
mod integer;
pub mod naive;
mod output;
pub mod pack;
pub mod parts;
mod place;
mod problem;
pub mod registers;
pub mod scaling;
#[cfg(feature = "entries")]
pub mod shipped;
pub mod skinny;
pub mod tf32;
pub mod tiled;
mod value;
pub mod warps;

pub use epilogue::{
    Clamp, ColumnBias, Entry, Epilogue, Gelu, GeluGradient, GeluTanh, GeluTanhGradient, Operands,
    Plain, Relu, ReluGradient, Residual, RowBias, Silu, SiluGradient, Then, gelu, gelu_derivative,
    gelu_tanh, gelu_tanh_derivative, relu_derivative, silu, silu_derivative,
};
pub use factor::Factor;
pub use integer::Integer;
pub use problem::{Problem, Strides};
pub use value::Value;
