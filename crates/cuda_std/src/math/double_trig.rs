//! Sine, cosine and tangent of doubles.
//!
//! As in f32: three parts of π/2 up to 2^30 (W. J. Cody and W. Waite, 1980), an integer product with
//! the bits of 2/π above (M. Payne and R. Hanek, 1983). What the reduced argument has lost is kept
//! in a second number.

use super::double_exp::ROUND;
use super::hw::{fma64, horner64, mul64};
use core::f64::consts::FRAC_PI_2;

const FRAC_PI_2_MID: f64 = 6.123_233_995_736_766e-17;
const FRAC_PI_2_LO: f64 = -1.497_384_904_859_169_8e-33;

/// The first bits of 2/π behind 64 zeros.
static TWO_OVER_PI: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];

/// `x - k·π/2` for the nearest `k` in two parts, with the low bits of `k`.
#[inline(always)]
fn reduce(x: f64) -> (f64, f64, u64) {
    if x.abs() >= 1_073_741_824.0 {
        return reduce_large(x);
    }
    let j = fma64(x, core::f64::consts::FRAC_2_PI, ROUND);
    let k = j - ROUND;
    let first = fma64(k, -FRAC_PI_2, x);
    let t = fma64(k, -FRAC_PI_2_MID, first);
    let lost = fma64(k, -FRAC_PI_2_MID, first - t);
    (t, fma64(k, -FRAC_PI_2_LO, lost), j.to_bits())
}

/// The same for every `x`: NaN for what is not finite.
#[inline(never)]
fn reduce_large(x: f64) -> (f64, f64, u64) {
    let bits = x.to_bits();
    let exponent = bits >> 52 & 0x7ff;
    if exponent == 0x7ff {
        return (f64::NAN, 0.0, 0);
    }
    // |x| = mantissa · 2^(exponent - 1086). 192 bits of 2/π matter: those before give multiples of 4.
    let mantissa = u128::from(bits << 11 | 1 << 63);
    let (word, shift) = ((exponent - 1024) as usize >> 6, exponent as u32 & 63);
    let at = |i: usize| {
        let pair = u128::from(TWO_OVER_PI[word + i]) << 64 | u128::from(TWO_OVER_PI[word + i + 1]);
        (pair << shift >> 64) as u64
    };
    let low = (mantissa * u128::from(at(2))) >> 64;
    let middle = mantissa * u128::from(at(1)) + low;
    // In units of 2^-126, modulo 4.
    let product = (mantissa * u128::from(at(0)) << 64).wrapping_add(middle);
    let quadrant = ((product >> 125) as u64 + 1) >> 1;
    let rest = (product << 2) as i128;
    let (t, lost) = quarter_turns(rest.unsigned_abs());
    let sign = if (rest < 0) == (x < 0.0) { 1.0 } else { -1.0 };
    let quadrant = if x < 0.0 { 0u64.wrapping_sub(quadrant) } else { quadrant };
    (t * sign, lost * sign, quadrant)
}

/// `rest · 2^-128 · π/2` in two parts.
#[inline(always)]
fn quarter_turns(rest: u128) -> (f64, f64) {
    let zeros = rest.leading_zeros();
    let shifted = if rest == 0 { 0 } else { rest << zeros };
    let unit = f64::from_bits(u64::from(1023 - 53 - zeros) << 52);
    let high = (shifted >> 75) as u64 as f64 * unit;
    let low = ((shifted >> 11) as u64) as f64 * (unit / 18_446_744_073_709_551_616.0);
    let t = mul64(high, FRAC_PI_2);
    let lost = fma64(high, FRAC_PI_2, -t);
    (t, lost + fma64(high, FRAC_PI_2_MID, low * FRAC_PI_2))
}

/// `sin(t + lost)`, for `|t|` up to π/4.
#[inline(always)]
fn sine(t: f64, lost: f64) -> f64 {
    let s = mul64(t, t);
    let p = horner64!(s; -0.166_666_666_666_666_32, 0.008_333_333_333_322_455, -0.000_198_412_698_298_132_3, 2.755_731_368_744_603_4e-6, -2.505_075_668_655_901_4e-8, 1.589_667_988_019_612_1e-10);
    t + fma64(mul64(s, t), p, lost)
}

/// `cos(t + lost)`, for `|t|` up to π/4.
#[inline(always)]
fn cosine(t: f64, lost: f64) -> f64 {
    let s = mul64(t, t);
    let p = horner64!(s; 0.041_666_666_666_666_65, -0.001_388_888_888_888_167_5, 2.480_158_729_363_239_5e-5, -2.755_731_542_862_696e-7, 2.087_585_651_272_130_7e-9, -1.136_599_968_024_312_5e-11);
    let r = fma64(s, fma64(s, p, -0.5), 1.0);
    fma64(-t, lost, r)
}

/// `r` with its sign changed in the lower two quadrants.
#[inline(always)]
fn signed(r: f64, quadrant: u64) -> f64 {
    f64::from_bits(r.to_bits() ^ (quadrant << 62 & 1 << 63))
}

/// Sine and cosine, to 1 ulp.
#[inline(always)]
pub fn sincos(x: f64) -> (f64, f64) {
    let (t, lost, quadrant) = reduce(x);
    let (sin, cos) = (sine(t, lost), cosine(t, lost));
    let (sin, cos) = if quadrant & 1 != 0 { (cos, sin) } else { (sin, cos) };
    let sin = signed(sin, quadrant);
    (if x == 0.0 { x } else { sin }, signed(cos, quadrant.wrapping_add(1)))
}

/// Sine, to 1 ulp.
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    let (t, lost, quadrant) = reduce(x);
    let r = if quadrant & 1 != 0 { cosine(t, lost) } else { sine(t, lost) };
    if x == 0.0 { x } else { signed(r, quadrant) }
}

/// Cosine, to 1 ulp.
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    let (t, lost, quadrant) = reduce(x);
    let r = if quadrant & 1 != 0 { sine(t, lost) } else { cosine(t, lost) };
    signed(r, quadrant.wrapping_add(1))
}

/// Tangent, to 2 ulp.
#[inline(always)]
pub fn tan(x: f64) -> f64 {
    let (t, lost, quadrant) = reduce(x);
    let (sin, cos) = (sine(t, lost), cosine(t, lost));
    let r = if quadrant & 1 != 0 { -cos / sin } else { sin / cos };
    if x == 0.0 { x } else { r }
}
