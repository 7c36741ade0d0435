//! Exponentials and hyperbolic functions of doubles.
//!
//! `x = k·log 2 + r` with the two parts of the logarithm (W. J. Cody and W. Waite, 1980), a minimax
//! polynomial in `r`, and the factor `2^k` in the exponent.

use super::hw::{fma64, horner64, mul64};
use super::newton::{high, reciprocal};
use core::f64::consts::{LN_2, LOG2_10, LOG2_E};

/// 1.5·2^52: a sum with it has the integer nearest to the other addend in its low bits.
pub(crate) const ROUND: f64 = 6_755_399_441_055_744.0;

pub(crate) const LN_2_LO: f64 = 2.319_046_813_846_299_6e-17;
const LOG10_2: f64 = core::f64::consts::LOG10_2;
const LOG10_2_LO: f64 = -2.803_728_127_785_170_4e-18;

/// `e^r`, for `|r|` up to log 2 / 2.
#[inline(always)]
pub(crate) fn near_one(r: f64) -> f64 {
    horner64!(r; 1.0, 1.0, 0.500_000_000_000_001_1, 0.166_666_666_666_664, 0.041_666_666_666_525_19, 0.008_333_333_333_501_308, 0.001_388_888_894_513_237_4, 0.000_198_412_694_953_549_46, 2.480_149_137_372_086e-5, 2.755_759_316_935_006_4e-6, 2.763_091_602_656_887e-7, 2.499_893_375_890_821_5e-8)
}

/// `2^k`, for exponents of normal numbers.
#[inline(always)]
pub(crate) fn power_of_two(k: i32) -> f64 {
    f64::from_bits(u64::from(k.wrapping_add(1023) as u32) << 52)
}

/// `y·2^k` where both are normal.
#[inline(always)]
fn raised(y: f64, k: i32) -> f64 {
    let bits = y.to_bits();
    let high = ((bits >> 32) as u32).wrapping_add((k as u32) << 20);
    f64::from_bits(u64::from(high) << 32 | bits & 0xffff_ffff)
}

/// `(k, k as a number)` nearest to `x·factor`.
#[inline(always)]
pub(crate) fn nearest(x: f64, factor: f64) -> (i32, f64) {
    let j = fma64(x, factor, ROUND);
    (j.to_bits() as i32, j - ROUND)
}

/// `x - k·log 2` for the nearest `k`, and that.
#[inline(always)]
pub(crate) fn reduced(x: f64) -> (f64, i32) {
    let (k, whole) = nearest(x, LOG2_E);
    (fma64(whole, -LN_2_LO, fma64(whole, -LN_2, x)), k)
}

/// `y·2^k`, the power of `x`, for `y` near 1; overflow and underflow by the size and sign of `x`.
/// Below `usual`, the upper half of the bits of a bound, there is neither.
#[inline(always)]
pub(crate) fn finished(x: f64, usual: u32, y: f64, k: i32) -> f64 {
    let size = high(x) & 0x7fff_ffff;
    if size < usual {
        return raised(y, k);
    }
    // An eighth more at most, and the result is zero or infinite.
    if size >= usual + 0x0002_0000 {
        return if x < 0.0 { 0.0 } else { x + f64::INFINITY };
    }
    // In two steps, of which only the last can round.
    let half = k >> 1;
    mul64(raised(y, half), power_of_two(k.wrapping_sub(half)))
}

/// `e^x`, to 1 ulp.
#[inline(always)]
pub fn exp(x: f64) -> f64 {
    let (r, k) = reduced(x);
    finished(x, 0x4086_1800, near_one(r), k)
}

/// `2^x`, to 1 ulp.
#[inline(always)]
pub fn exp2(x: f64) -> f64 {
    let (k, whole) = nearest(x, 1.0);
    let y = horner64!(x - whole; 1.0, 0.6931471805599453, 0.2402265069591016, 0.0555041086648217, 0.009618129107587187, 0.001333355814639029, 0.00015403530463812493, 1.5252733856358323e-05, 1.3215432490800144e-06, 1.0178051164234326e-07, 7.074202286219333e-09, 4.4566799241111394e-10);
    finished(x, 0x408f_e000, y, k)
}

/// `10^x`, to 1 ulp.
#[inline(always)]
pub fn exp10(x: f64) -> f64 {
    let (k, whole) = nearest(x, LOG2_10);
    let r = fma64(whole, -LOG10_2_LO, fma64(whole, -LOG10_2, x));
    let y = horner64!(r; 1.0, 2.302585092994046, 2.650949055239209, 2.0346785922934805, 1.171255148907239, 0.539382929194038, 0.20699584964333295, 0.06808936530790148, 0.019597614104135134, 0.005013911668428537, 0.0011576565965688197, 0.0002422724039681872);
    finished(x, 0x4073_3000, y, k)
}

/// `e^r - 1 - r + rest`, for `|r|` up to log 2 / 2.
#[inline(always)]
fn beyond_first(r: f64, rest: f64) -> f64 {
    let p = horner64!(r; 0.5, 0.166_666_666_666_666_8, 0.041_666_666_666_666_72, 0.008_333_333_333_318_928, 0.001_388_888_888_884_200_6, 0.000_198_412_698_933_799_32, 2.480_158_742_926_406_7e-5, 2.755_723_669_492_431_4e-6, 2.755_717_550_000_110_9e-7, 2.511_168_615_497_756_8e-8, 2.094_593_459_925_046_3e-9);
    fma64(mul64(r, r), p, rest)
}

/// `e^r - 1`, for `|r|` up to log 2 / 2.
#[inline(always)]
pub(crate) fn small_expm1(r: f64) -> f64 {
    beyond_first(r, r)
}

/// `e^(r + lost) - 1`, for `|r|` up to log 2 / 2 and a `lost` that rounding left of it.
#[inline(always)]
pub(crate) fn small_expm1_parts(r: f64, lost: f64) -> f64 {
    r + beyond_first(r, lost)
}

/// `(k, e^(x - k·log 2) - 1)` for the nearest `k`.
#[inline(always)]
fn expm1_parts(x: f64) -> (i32, f64) {
    let (k, whole) = nearest(x, LOG2_E);
    let first = fma64(whole, -LN_2, x);
    let r = fma64(whole, -LN_2_LO, first);
    (k, small_expm1_parts(r, fma64(whole, -LN_2_LO, first - r)))
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
    let (k, p) = expm1_parts(limited);
    // 2^(k-1), so that k = 1024 needs no case of its own.
    let s = power_of_two(k.wrapping_sub(1));
    let r = fma64(s, p, s - 0.5);
    // Below, x is the result; it also keeps the sign of a zero and the last bit of a subnormal.
    if x.abs() < 1e-18 { x } else { r + r }
}

/// `(e^a / 2, e^-a / 2)`, for an `a` that is not negative.
#[inline(always)]
fn halves(a: f64) -> (f64, f64) {
    let (r, k) = reduced(a);
    let y = near_one(r);
    // From 707 on the second counts for nothing.
    let small = if k < 1000 { raised(reciprocal(y), (-1i32).wrapping_sub(k)) } else { 0.0 };
    (finished(a, 0x4086_1800, y, k.wrapping_sub(1)), small)
}

/// Hyperbolic sine, to 2 ulp.
#[inline(always)]
pub fn sinh(x: f64) -> f64 {
    let a = x.abs();
    let (up, down) = halves(a);
    let s = mul64(x, x);
    let p = horner64!(s; 0.166_666_666_666_666_69, 0.008_333_333_333_332_915, 0.000_198_412_698_415_892_28, 2.755_731_910_849_904e-6, 2.505_213_067_160_557_8e-8, 1.605_668_757_084_722_4e-10, 7.775_671_845_882_623e-13);
    let small = fma64(p, mul64(s, x), x);
    if a < 1.0 { small } else { (up - down).copysign(x) }
}

/// Hyperbolic cosine, to 1 ulp.
#[inline(always)]
pub fn cosh(x: f64) -> f64 {
    let (up, down) = halves(x.abs());
    up + down
}

/// Hyperbolic tangent, to 1 ulp: `q/(q + 2)` with `q = e^2x - 1`.
#[inline(always)]
pub fn tanh(x: f64) -> f64 {
    let a = x.abs();
    // From 20 on it is 1.
    let a = if a > 20.0 { 20.0 } else { a };
    let a = a + a;
    let (k, p) = expm1_parts(a);
    let s = power_of_two(k);
    let q = fma64(s, p, s - 1.0);
    let inverse = reciprocal(q + 2.0);
    let t = mul64(q, inverse);
    // What is left of q: t (q + 2) would round.
    let rest = fma64(-t, q, fma64(t, -2.0, q));
    fma64(rest, inverse, t).copysign(x)
}
