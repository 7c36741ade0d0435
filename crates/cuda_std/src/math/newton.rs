//! Quotients and roots of doubles: 20 bits from the hardware, the rest by a step of third order.
//!
//! With `e = 1 - d·r` the reciprocal is `r/(1 - e) = r (1 + e + e² + …)`, and with `e = 1 - s·y²`
//! the root is `s·y/√(1 - e) = s·y (1 + e/2 + 3e²/8 + …)`: what is left out is below 2^-57. The
//! residuals are fmas (P. W. Markstein, "Computation of elementary functions on the IBM RISC
//! System/6000 processor", 1990). No branch, no case of their own: who calls sees to zeros,
//! infinities and subnormals.

use super::hw::{self, fma64, mul64};

/// The upper half of a double's bits: sign, exponent and 20 bits of the fraction.
#[inline(always)]
pub(crate) fn high(x: f64) -> u32 {
    (x.to_bits() >> 32) as u32
}

/// `1/d`, off by little more than rounding, where neither is subnormal.
#[inline(always)]
pub(crate) fn reciprocal(d: f64) -> f64 {
    let r = hw::rcp64(d);
    let e = fma64(-d, r, 1.0);
    fma64(fma64(e, e, e), r, r)
}

/// `n/d` in two parts, of which the second is what rounding left of the first; neither `d` nor
/// `1/d` is subnormal.
#[inline(always)]
pub(crate) fn quotient_parts(n: f64, d: f64) -> (f64, f64) {
    let r = reciprocal(d);
    let q = mul64(n, r);
    (q, mul64(fma64(-q, d, n), r))
}

/// `n/d`, off by little more than rounding; as for the signs of zeros, `n` over a positive `d`.
#[inline(always)]
pub(crate) fn quotient(n: f64, d: f64) -> f64 {
    let r = reciprocal(d);
    let q = mul64(n, r);
    fma64(-fma64(q, d, -n), r, q)
}

/// `√s`, off by little more than rounding, for zero and for an `s` from 1e-250 to 1e300.
#[inline(always)]
pub(crate) fn root(s: f64) -> f64 {
    let (g, y, e) = root_and_error(s);
    let slope = mul64(fma64(e, 0.375, 0.5), y);
    fma64(fma64(-g, g, s), slope, g)
}

/// `√s` in two parts, of which the second is what rounding left of the first.
#[inline(always)]
pub(crate) fn root_parts(s: f64) -> (f64, f64) {
    let (g, y, e) = root_and_error(s);
    let t = fma64(fma64(e, 0.375, 0.5), mul64(g, e), g);
    (t, mul64(fma64(-t, t, s), 0.5 * y))
}

/// `(g, y, e)`: `g` and `1/y` are `√s` to 20 bits, and `e` is `1 - g·y`.
#[inline(always)]
fn root_and_error(s: f64) -> (f64, f64, f64) {
    // The addend keeps the estimate finite at zero, and changes nothing else.
    let y = hw::rsqrt64(s + 1e-300);
    let g = mul64(s, y);
    (g, y, fma64(-g, y, 1.0))
}
