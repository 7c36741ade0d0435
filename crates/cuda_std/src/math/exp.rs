//! Exponentials: `exp`, `exp2`, `exp10`, `expm1`.
//!
//! In f32, `x·log2 e` is split into an integer `k` and a rest `r`, whose power `ex2.approx` gives.
//! The integer comes from a saturating fma, so that it stays in the range of normal exponents, and
//! `r` carries what lies beyond: overflow and gradual underflow need no case of their own.
//! The split constants are those of W. J. Cody and W. Waite, "Software Manual for the Elementary
//! Functions", 1980; the polynomials are minimax fits (E. Remez, 1934) made for these functions.

use super::hw::{self, fma, horner, mul};

/// 1.5·2^23: a sum with it has the integer nearest to the other addend in its low bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

const LOG2_E: f32 = 1.442_695;
const LOG2_E_LO: f32 = 1.925_963e-8;
const LOG2_10: f32 = 3.321_928;
const LOG2_10_LO: f32 = 7.059_55e-8;
pub(crate) const LN_2: f32 = 0.693_147_2;
pub(crate) const LN_2_LO: f32 = -1.904_654_3e-9;

/// `2^(x · (hi + lo) + shift)`, for a `shift` of 0 or -1.
#[inline(always)]
fn power(x: f32, hi: f32, lo: f32, shift: f32) -> f32 {
    // floor of x·hi + shift, limited to -126 ..= 127, above 1.5·2^23 + 127.
    let t = hw::fma_sat(x, hi / 253.0, (126.0 + shift) / 253.0);
    let j = hw::fma_rd(t, 253.0, ROUND + 1.0);
    let less = j - (ROUND + 127.0 + shift);
    let r = fma(x, lo, fma(x, hi, -less));
    hw::ex2(r) * f32::from_bits(j.to_bits() << 23)
}

/// `e^x`, to 2 ulp.
#[inline(always)]
pub fn expf(x: f32) -> f32 {
    power(x, LOG2_E, LOG2_E_LO, 0.0)
}

/// `e^x / 2`, which is finite wherever `sinh` and `cosh` are.
#[inline(always)]
pub(crate) fn half_expf(x: f32) -> f32 {
    power(x, LOG2_E, LOG2_E_LO, -1.0)
}

/// `10^x`, to 2 ulp.
#[inline(always)]
pub fn exp10f(x: f32) -> f32 {
    power(x, LOG2_10, LOG2_10_LO, 0.0)
}

/// `2^x`, to 2 ulp.
#[inline(always)]
pub fn exp2f(x: f32) -> f32 {
    hw::ex2_full(x)
}

/// `e^x - 1`, to 1 ulp.
#[inline(always)]
pub fn expm1f(x: f32) -> f32 {
    let x_limited = if x > 89.0 {
        89.0
    } else if x < -30.0 {
        -30.0
    } else {
        x
    };
    let j = fma(x_limited, LOG2_E, ROUND);
    let k = j - ROUND;
    let f = fma(k, -LN_2_LO, fma(k, -LN_2, x_limited));
    let p = horner!(f; 0.5, 0.166_666_66, 0.041_666_48, 0.008_333_688, 0.001_393_441_9, 0.000_196_346_95);
    let p = fma(mul(f, f), p, f);
    // 2^(k-1), so that k = 128 needs no case of its own.
    let s = f32::from_bits((j.to_bits() << 23).wrapping_add(126 << 23));
    let r = fma(s, p, s - 0.5);
    // Below, x is the result; it also keeps the sign of a zero and the last bit of a subnormal.
    if x.abs() < 1e-10 { x } else { r + r }
}
