//! Exponentials and hyperbolic functions of doubles.
//!
//! `x = k·log 2 + r` with the two parts of the logarithm (W. J. Cody and W. Waite, 1980), a minimax
//! polynomial in `r`, and the factor `2^k` in the exponent.

use super::hw::{fma64, horner64, mul64};
use core::f64::consts::{LN_2, LN_10, LOG2_10, LOG2_E};

/// 1.5·2^52: a sum with it has the integer nearest to the other addend in its low bits.
pub(crate) const ROUND: f64 = 6_755_399_441_055_744.0;

pub(crate) const LN_2_LO: f64 = 2.319_046_813_846_299_6e-17;
const LN_10_LO: f64 = -2.170_756_223_382_249_4e-16;
const LOG10_2: f64 = core::f64::consts::LOG10_2;
const LOG10_2_LO: f64 = -2.803_728_127_785_170_4e-18;

/// `e^r - 1`, for `|r|` up to log 2 / 2.
#[inline(always)]
fn small(r: f64) -> f64 {
    let p = horner64!(r; 0.500_000_000_000_001_1, 0.166_666_666_666_664, 0.041_666_666_666_525_19, 0.008_333_333_333_501_308, 0.001_388_888_894_513_237_4, 0.000_198_412_694_953_549_46, 2.480_149_137_372_086e-5, 2.755_759_316_935_006_4e-6, 2.763_091_602_656_887e-7, 2.499_893_375_890_821_5e-8);
    fma64(mul64(r, r), p, r)
}

/// `y·2^k` for `y` in `[1/2, 2]` and any `k`, rounded once.
#[inline(always)]
pub(crate) fn scale(y: f64, k: i32) -> f64 {
    if (k + 1020) as u32 <= 2040 {
        return f64::from_bits(y.to_bits().wrapping_add((k as i64 as u64) << 52));
    }
    let k = k.clamp(-1200, 1200);
    let half = k >> 1;
    let power = |k: i32| f64::from_bits(((k + 1023) as u64) << 52);
    mul64(y, power(half)) * power(k - half)
}

/// `y·2^k` where both are normal.
#[inline(always)]
fn raised(y: f64, k: i32) -> f64 {
    let bits = y.to_bits();
    let high = ((bits >> 32) as u32).wrapping_add((k as u32) << 20);
    f64::from_bits(u64::from(high) << 32 | bits & 0xffff_ffff)
}

/// `e^x·2^n` for an `x` that is large, infinite or NaN.
#[inline(never)]
fn extreme(x: f64, n: i32) -> f64 {
    let x = limited(x, 800.0);
    let (k, whole) = nearest(x, LOG2_E);
    let r = fma64(whole, -LN_2_LO, fma64(whole, -LN_2, x));
    scale(1.0 + small(r), k + n)
}

/// `(k, k as a number)` nearest to `x·factor`, for `x` limited to where it matters.
#[inline(always)]
fn nearest(x: f64, factor: f64) -> (i32, f64) {
    let j = fma64(x, factor, ROUND);
    (j.to_bits() as i32, j - ROUND)
}

/// `x`, but no farther from 0 than `bound`; NaN stays.
#[inline(always)]
fn limited(x: f64, bound: f64) -> f64 {
    if x > bound {
        bound
    } else if x < -bound {
        -bound
    } else {
        x
    }
}

/// `e^x`, to 1 ulp.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    times_power(x, 0)
}

/// `e^x·2^n`, for an `n` that is small.
#[inline(always)]
fn times_power(x: f64, n: i32) -> f64 {
    let (k, whole) = nearest(x, LOG2_E);
    let r = fma64(whole, -LN_2_LO, fma64(whole, -LN_2, x));
    let y = 1.0 + small(r);
    // Below 707, by the upper halves: no overflow, no underflow.
    if x.to_bits() >> 32 & 0x7fff_ffff < 0x4086_1800 { raised(y, k + n) } else { extreme(x, n) }
}

/// `2^x`, to 1 ulp.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let x = limited(x, 1200.0);
    let (k, whole) = nearest(x, 1.0);
    let r = x - whole;
    scale(1.0 + small(fma64(r, LN_2, r * LN_2_LO)), k)
}

/// `10^x`, to 1 ulp.
#[inline(always)]
pub fn exp10(x: f64) -> f64 {
    let x = limited(x, 400.0);
    let (k, whole) = nearest(x, LOG2_10);
    let r = fma64(whole, -LOG10_2_LO, fma64(whole, -LOG10_2, x));
    scale(1.0 + small(fma64(r, LN_10, r * LN_10_LO)), k)
}

/// `e^x - 1`, to 1 ulp.
#[inline(always)]
pub fn expm1(x: f64) -> f64 {
    let limited = if x > 710.0 {
        710.0
    } else if x < -60.0 {
        -60.0
    } else {
        x
    };
    let (k, whole) = nearest(limited, LOG2_E);
    let r = fma64(whole, -LN_2_LO, fma64(whole, -LN_2, limited));
    let p = horner64!(r; 0.5, 0.166_666_666_666_666_8, 0.041_666_666_666_666_72, 0.008_333_333_333_318_928, 0.001_388_888_888_884_200_6, 0.000_198_412_698_933_799_32, 2.480_158_742_926_406_7e-5, 2.755_723_669_492_431_4e-6, 2.755_717_550_000_110_9e-7, 2.511_168_615_497_756_8e-8, 2.094_593_459_925_046_3e-9);
    let p = fma64(mul64(r, r), p, r);
    // 2^(k-1), so that k = 1024 is no case of its own.
    let s = f64::from_bits(((k + 1022) as u64) << 52);
    let r = fma64(s, p, s - 0.5);
    // Below, x is the result; it also keeps the sign of a zero and the last bit of a subnormal.
    if x.abs() < 1e-18 { x } else { r + r }
}

/// Hyperbolic sine, to 2 ulp.
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let half = times_power(a, -1);
    let large = half - 0.25 / half;
    let s = mul64(x, x);
    let p = horner64!(s; 0.166_666_666_666_666_69, 0.008_333_333_333_332_915, 0.000_198_412_698_415_892_28, 2.755_731_910_849_904e-6, 2.505_213_067_160_557_8e-8, 1.605_668_757_084_722_4e-10, 7.775_671_845_882_623e-13);
    let small = fma64(p, mul64(s, x), x);
    if a < 1.0 { small } else { large.copysign(x) }
}

/// Hyperbolic cosine, to 1 ulp.
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let half = times_power(x.abs(), -1);
    half + 0.25 / half
}

/// Hyperbolic tangent, to 1 ulp.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    let e = exp(if a > 20.0 { 40.0 } else { a + a });
    let large = 1.0 - 2.0 / (e + 1.0);
    let s = mul64(x, x);
    let p = horner64!(s; -0.333_333_333_333_333_3, 0.133_333_333_333_328_17, -0.053_968_253_967_830_11, 0.021_869_488_519_666_403, -0.008_863_235_163_441_173, 0.003_592_122_918_865_621, -0.001_455_787_050_347_184_6, 0.000_589_729_367_652_080_4, -0.000_237_839_885_024_629_83, 9.311_633_387_712_034e-5, -3.186_016_638_772_427_4e-5, 6.822_646_388_185_236e-6);
    let small = fma64(p, mul64(s, x), x);
    let r = if a < 0.55 { small } else { large };
    if x.is_nan() { x } else { r.copysign(x) }
}
