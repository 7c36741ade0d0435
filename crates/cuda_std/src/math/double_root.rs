//! Roots of doubles: square, cubic, their reciprocals, and the length of a vector.
//!
//! Each starts from an estimate by the hardware of 20 bits, and takes one step of third order.

use super::hw::{self, fma64, mul64};
use super::newton::{high, root};

/// Square root, rounded once.
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    hw::sqrt64(x)
}

/// Reciprocal square root, to 1 ulp.
#[inline(always)]
pub fn rsqrt(x: f64) -> f64 {
    let y = hw::rsqrt64(x);
    let r = improved(x, y);
    if high(x).wrapping_sub(LEAST_NORMAL) < INFINITY - LEAST_NORMAL {
        return r;
    }
    // Of zeros, infinities, negative numbers and NaN the estimate is right.
    let scaled = x * TWO_TO_54;
    let tiny = scaled > 0.0 && x < 1.0;
    if tiny { improved(scaled, hw::rsqrt64(scaled)) * 134_217_728.0 } else { y }
}

/// `y (1 + e/2 + 3e²/8)` with `e = 1 - x·y²`, for an estimate `y` of `1/√x`.
#[inline(always)]
fn improved(x: f64, y: f64) -> f64 {
    let e = fma64(-mul64(y, y), x, 1.0);
    fma64(fma64(e, 0.375, 0.5), mul64(e, y), y)
}

/// Upper halves of the bits of the least normal number and of infinity.
const LEAST_NORMAL: u32 = 0x0010_0000;
const INFINITY: u32 = 0x7ff0_0000;
const TWO_TO_54: f64 = 18_014_398_509_481_984.0;

/// Cube root, to 1 ulp: `g (1 + 2/3 e + 5/9 e²)` with `g = m·y²` and `e = 1 - g·y`, for `y` near
/// `m^(-1/3)`.
#[inline(always)]
pub fn cbrt(x: f64) -> f64 {
    let (m, k, y) = cubic(x);
    let g = mul64(m, mul64(y, y));
    let e = fma64(-g, y, 1.0);
    let r = fma64(fma64(e, 5.0 / 9.0, 2.0 / 3.0), mul64(g, e), g);
    // Zero and what is not finite are their own roots.
    r * if regular(x) { power_of_two(k, x) } else { x }
}

/// Reciprocal cube root, to 1 ulp: `y (1 + 1/3 e + 2/9 e²)` with `e = 1 - m·y³`.
#[inline(always)]
pub fn rcbrt(x: f64) -> f64 {
    let (m, k, y) = cubic(x);
    // m·y³ in two parts, as m·y need not be exact.
    let square = mul64(y, y);
    let g = mul64(m, square);
    let lost = fma64(m, square, -g);
    let e = fma64(-lost, y, fma64(-g, y, 1.0));
    let r = fma64(fma64(e, 2.0 / 9.0, 1.0 / 3.0), mul64(y, e), y);
    // The estimate of the reciprocal of zero and of what is not finite is right.
    r * if regular(x) { power_of_two(-k, x) } else { hw::rcp64(x) }
}

/// `(m, k, y)` with `|x| = m·8^k`, `m` in `[1, 8)`, and `y` a float near `m^(-1/3)`.
#[inline(always)]
fn cubic(x: f64) -> (f64, i32, f64) {
    let tiny = high(x) & 0x7fff_ffff < LEAST_NORMAL;
    let x = if tiny { x * TWO_TO_54 } else { x };
    // The bias 1023 is 3·341, and 54 is 3·18.
    let e = high(x) >> 20 & 0x7ff;
    let k = e / 3;
    let m =
        f64::from_bits((x.to_bits() & 0x000f_ffff_ffff_ffff) + (u64::from(1023 + e - 3 * k) << 52));
    let y = hw::ex2(hw::lg2_full(m as f32) * -0.333_333_34);
    (m, k as i32 - if tiny { 341 + 18 } else { 341 }, y.into())
}

/// Whether `x` is finite and not zero.
#[inline(always)]
fn regular(x: f64) -> bool {
    (x != 0.0) & (x.abs() < f64::INFINITY)
}

/// `2^k` with the sign of `x`, for exponents of normal numbers.
#[inline(always)]
fn power_of_two(k: i32, x: f64) -> f64 {
    f64::from_bits(((k + 1023) as u64) << 52 | x.to_bits() & 1 << 63)
}

/// `√(x² + y²)` without overflow on the way, to 1 ulp.
#[inline(always)]
pub fn hypot(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    let (least, most) = if b > a { (a, b) } else { (b, a) };
    // A power of two that brings `most` near 1.
    let exponent = (high(most) & 0x7ff0_0000).clamp(0x0020_0000, 0x7fc0_0000);
    let power = |high: u32| f64::from_bits(u64::from(high) << 32);
    let (scale, back) = (power(0x7fe0_0000 - exponent), power(exponent));
    let (p, q) = (most * scale, least * scale);
    let r = root(fma64(p, p, mul64(q, q))) * back;
    if (a == f64::INFINITY) | (b == f64::INFINITY) { f64::INFINITY } else { r }
}
