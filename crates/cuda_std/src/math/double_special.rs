//! Functions of doubles that build on others: multiples of π, the error function's relatives.

use super::double::{erf, erfc};
use super::double_exp::exp;
use super::double_log::log;
use super::hw::{self, fma64, horner64, mul64};
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

/// `x - k/2` for the nearest `k`, with the low bits of `k`; exact.
#[inline(always)]
fn reduce_pi(x: f64) -> (f64, u64) {
    // From 2^53 on all are even integers; infinities become NaN here.
    let x = if x.abs() < 9_007_199_254_740_992.0 { x } else { x * 0.0 };
    let k = hw::rint64(x + x);
    (fma64(k, -0.5, x), k as i64 as u64)
}

/// `sin(π (t + quadrant/2))` for `|t|` up to 1/4.
#[inline(always)]
fn sine_pi(t: f64, quadrant: u64) -> f64 {
    let s = mul64(t, t);
    let r = if quadrant & 1 != 0 {
        horner64!(s; 1.0, -4.934_802_200_544_679, 4.058_712_126_416_665, -1.335_262_768_843_089, 0.235_330_629_762_044_27, -0.025_806_875_172_839_968, 0.001_929_340_146_952_650_4, -0.000_102_980_199_438_296_59)
    } else {
        let r = horner64!(s; -5.167_712_780_049_97, 2.550_164_039_877_415, -0.599_264_529_327_833_9, 0.082_145_886_937_343_66, -0.007_370_438_457_435_342, 0.000_466_383_979_219_678_44, -2.218_518_747_783_970_5e-5);
        // π·t with the bits of π behind a double.
        fma64(t, PI, fma64(r, mul64(s, t), t * 1.224_646_799_147_353_2e-16))
    };
    f64::from_bits(r.to_bits() ^ (quadrant << 62 & 1 << 63))
}

/// `sin(πx)`, to 1 ulp.
#[inline(always)]
pub fn sinpi(x: f64) -> f64 {
    let (t, quadrant) = reduce_pi(x);
    // An integer's sine is the zero of its sign.
    if t == 0.0 && quadrant & 1 == 0 { x * 0.0 } else { sine_pi(t, quadrant) }
}

/// `cos(πx)`, to 1 ulp.
#[inline(always)]
pub fn cospi(x: f64) -> f64 {
    let (t, quadrant) = reduce_pi(x);
    let r = sine_pi(t, quadrant.wrapping_add(1));
    // Halves give +0.
    if r == 0.0 { 0.0 } else { r }
}

/// `sin(πx)` and `cos(πx)`, to 1 ulp.
#[inline(always)]
pub fn sincospi(x: f64) -> (f64, f64) {
    (sinpi(x), cospi(x))
}

/// Scaled complementary error function `e^(x²) erfc x`, to 4 ulp.
pub fn erfcx(x: f64) -> f64 {
    if x < 26.0 {
        let s = mul64(x, x);
        let e = exp(s);
        let e = fma64(e, fma64(x, x, -s), e);
        return if s > 709.7 && x < 0.0 { f64::INFINITY } else { e * erfc(x) };
    }
    // The asymptotic series (M. Abramowitz and I. Stegun, 1964, 7.1.23).
    let r = 1.0 / x;
    let s = mul64(r, r) * -0.5;
    let p = horner64!(s; 1.0, 1.0, 3.0, 15.0, 105.0, 945.0, 10_395.0);
    p * r * (0.5 * FRAC_2_SQRT_PI)
}

/// Inverse error function, to 5 ulp; NaN outside `[-1, 1]`.
pub fn erfinv(x: f64) -> f64 {
    let a = x.abs();
    if a <= 0.5 { near_zero(x) } else { erfcinv(1.0 - a).copysign(x) }
}

/// The inverse of `erf` for `|x|` up to 1/2: f32's, improved by a step of Halley's method.
fn near_zero(x: f64) -> f64 {
    if x.abs() < 1e-8 {
        return x / FRAC_2_SQRT_PI;
    }
    let y = f64::from(super::erf::erfinvf(x as f32));
    let d = (erf(y) - x) / (FRAC_2_SQRT_PI * exp(-y * y));
    y - d / fma64(y, d, 1.0)
}

/// Inverse complementary error function, to 6 ulp; NaN outside `[0, 2]`.
pub fn erfcinv(y: f64) -> f64 {
    if (y - 1.0).abs() <= 0.5 {
        return near_zero(1.0 - y);
    }
    let near = if y > 1.0 { 2.0 - y } else { y };
    let r = small_complement(near);
    if y > 1.0 { -r } else { r }
}

/// The inverse of `erfc` for `y` below 1/2.
fn small_complement(y: f64) -> f64 {
    if y == 0.0 {
        return f64::INFINITY;
    }
    // Solves -x² + log erfcx x = log y by Newton's method; the start is good to 5 bits or more.
    let target = log(y);
    let mut x = hw::sqrt64(-target);
    x -= 0.5 * log(3.0 * x + 1.0) / (x + 0.4);
    for _ in 0..4 {
        let scaled = erfcx(x);
        let square = mul64(x, x);
        let lost = fma64(x, x, -square);
        let g = (log(scaled) - target - square) - lost;
        // The derivative is -2/√π / erfcx x.
        x += g * scaled * (1.0 / FRAC_2_SQRT_PI);
    }
    x
}

/// Distribution function of the standard normal distribution, to 5 ulp.
pub fn normcdf(x: f64) -> f64 {
    // z + lost = -x/√2
    let z = mul64(x, -FRAC_1_SQRT_2);
    let lost = fma64(x, -FRAC_1_SQRT_2, -z);
    let lost = fma64(x, 4.833_646_656_726_457e-17, lost);
    let r = erfc(z);
    if x.abs() > 40.0 || x.is_nan() {
        return 0.5 * r;
    }
    // erfc(z + lost) = erfc z - lost·2/√π·e^(-z²) = erfc z (1 - lost·2/√π / erfcx z)
    let away = if z > -5.0 { lost * FRAC_2_SQRT_PI / erfcx(z) } else { 0.0 };
    0.5 * fma64(r, -away, r)
}

/// Inverse of [`normcdf`], to 8 ulp; NaN outside `[0, 1]`.
pub fn normcdfinv(p: f64) -> f64 {
    -SQRT_2 * erfcinv(p + p)
}
