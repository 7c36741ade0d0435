//! Sine, cosine and tangent, of radians and of multiples of π.
//!
//! The argument is reduced to `[-π/4, π/4]` and a quadrant: up to 105,615 by three fmas with the
//! parts of π/2 (W. J. Cody and W. Waite, 1980), above by an exact integer product with the bits of
//! 2/π (M. Payne and R. Hanek, "Radian reduction for trigonometric functions", 1983). Sine and
//! cosine are one polynomial each, whose coefficients the quadrant selects.

use super::exp::ROUND;
use super::hw::{self, fma, horner, mul, rint};

/// Above this the three parts of π/2 are not enough.
const LARGE: f32 = 105_615.0;

/// The first bits of 2/π after 32 zeros.
static TWO_OVER_PI: [u32; 7] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041];

/// `x - k·π/2` for the nearest `k`, with the low bits of `k`.
#[inline(always)]
pub(crate) fn reduce(x: f32) -> (f32, u32) {
    if !(x.abs() <= LARGE) {
        return reduce_large(x);
    }
    let j = fma(x, core::f32::consts::FRAC_2_PI, ROUND);
    let k = j - ROUND;
    let t = fma(k, -1.570_796_2, x);
    let t = fma(k, -7.549_789_4e-8, t);
    (fma(k, -5.390_303e-15, t), j.to_bits())
}

/// The same for every `x` from 2 on: NaN for what is not finite.
///
/// Inline, rare as it is: around a call every caller would keep its numbers in local memory.
#[inline(always)]
fn reduce_large(x: f32) -> (f32, u32) {
    let bits = x.to_bits();
    let exponent = bits >> 23 & 0xff;
    // |x| = mantissa · 2^(exponent - 158). 96 bits of 2/π matter: those before give multiples of 4.
    let mantissa = u64::from(bits << 8 | 0x8000_0000);
    let (first, shift) = (((exponent - 128) >> 5) as usize, exponent & 31);
    // SAFETY: masked, `first` is 3 at most, as it is of an exponent of 8 bits; `i` is 3 at most.
    let word = |i: usize| unsafe { *TWO_OVER_PI.get_unchecked((first & 3) + i) };
    let at = |i: usize| {
        let pair = u64::from(word(i)) << 32 | u64::from(word(i + 1));
        (pair << shift) >> 32
    };
    let low = (mantissa * at(2)) >> 32;
    let middle = mantissa * at(1) + low;
    // In units of 2^-62, modulo 4.
    let product = (mantissa * at(0)).wrapping_shl(32).wrapping_add(middle);
    let quadrant = (((product >> 61) + 1) >> 1) as u32;
    let turns = (product << 2) as i64 as f64;
    let rest = (turns * (core::f64::consts::FRAC_PI_2 / 18_446_744_073_709_551_616.0)) as f32;
    let rest = if exponent == 0xff { f32::NAN } else { rest };
    if x < 0.0 { (-rest, 0u32.wrapping_sub(quadrant)) } else { (rest, quadrant) }
}

/// `sin(t + quadrant·π/2)` for `|t|` up to π/4.
#[inline(always)]
fn sine(t: f32, quadrant: u32) -> f32 {
    let s = mul(t, t);
    let odd = quadrant & 1 != 0;
    let r = if odd { fma(2.443_066_1e-5, s, -0.001_388_730_1) } else { -0.000_195_184_05 };
    let r = fma(r, s, if odd { 0.041_666_646 } else { 0.008_332_19 });
    let r = fma(r, s, if odd { -0.5 } else { -0.166_666_55 });
    let t = if odd { 1.0 } else { t };
    // The added zero makes the product's zero positive, and the sum's that of `t`.
    let r = fma(r, fma(s, t, 0.0), t);
    f32::from_bits(r.to_bits() ^ ((quadrant << 30) & 0x8000_0000))
}

/// Sine, to 2 ulp.
#[inline(always)]
pub fn sinf(x: f32) -> f32 {
    let (t, quadrant) = reduce(x);
    sine(t, quadrant)
}

/// Cosine, to 2 ulp.
#[inline(always)]
pub fn cosf(x: f32) -> f32 {
    let (t, quadrant) = reduce(x);
    sine(t, quadrant.wrapping_add(1))
}

/// Sine and cosine, to 2 ulp.
#[inline(always)]
pub fn sincosf(x: f32) -> (f32, f32) {
    let (t, quadrant) = reduce(x);
    both(t, quadrant)
}

/// Sine and cosine of `t + quadrant·π/2`.
#[inline(always)]
fn both(t: f32, quadrant: u32) -> (f32, f32) {
    let s = mul(t, t);
    let sin = horner!(s; -0.166_666_55, 0.008_332_19, -0.000_195_184_05);
    let sin = fma(sin, fma(s, t, 0.0), t);
    let cos = horner!(s; 1.0, -0.5, 0.041_666_646, -0.001_388_730_1, 2.443_066_1e-5);
    let (sin, cos) = if quadrant & 1 != 0 { (cos, sin) } else { (sin, cos) };
    let sin = sin.to_bits() ^ ((quadrant << 30) & 0x8000_0000);
    let cos = cos.to_bits() ^ ((quadrant.wrapping_add(1) << 30) & 0x8000_0000);
    (f32::from_bits(sin), f32::from_bits(cos))
}

/// Tangent, to 4 ulp.
#[inline(always)]
pub fn tanf(x: f32) -> f32 {
    let (t, quadrant) = reduce(x);
    let s = mul(t, t);
    let p = horner!(s; 0.333_331_56, 0.133_388_46, 0.053_406_887, 0.024_447_106, 0.003_091_147_6, 0.009_403_176);
    let r = fma(p, mul(s, t), t);
    if quadrant & 1 != 0 { -hw::rcp(r) } else { r }
}

/// `x - k/2` for the nearest `k`, with the low bits of `k`; exact, and NaN of infinities.
#[inline(always)]
fn reduce_pi(x: f32) -> (f32, u32) {
    // Less the nearest even integer, since the sum would not hold a large `k`.
    let x = fma(rint(x * 0.5), -2.0, x);
    let j = fma(x, 2.0, ROUND);
    (fma(j - ROUND, -0.5, x), j.to_bits())
}

/// `sin(π (t + quadrant/2))` for `|t|` up to 1/4.
#[inline(always)]
fn sine_pi(t: f32, quadrant: u32) -> f32 {
    let s = mul(t, t);
    let odd = quadrant & 1 != 0;
    let r = if odd { fma(0.228_754_76, s, -1.334_736_2) } else { -0.589_245_5 };
    let r = fma(r, s, if odd { 4.058_696_3 } else { 2.549_793_2 });
    let r = fma(r, s, if odd { -4.934_802 } else { -5.167_709 });
    let r = if odd {
        fma(r, s, 1.0)
    } else {
        fma(t, core::f32::consts::PI, fma(r, mul(s, t), t * PI_LO))
    };
    f32::from_bits(r.to_bits() ^ ((quadrant << 30) & 0x8000_0000))
}

/// π less its nearest float.
const PI_LO: f32 = -8.742_278e-8;

/// `sin(πx)`, to 1 ulp.
#[inline(always)]
pub fn sinpif(x: f32) -> f32 {
    let (t, quadrant) = reduce_pi(x.abs());
    // The added zero makes an integer's zero positive, before it gets the sign of `x`.
    let r = sine_pi(t, quadrant) + 0.0;
    f32::from_bits(r.to_bits() ^ x.to_bits() & 1 << 31)
}

/// `cos(πx)`, to 1 ulp.
#[inline(always)]
pub fn cospif(x: f32) -> f32 {
    let (t, quadrant) = reduce_pi(x);
    let r = sine_pi(t, quadrant.wrapping_add(1));
    // Halves give +0.
    r + 0.0
}

/// `sin(πx)` and `cos(πx)`, to 1 ulp.
#[inline(always)]
pub fn sincospif(x: f32) -> (f32, f32) {
    (sinpif(x), cospif(x))
}
