//! Logarithms: `log`, `log2`, `log10`, `log1p`.
//!
//! `x = m·2^e` with `m` in `[2/3, 4/3)`, so that `e` is 0 around 1 and nothing cancels; a minimax
//! polynomial in `m - 1` gives the rest.

use super::exp::LN_2;
use super::hw::{fma, horner, mul};

/// Bits of 2/3.
const TWO_THIRDS: u32 = 0x3f2a_aaab;
/// Bits of the square root of 1/2: no sum of `e` and the logarithm of `m` is less than either.
const ROOT_HALF: u32 = 0x3f35_04f3;

/// `(m - 1, e)` with `x = m·2^e` and `m` in `[least, 2 least)`, for positive finite `x`.
#[inline(always)]
fn split(x: f32, least: u32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let x = if tiny { x * 8_388_608.0 } else { x };
    let bits = x.to_bits();
    let e = bits.wrapping_sub(least) & 0xff80_0000;
    let m = f32::from_bits(bits.wrapping_sub(e));
    (m - 1.0, fma(e as i32 as f32, 1.192_092_9e-7, if tiny { -23.0 } else { 0.0 }))
}

/// `result`, or the logarithm of a value that is not a positive finite number.
#[inline(always)]
fn with_special(x: f32, result: f32) -> f32 {
    let regular = x.to_bits() < 0x7f80_0000;
    let r = if regular { result } else { fma(x, f32::INFINITY, f32::INFINITY) };
    if x == 0.0 { f32::NEG_INFINITY } else { r }
}

/// Natural logarithm, to 1 ulp.
#[inline(always)]
pub fn logf(x: f32) -> f32 {
    let (f, e) = split(x, TWO_THIRDS);
    let p = horner!(f; -0.499_999_25, 0.333_332_93, -0.250_085_83, 0.200_055_47, -0.164_018_29, 0.140_891_1, -0.154_619_62, 0.135_701_16);
    with_special(x, fma(e, LN_2, fma(mul(f, f), p, f)))
}

/// Logarithm to base 2, to 1 ulp.
#[inline(always)]
pub fn log2f(x: f32) -> f32 {
    let (f, e) = split(x, ROOT_HALF);
    let p = horner!(f; -0.721_347_33, 0.480_898_9, -0.360_699_98, 0.288_526_03, -0.239_486_95, 0.205_344_68, -0.192_999_57, 0.182_154_57, -0.100_100_8);
    let small = fma(mul(f, f), p, f * 1.925_963e-8);
    with_special(x, e + fma(f, 1.442_695, small))
}

/// Logarithm to base 10, to 2 ulp.
#[inline(always)]
pub fn log10f(x: f32) -> f32 {
    let (f, e) = split(x, ROOT_HALF);
    let p = horner!(f; -0.217_147_19, 0.144_765_59, -0.108_581_86, 0.086_816_86, -0.072_051_98, 0.062_517_785, -0.059_138_04, 0.050_858_036, -0.022_833_52);
    let small = fma(mul(f, f), p, fma(e, -1.432_098_9e-8, f * -1.010_305_9e-8));
    with_special(x, fma(e, 0.301_03, fma(f, 0.434_294_5, small)))
}

/// `log(1 + x)` for finite `x` above -1.
#[inline(always)]
pub(crate) fn regular_log1p(x: f32) -> f32 {
    // 1 + x = 2^e (1 + f) with f in [-1/4, 1/2]; f from x itself, which 1 + x may have lost.
    let e = (1.0 + x).to_bits().wrapping_sub(0x3f40_0000) & 0xff80_0000;
    let s = f32::from_bits(0x4080_0000u32.wrapping_sub(e));
    let f = f32::from_bits(x.to_bits().wrapping_sub(e)) + fma(0.25, s, -1.0);
    let p = horner!(f; -0.5, 0.333_334_62, -0.250_001_94, 0.199_903_73, -0.166_425_36, 0.144_754_2, -0.132_093_73, 0.105_912_93, -0.046_037_48);
    let r = fma(mul(f, f), p, f);
    fma(mul(e as i32 as f32, 1.192_092_9e-7), LN_2, r)
}

/// `log(1 + x)`, to 1 ulp.
#[inline(always)]
pub fn log1pf(x: f32) -> f32 {
    let r = regular_log1p(x);
    let r = if x > -1.0 && x < f32::INFINITY { r } else { fma(x, f32::INFINITY, f32::INFINITY) };
    let r = if x == -1.0 { f32::INFINITY } else { r };
    r.copysign(x)
}
