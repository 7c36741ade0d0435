//! Roots: square, cubic, their reciprocals, and the length of a vector.
//!
//! The cubic roots start from `ex2(lg2(x)/3)` and take one step of Newton's method, with the
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

/// Cube root, to 1 ulp.
#[inline(always)]
pub fn cbrtf(x: f32) -> f32 {
    let a = x.abs();
    let y = hw::ex2(hw::lg2_full(a) * 0.333_333_34);
    // y - (y - a/y²)/3
    let square = mul(y, y);
    let over = hw::rcp(square);
    let r = fma(fma(a, over, -y), 0.333_333_34, y);
    // Zero and what is not finite are their own roots.
    if a > 0.0 && a < f32::INFINITY { r.copysign(x) } else { x + x }
}

/// Reciprocal cube root, to 1 ulp.
#[inline(always)]
pub fn rcbrtf(x: f32) -> f32 {
    let a = x.abs();
    let y = hw::ex2(hw::lg2_full(a) * -0.333_333_34);
    // y + y (1 - a·y³)/3
    let part = mul(mul(y, a), y);
    let rest = fma(part, -y, 1.0);
    let r = fma(mul(y, 0.333_333_34), rest, y);
    if a > 0.0 && a < f32::INFINITY { r.copysign(x) } else { 1.0 / x }
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
