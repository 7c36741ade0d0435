//! Logarithms of doubles.
//!
//! `x = m·2^e` with `m` in `[√½, √2)`, and `log m = 2 atanh((m-1)/(m+1))`: the quotient is carried
//! in two parts, the series behind it is a minimax polynomial in its square.

use super::hw::{fma64, horner64, mul64};
use super::newton::reciprocal;
use core::f64::consts::{LN_2, LOG2_E, LOG10_2, LOG10_E};

/// Bits of the square root of 1/2.
const ROOT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const LN_2_LO: f64 = super::double_exp::LN_2_LO;
const LOG2_E_LO: f64 = 2.035_527_374_093_103_3e-17;
const LOG10_2_LO: f64 = -2.803_728_127_785_170_4e-18;
const LOG10_E_LO: f64 = 1.098_319_650_216_765e-17;

/// `(m - 1, e)` with `x = m·2^e`, for positive finite `x`.
#[inline(always)]
pub(crate) fn split(x: f64) -> (f64, f64) {
    let tiny = x < f64::MIN_POSITIVE;
    let bits = if tiny { x * 18_014_398_509_481_984.0 } else { x }.to_bits();
    let e = bits.wrapping_sub(ROOT_HALF) as i64 >> 52;
    let m = f64::from_bits(bits.wrapping_sub((e as u64) << 52));
    (m - 1.0, f64::from(e as i32 - if tiny { 54 } else { 0 }))
}

/// `(q, rest)` with `log(1 + f) = q + rest` and a small rest, for `f` in `[-0.3, 0.42]`.
#[inline(always)]
pub(crate) fn series(f: f64) -> (f64, f64) {
    let r = reciprocal(f + 2.0);
    let q = mul64(f, r) * 2.0;
    let rest = f - q;
    let q_lo = mul64(r, fma64(-q, f, rest + rest));
    let s = mul64(q, q);
    let p = horner64!(s; 0.083_333_333_333_334_19, 0.012_499_999_999_815_407, 0.002_232_142_870_601_735_6, 0.000_434_027_313_031_027_8, 8.878_697_484_560_745e-5, 1.869_364_000_781_799_5e-5, 4.516_076_507_813_133e-6);
    (q, fma64(mul64(s, q), p, q_lo))
}

/// `e·(unit + unit_lo) + (q + rest)·(scale + scale_lo)`, rounded nearly once.
#[inline(always)]
fn in_base(
    e: f64,
    unit: f64,
    unit_lo: f64,
    (q, rest): (f64, f64),
    scale: f64,
    scale_lo: f64,
) -> f64 {
    let high = mul64(q, scale);
    let low = fma64(rest, scale, fma64(q, scale_lo, fma64(q, scale, -high)));
    let sum = fma64(e, unit, high);
    let lost = fma64(e, unit, -sum) + high;
    sum + (fma64(e, unit_lo, lost) + low)
}

/// `result`, or the logarithm of a value that is not a positive finite number.
#[inline(always)]
fn with_special(x: f64, result: f64) -> f64 {
    if x.to_bits().wrapping_sub(1) < 0x7fef_ffff_ffff_ffff {
        return result;
    }
    if x == 0.0 { f64::NEG_INFINITY } else { fma64(x, f64::INFINITY, f64::INFINITY) }
}

/// `e·log 2 + q + rest` in two parts.
#[inline(always)]
fn natural(e: f64, (q, rest): (f64, f64)) -> (f64, f64) {
    let sum = fma64(e, LN_2, q);
    let lost = fma64(e, LN_2, -sum) + q;
    (sum, fma64(e, LN_2_LO, lost) + rest)
}

/// `log x` in two parts, to 58 bits, for positive finite `x`.
#[inline(always)]
pub(crate) fn log_parts(x: f64) -> (f64, f64) {
    let (f, e) = split(x);
    natural(e, series(f))
}

/// Natural logarithm, to 1 ulp.
#[inline(always)]
pub fn log(x: f64) -> f64 {
    let (high, low) = log_parts(x);
    with_special(x, high + low)
}

/// Logarithm to base 2, to 1 ulp.
#[inline(always)]
pub fn log2(x: f64) -> f64 {
    let (f, e) = split(x);
    with_special(x, in_base(e, 1.0, 0.0, series(f), LOG2_E, LOG2_E_LO))
}

/// Logarithm to base 10, to 1 ulp.
#[inline(always)]
pub fn log10(x: f64) -> f64 {
    let (f, e) = split(x);
    with_special(x, in_base(e, LOG10_2, LOG10_2_LO, series(f), LOG10_E, LOG10_E_LO))
}

/// `log(1 + x)`, to 1 ulp.
#[inline(always)]
pub fn log1p(x: f64) -> f64 {
    // 1 + x = 2^e (1 + f); f from x itself, which 1 + x may have lost.
    let e = (1.0 + x).to_bits().wrapping_sub(ROOT_HALF) as i64 >> 52;
    let shifted = f64::from_bits(x.to_bits().wrapping_sub((e as u64) << 52));
    let less = f64::from_bits((1023i64.wrapping_sub(e).max(1) as u64) << 52);
    let f = (if e == 0 { x } else { shifted }) + (less - 1.0);
    let (high, low) = natural(f64::from(e as i32), series(f));
    let r = high + low;
    if x.abs() < 1e-18 {
        return x;
    }
    if x > -1.0 && x < f64::INFINITY {
        return r;
    }
    if x == -1.0 { f64::NEG_INFINITY } else { fma64(x, f64::INFINITY, f64::INFINITY) }
}
