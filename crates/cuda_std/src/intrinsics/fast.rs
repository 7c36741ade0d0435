//! Approximations by single instructions, as their names say: a few bits less, and much faster.

use crate::math::hw;
use core::f32::consts::{LN_2, LOG2_10, LOG2_E};

/// Logarithm to base 10 of 2.
const LOG10_2: f32 = core::f32::consts::LOG10_2;

/// Sine by `sin.approx`: absolute error 2^-20.9 in `[-π, π]`, more outside.
#[inline(always)]
pub fn fast_sinf(x: f32) -> f32 {
    hw::sin_approx(x)
}

/// Cosine by `cos.approx`: absolute error 2^-20.9 in `[-π, π]`, more outside.
#[inline(always)]
pub fn fast_cosf(x: f32) -> f32 {
    hw::cos_approx(x)
}

/// Tangent as the quotient of [`fast_sinf`] and [`fast_cosf`].
#[inline(always)]
pub fn fast_tanf(x: f32) -> f32 {
    fast_fdividef(hw::sin_approx(x), hw::cos_approx(x))
}

/// `e^x` by `ex2.approx`, to `2 + ⌊1.173·|x|⌋` ulp.
#[inline(always)]
pub fn fast_expf(x: f32) -> f32 {
    hw::ex2_full(x * LOG2_E)
}

/// `10^x` by `ex2.approx`, to `2 + ⌊2.97·|x|⌋` ulp.
#[inline(always)]
pub fn fast_exp10f(x: f32) -> f32 {
    hw::ex2_full(x * LOG2_10)
}

/// Natural logarithm by `lg2.approx`: absolute error 2^-21.4 in `[1/2, 2]`, 3 ulp outside.
#[inline(always)]
pub fn fast_logf(x: f32) -> f32 {
    hw::lg2_full(x) * LN_2
}

/// Logarithm to base 2 by `lg2.approx`: absolute error 2^-22 in `[1/2, 2]`, 2 ulp outside.
#[inline(always)]
pub fn fast_log2f(x: f32) -> f32 {
    hw::lg2_full(x)
}

/// Logarithm to base 10 by `lg2.approx`: absolute error 2^-23 in `[1/2, 2]`, 3 ulp outside.
#[inline(always)]
pub fn fast_log10f(x: f32) -> f32 {
    hw::lg2_full(x) * LOG10_2
}

/// `x^y` as `ex2.approx` of `y·lg2.approx x`; NaN for negative `x`.
#[inline(always)]
pub fn fast_powf(x: f32, y: f32) -> f32 {
    hw::ex2_full(y * hw::lg2_full(x))
}

/// Quotient by `div.approx`, to 2 ulp for `|y|` in `[2^-126, 2^126]`; 0 for finite `x` and larger `|y|`.
#[inline(always)]
pub fn fast_fdividef(x: f32, y: f32) -> f32 {
    hw::div_approx(x, y)
}

/// Hyperbolic tangent by `tanh.approx`: relative error 2^-11.
#[inline(always)]
pub fn fast_tanhf(x: f32) -> f32 {
    hw::tanh_approx(x)
}
