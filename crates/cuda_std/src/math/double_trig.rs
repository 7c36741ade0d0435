//! Sine, cosine and tangent of doubles, of radians and of multiples of π.
//!
//! As in f32: three parts of π/2 up to 2^30 (W. J. Cody and W. Waite, 1980), an integer product
//! with the bits of 2/π above (M. Payne and R. Hanek, 1983). What the reduced argument has lost is
//! kept in a second number.

use super::double_exp::ROUND;
use super::hw::{self, fma64, horner64, mul64};
use super::newton::quotient;
use core::f64::consts::{FRAC_PI_2, PI};

const FRAC_PI_2_MID: f64 = 6.123_233_995_736_766e-17;
const FRAC_PI_2_LO: f64 = -1.497_384_904_859_169_8e-33;

/// The first bits of 2/π after 64 zeros.
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

/// Up to here three parts of π/2 are enough: 2^30.
const LARGE: f64 = 1_073_741_824.0;

/// `x - k·π/2` for the nearest `k`, with the low bits of `k`; of a zero the positive zero. `x` is not negative.
#[inline(always)]
fn reduce(x: f64) -> (f64, u64) {
    if !(x < LARGE) {
        let (t, lost, quadrant) = reduce_large(x);
        return (t - lost, quadrant);
    }
    let j = fma64(x, core::f64::consts::FRAC_2_PI, ROUND);
    let k = j - ROUND;
    let t = fma64(k, -FRAC_PI_2_MID, fma64(k, -FRAC_PI_2, x));
    (fma64(k, -FRAC_PI_2_LO, t), j.to_bits())
}

/// The same in two parts `t - lost`.
#[inline(always)]
fn reduce_in_two(x: f64) -> (f64, f64, u64) {
    if !(x < LARGE) {
        return reduce_large(x);
    }
    let j = fma64(x, core::f64::consts::FRAC_2_PI, ROUND);
    let k = j - ROUND;
    let first = fma64(k, -FRAC_PI_2, x);
    let t = fma64(k, -FRAC_PI_2_MID, first);
    let lost = fma64(k, FRAC_PI_2_MID, t - first);
    (t, fma64(k, FRAC_PI_2_LO, lost), j.to_bits())
}

/// The same for every positive `x` from 1/2 on: NaN for what is not finite.
///
/// Inline, rare as it is: a call would cost the caller the constants that it holds in registers.
#[inline(always)]
fn reduce_large(x: f64) -> (f64, f64, u64) {
    let bits = x.to_bits();
    let exponent = bits >> 52 & 0x7ff;
    // |x| = mantissa · 2^(exponent - 1086). 192 bits of 2/π matter: those before give multiples of
    // 4.
    let mantissa = u128::from(bits << 11 | 1 << 63);
    let (word, shift) = ((exponent - 1024) as usize >> 6, exponent as u32 & 63);
    // SAFETY: an exponent has 11 bits, so that `word` is 15 at most, and `i` is 3 at most.
    let word = |i: usize| unsafe { *TWO_OVER_PI.get_unchecked((word & 15) + i) };
    let at = |i: usize| word(i) << shift | word(i + 1) >> 1 >> (63 - shift);
    let low = (mantissa * u128::from(at(2))) >> 64;
    let middle = mantissa * u128::from(at(1)) + low;
    // In units of 2^-126, modulo 4.
    let product = (mantissa * u128::from(at(0)) << 64).wrapping_add(middle);
    let quadrant = ((product >> 125) as u64 + 1) >> 1;
    let (t, lost) = quarter_turns((product << 2) as i128);
    // Not by the exponent: the caller's `x` is an absolute value, of which LLVM knows that its sign is 0, so that it leaves the
    // mask of the exponent out, and `abs.f64` keeps the sign of a NaN.
    let finite = x < f64::INFINITY;
    (if finite { t } else { f64::NAN }, lost, quadrant)
}

/// `rest · 2^-128 · π/2` in two parts `t - lost`.
#[inline(always)]
fn quarter_turns(rest: i128) -> (f64, f64) {
    // Four digits of 32 bits, added from the top with what rounding leaves (T. J. Dekker, 1971).
    let digit = |i: u32| f64::from((rest >> (32 * i)) as u32);
    let top = f64::from((rest >> 96) as i32) * TWO_TO_32;
    let high = top + digit(2);
    let left = digit(2) - (high - top);
    let low = left + fma64(digit(0), 1.0 / TWO_TO_32, digit(1)) * (1.0 / TWO_TO_32);
    let sum = high + low;
    let low = low - (sum - high);
    let t = mul64(sum, UNIT);
    let lost = fma64(sum, -UNIT, t);
    (t, lost - fma64(sum, UNIT_LO, low * UNIT))
}

const TWO_TO_32: f64 = 4_294_967_296.0;
/// π/2 · 2^-64.
const UNIT: f64 = FRAC_PI_2 / (TWO_TO_32 * TWO_TO_32);
const UNIT_LO: f64 = FRAC_PI_2_MID / (TWO_TO_32 * TWO_TO_32);

/// Two coefficients, which one load brings.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Pair(f64, f64);

/// The coefficients of a series in `s = t²`, lowest power first.
#[repr(C, align(64))]
struct Series([Pair; 4]);

/// `(cos(t) - 1) / s` and `(sin(t) / t - 1) / s`, for `|t|` up to π/4.
static SERIES: [Series; 2] = [
    Series([
        Pair(-0.5, 0.041_666_666_666_666_65),
        Pair(-0.001_388_888_888_888_167_5, 2.480_158_729_363_239_5e-5),
        Pair(-2.755_731_542_862_696e-7, 2.087_585_651_272_130_7e-9),
        Pair(-1.136_599_968_024_312_5e-11, 0.0),
    ]),
    Series([
        Pair(-0.166_666_666_666_666_32, 0.008_333_333_333_322_455),
        Pair(-0.000_198_412_698_298_132_3, 2.755_731_368_744_603_4e-6),
        Pair(-2.505_075_668_655_901_4e-8, 1.589_667_988_019_612_1e-10),
        Pair(0.0, 0.0),
    ]),
];

/// The series of cosine or sine at `s`.
#[inline(always)]
fn series(s: f64, is_sine: bool) -> f64 {
    let Series([Pair(a, b), Pair(c, d), Pair(e, f), Pair(g, _)]) = &SERIES[usize::from(is_sine)];
    horner64!(s; *a, *b, *c, *d, *e, *f, *g)
}

/// `cos(t)` or `sin(t)` for `|t|` up to π/4.
#[inline(always)]
fn cosine_or_sine(t: f64, is_sine: bool) -> f64 {
    let s = mul64(t, t);
    let first = if is_sine { t } else { 1.0 };
    fma64(series(s, is_sine), mul64(s, first), first)
}

/// `r` with its sign changed in the lower two quadrants.
#[inline(always)]
fn signed(r: f64, quadrant: u64) -> f64 {
    f64::from_bits(r.to_bits() ^ (quadrant << 62 & 1 << 63))
}

/// `r` with its sign changed if that of `x` is set: an odd function of `|x|` becomes that of `x`.
#[inline(always)]
fn odd(r: f64, x: f64) -> f64 {
    f64::from_bits(r.to_bits() ^ (x.to_bits() & 1 << 63))
}

/// `sin(t + quadrant·π/2)`. The lanes of a warp need different series: each takes the coefficients of its own.
#[inline(always)]
fn turned(t: f64, quadrant: u64) -> f64 {
    signed(cosine_or_sine(t, quadrant & 1 == 0), quadrant)
}

/// Sine and cosine of `t + quadrant·π/2`: both series.
#[inline(always)]
fn both_turned(t: f64, quadrant: u64) -> (f64, f64) {
    let (sin, cos) = (cosine_or_sine(t, true), cosine_or_sine(t, false));
    let (sin, cos) = if quadrant & 1 != 0 { (cos, sin) } else { (sin, cos) };
    (signed(sin, quadrant), signed(cos, quadrant.wrapping_add(1)))
}

/// Sine and cosine, to 1 ulp.
#[inline(always)]
pub fn sincos(x: f64) -> (f64, f64) {
    let (t, quadrant) = reduce(x.abs());
    let (sin, cos) = both_turned(t, quadrant);
    (odd(sin, x), cos)
}

/// Sine, to 1 ulp.
#[inline(always)]
pub fn sin(x: f64) -> f64 {
    let (t, quadrant) = reduce(x.abs());
    odd(turned(t, quadrant), x)
}

/// Cosine, to 1 ulp.
#[inline(always)]
pub fn cos(x: f64) -> f64 {
    let (t, quadrant) = reduce(x.abs());
    turned(t, quadrant.wrapping_add(1))
}

/// Tangent, to 2 ulp.
#[inline(always)]
pub fn tan(x: f64) -> f64 {
    let (t, lost, quadrant) = reduce_in_two(x.abs());
    let s = mul64(t, t);
    let sin = t + fma64(series(s, true), mul64(s, t), -lost);
    let cos = fma64(t, lost, fma64(series(s, false), s, 1.0));
    let (n, d) = if quadrant & 1 != 0 { (-cos, sin) } else { (sin, cos) };
    odd(quotient(n, d), x)
}

/// `x` less the nearest even integer: exact, and NaN of infinities.
#[inline(always)]
fn without_turns(x: f64) -> f64 {
    fma64(hw::rint64(x * 0.5), -2.0, x)
}

/// `π(x - k/2)` for the nearest `k`, with the low bits of `k`. `x` is not negative.
#[inline(always)]
fn reduce_pi(x: f64) -> (f64, u64) {
    // 2^50
    let x = if x < 1_125_899_906_842_624.0 { x } else { without_turns(x) };
    let j = fma64(x, 2.0, ROUND);
    let t = fma64(j - ROUND, -0.5, x);
    (fma64(t, PI, mul64(t, PI_LO)), j.to_bits())
}

/// π less its nearest double.
const PI_LO: f64 = 1.224_646_799_147_353_2e-16;

/// `sin(πx)`, to 1 ulp. An integer's sine is the zero of its sign.
#[inline(always)]
pub fn sinpi(x: f64) -> f64 {
    let (t, quadrant) = reduce_pi(x.abs());
    odd(positive_zero(turned(t, quadrant)), x)
}

/// `cos(πx)`, to 1 ulp. Its zeros are positive.
#[inline(always)]
pub fn cospi(x: f64) -> f64 {
    let (t, quadrant) = reduce_pi(x.abs());
    positive_zero(turned(t, quadrant.wrapping_add(1)))
}

/// `sin(πx)` and `cos(πx)`, to 1 ulp.
#[inline(always)]
pub fn sincospi(x: f64) -> (f64, f64) {
    let (t, quadrant) = reduce_pi(x.abs());
    let (sin, cos) = both_turned(t, quadrant);
    (odd(positive_zero(sin), x), positive_zero(cos))
}

/// `r`, but the positive zero for either zero.
#[inline(always)]
fn positive_zero(r: f64) -> f64 {
    r + 0.0
}
