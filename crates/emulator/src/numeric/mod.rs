//! What instructions compute: pure functions, no state, one file for each family.
//!
//! `f32` and `f64` values are passed as such, since their bits survive; the narrower formats are
//! passed as bits. Where PTX leaves a choice, the functions do what an H200 does.

pub mod approx;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod float;
pub mod half;
pub mod int;
pub mod matrix;
pub mod narrow;
pub mod permute;
mod soft;

pub use soft::{Format, Rounding};
