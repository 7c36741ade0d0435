//! Roots: square, cubic, their reciprocals, and the length of a vector.
//!
//! The cubic roots start from `ex2(-lg2(x)/3)` and take one step of Newton's method, with the
//! residual in fmas.

use super::hw::{self, fma, mul};

/// Square root, rounded once.
#[inline(always)]
pub fn sqrtf(x: f32) -> f32 {
    hw::sqrt(x)
}

/// Reciprocal square root, to 2 ulp.
#[inline(always)]
pub fn rsqrtf(x: f32) -> f32 {
    hw::rsqrt(x)
}

/// Cube root, to 1 ulp: `g (1 + 2/3 e)` with `g = a·y²` and `e = 1 - g·y`, for `y` near `a^(-1/3)`.
#[inline(always)]
pub fn cbrtf(x: f32) -> f32 {
    let a = x.abs();
    let y = hw::ex2(hw::lg2_full(a) * -0.333_333_34);
    let g = mul(a, mul(y, y));
    let r = fma(mul(g, 0.666_666_7), fma(-g, y, 1.0), g);
    // Zero and what is not finite, which give NaN here, are their own roots.
    if r.is_nan() { x } else { r.copysign(x) }
}

/// Reciprocal cube root, to 1 ulp: `y (1 + 1/3 e)` with `e = 1 - a·y³`.
#[inline(always)]
pub fn rcbrtf(x: f32) -> f32 {
    let a = x.abs();
    let y = hw::ex2(hw::lg2_full(a) * -0.333_333_34);
    let e = fma(mul(mul(y, a), y), -y, 1.0);
    let r = fma(mul(y, 0.333_333_34), e, y);
    // Of zero and of what is not finite, which give NaN here, the estimate is right.
    (if r.is_nan() { y } else { r }).copysign(x)
}

/// `√(x² + y²)` without overflow on the way, to 2 ulp.
#[inline(always)]
pub fn hypotf(x: f32, y: f32) -> f32 {
    let (a, b) = (x.abs(), y.abs());
    let (least, most) = if b > a { (a, b) } else { (b, a) };
    // A power of two that brings `most` near 1.
    let exponent = most.to_bits() & 0x7f80_0000;
    let exponent = exponent.clamp(2 << 23, 252 << 23);
    let (scale, back) = (f32::from_bits((254 << 23) - exponent), f32::from_bits(exponent));
    let (p, q) = (most * scale, least * scale);
    let r = hw::sqrt(fma(p, p, mul(q, q))) * back;
    let infinite = a == f32::INFINITY || b == f32::INFINITY;
    if infinite { f32::INFINITY } else { r }
}
