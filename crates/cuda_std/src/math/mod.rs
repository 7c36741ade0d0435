//! Mathematical functions of f32 and f64, by family, under C's names.
//!
//! Plain scalar Rust, which runs on the host as well. Each function's doc has its largest error in
//! ulp: the distance of the result to the correctly rounded one, over all arguments for f32.

#![allow(
    clippy::approx_constant,
    clippy::excessive_precision,
    reason = "constants are the leading parts of sums, or fits"
)]
#![allow(
    clippy::manual_clamp,
    clippy::manual_range_contains,
    clippy::neg_cmp_op_on_partial_ord,
    reason = "the comparisons say what becomes of NaN"
)]
#![allow(clippy::precedence, reason = "shifts before masks")]

pub mod atrig;
pub mod bessel;
pub mod double;
pub mod double_atrig;
pub mod double_erf;
pub mod double_exp;
pub mod double_gamma;
pub mod double_log;
pub mod double_pow;
pub mod double_root;
pub mod double_trig;
pub mod erf;
pub mod exp;
pub mod gamma;
pub mod hyperbolic;
pub mod log;
pub mod parts;
pub mod pow;
pub mod root;
pub mod trig;

pub(crate) mod hw;
pub(crate) mod newton;
