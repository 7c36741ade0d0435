//! The error function of doubles, its complements and inverses, and the normal distribution's.
//!
//! `erf a = 1 - e^-g` with a polynomial `g` of `a` that has no constant, so that small arguments
//! keep their last bits. As in f32, `erfc a` is `e^(-a²)` times `erfcx a`, which is a polynomial in
//! `(a-4)/(a+4)` over `1 + 2a` (M. M. Shepherd and J. G. Laframboise, 1981). The inverses take
//! steps of Newton's method.

use super::double_exp::{
    LN_2_LO, exp, nearest, power_of_two, reduced, small_expm1, small_expm1_parts,
};
use super::double_log::log;
use super::hw::{self, fma64, horner64, mul64};
use super::newton::reciprocal;
use core::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2, LOG2_E, SQRT_2};

/// Error function, to 1 ulp.
#[inline(always)]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    // From there on it is 1.
    let a = if a > 5.93 { 5.93 } else { a };
    let p = horner64!(a; 0.6366197723675898, 0.10277260330135819, -0.01912844699383314, -0.00020919484667617115, 0.0016962076246542174, -0.0005901322376394787, 2.5903912574218655e-05, 6.442180002409589e-05, -2.9577951350706507e-05, 3.172713553805564e-06, 3.1297818002534747e-06, -2.0345532480062344e-06, 5.688916861906305e-07, -1.0788940903488301e-08, -6.612138440122891e-08, 3.4715019421598354e-08, -1.0807805466807339e-08, 2.3676047847035816e-09, -3.771799963339362e-10, 4.314502359400996e-11, -3.3744204045922667e-12, 1.6197863168613635e-13, -3.60332585779423e-15);
    // g + lost = 2/√π·a + p·a²
    let rest = mul64(mul64(a, a), p);
    let g = fma64(a, FRAC_2_SQRT_PI, rest);
    let lost = fma64(a, FRAC_2_SQRT_PI, -g) + rest;
    // 1 - e^-(g + lost)
    let (k, whole) = nearest(g, -LOG2_E);
    let r = fma64(whole, -LN_2, -g);
    let lost = fma64(whole, -LN_2_LO, -lost);
    let s = power_of_two(k);
    fma64(-s, small_expm1_parts(r, lost), 1.0 - s).copysign(x)
}

/// `e^(a²) erfc a`, for `a` from 0 to 27.4; of 0 exactly 1.
#[inline(always)]
fn scaled(a: f64) -> f64 {
    // t = (a-4)/(a+4), improved once: a (1-t) - 4 (1+t) is what it leaves.
    let r = reciprocal(a + 4.0);
    let t = fma64(r, -8.0, 1.0);
    let rest = fma64(-t, a, fma64(t, -4.0, -4.0) + a);
    let t = fma64(rest, r, t);
    let p = horner64!(t; 1.2329951186255526, -0.13962111684056286, 0.015379652102620647, 0.06809705425473316, -0.10103906603634989, 0.09373283499692292, -0.0663303658115036, 0.03716751556069935, -0.01619773406028909, 0.005031969769193775, -0.000757773327990215, -0.00019925556340530295, 0.0001506221681076482, -2.4403038905805654e-05, -1.122454980656166e-05, 5.717748154502912e-06, 3.009252998202497e-07, -8.35185715209092e-07, 6.309394927791181e-08, 1.1553871769279446e-07, -7.833429257056903e-09, -1.3792181280374634e-08, -1.848510335993042e-09);
    // p/(1 + 2a), whose sum would round in the rest.
    let inverse = reciprocal(fma64(a, 2.0, 1.0));
    let q = mul64(p, inverse);
    fma64(fma64(q, a * -2.0, p - q), inverse, q)
}

/// `y·e^(-a²)`, for `a` up to 27.4 and `y` from 2^-50 to 2.
#[inline(always)]
fn times_gauss(y: f64, a: f64) -> f64 {
    let s = mul64(a, a);
    let lost = fma64(a, a, -s);
    let (r, k) = reduced(-s);
    let m = small_expm1(r - lost);
    // The last factor carries the underflow.
    fma64(y, m, y) * power_of_two(k.wrapping_add(128)) * TWO_TO_MINUS_128
}

/// 2^-128.
const TWO_TO_MINUS_128: f64 = 2.938_735_877_055_718_8e-39;

/// Complementary error function, to 3 ulp.
#[inline(always)]
pub fn erfc(x: f64) -> f64 {
    let a = x.abs();
    // From 27.3 on it is less than half the least subnormal.
    let a = if a > 27.3 { 27.3 } else { a };
    let r = times_gauss(scaled(a), a);
    if x < 0.0 { 2.0 - r } else { r }
}

/// Scaled complementary error function `e^(x²) erfc x`, to 4 ulp.
pub fn erfcx(x: f64) -> f64 {
    let a = x.abs();
    if a < 27.0 {
        let r = scaled(a);
        if x >= 0.0 {
            return r;
        }
        let s = mul64(x, x);
        let e = exp(s);
        let e = fma64(e, fma64(x, x, -s), e);
        return if s > 709.7 { f64::INFINITY } else { e + (e - r) };
    }
    if x < 0.0 {
        return f64::INFINITY;
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
#[inline(always)]
pub fn normcdf(x: f64) -> f64 {
    // z + lost = -x/√2; from 38.6 on the result is 0 or 1.
    let x = if x > 38.6 {
        38.6
    } else if x < -38.6 {
        -38.6
    } else {
        x
    };
    let z = mul64(x, -FRAC_1_SQRT_2);
    let lost = fma64(x, -FRAC_1_SQRT_2, -z);
    let lost = fma64(x, 4.833_646_656_726_457e-17, lost);
    // erfc(z + lost) = erfc z - lost·2/√π·e^(-z²)
    let away = if z < 0.0 { -lost } else { lost };
    let scaled = fma64(away, -FRAC_2_SQRT_PI, scaled(z.abs()));
    let r = times_gauss(0.5 * scaled, z.abs());
    if z < 0.0 { 1.0 - r } else { r }
}

/// Inverse of [`normcdf`], to 8 ulp; NaN outside `[0, 1]`.
pub fn normcdfinv(p: f64) -> f64 {
    -SQRT_2 * erfcinv(p + p)
}
