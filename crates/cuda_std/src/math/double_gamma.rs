//! The gamma function of doubles and the logarithm of its magnitude.
//!
//! Stirling's formula with a polynomial in `1/x` in place of its divergent series, from 4 on, where
//! four steps of the recurrence lead; the power `x^(x-1/2) e^-x` is carried in two parts. Between
//! 1/2 and 5/2 the logarithm is its factors `(x-1) (x-2)` times a polynomial in `(x-1)/(x+1)`.
//! Negative arguments by Euler's reflection `Γ(x) Γ(-x) = -π / (x sin πx)`.

use super::double_exp::{LN_2_LO, near_one, nearest, power_of_two};
use super::double_log::{log, log_parts};
use super::double_trig::sinpi;
use super::hw::{fma64, horner64, mul64, rint64};
use super::newton::{quotient, reciprocal};
use core::f64::consts::{LN_2, LOG2_E, PI};

/// `Γ(a)·divisor = factor·e^r·2^k`.
struct Stirling {
    factor: f64,
    r: f64,
    k: i32,
    divisor: f64,
}

/// The parts of `Γ(a)`, for `a` from 1e-300 to 190.
#[inline(always)]
fn stirling(a: f64) -> Stirling {
    // Γ(a) = Γ(a + 4) / (a (a+1) (a+2) (a+3))
    let small = a < 4.0;
    let z = if small { a + 4.0 } else { a };
    let lost = if small { a - (z - 4.0) } else { 0.0 };
    let pair = fma64(a, a, a * 3.0);
    let divisor = if small { mul64(pair, pair + 2.0) } else { 1.0 };
    // (z - 1/2) log z - z in two parts; what the sum lost counts by the derivative.
    let (high, low) = log_parts(z);
    let b = z - 0.5;
    let product = mul64(b, high);
    let rest = fma64(b, low, fma64(b, high, -product));
    let sum = product - z;
    let rest = ((product - sum) - z) + fma64(lost, high, rest);
    let (k, whole) = nearest(sum + rest, LOG2_E);
    let r = fma64(whole, -LN_2, sum) + fma64(whole, -LN_2_LO, rest);
    let factor = horner64!(reciprocal(z); 2.5066282746310007, 0.20888568955258724, 0.008703570397154066, -0.0067210903973181696, -0.0005752047468794057, 0.0019653901708229587, 0.00017312840322428424, -0.001465249699629932, -0.0002781696255916799, 0.0028720146588246754, -0.0022859854828710144, -0.0009771605982422306, 0.0017636296732037732);
    Stirling { factor, r, k, divisor }
}

/// `y·2^k`, rounded once, for `y` near 1 and `|k|` up to 2000.
#[inline(always)]
fn scaled(y: f64, k: i32) -> f64 {
    let half = k >> 1;
    mul64(y, power_of_two(half)) * power_of_two(k.wrapping_sub(half))
}

/// Gamma function, to 10 ulp; NaN for negative integers and minus infinity.
#[inline(always)]
pub fn tgamma(x: f64) -> f64 {
    if x.abs() < 1e-300 {
        return 1.0 / x;
    }
    if x < 0.0 {
        return reflected(x);
    }
    // It overflows from 171.7 on.
    let Stirling { factor, r, k, divisor } = stirling(if x > 190.0 { 190.0 } else { x });
    scaled(mul64(quotient(factor, divisor), near_one(r)), k)
}

/// The gamma function of a negative number: `-π / (a sin πa Γ(a))`.
#[cold]
#[inline(never)]
fn reflected(x: f64) -> f64 {
    if x == rint64(x) {
        return f64::NAN;
    }
    let a = -x;
    let sine = sinpi(a);
    // From 185 on it is less than half the least subnormal.
    let a = if a > 190.0 { 190.0 } else { a };
    let Stirling { factor, r, k, divisor } = stirling(a);
    let part = -PI * (divisor / (mul64(a, sine) * factor));
    scaled(mul64(part, near_one(-r)), k.wrapping_neg())
}

/// Logarithm of the gamma function's magnitude, of a positive number to 4 ulp.
#[inline(always)]
pub fn lgamma(x: f64) -> f64 {
    let a = x.abs();
    let r = positive(a);
    if x < 0.0 { mirrored(a, r) } else { r }
}

/// `log |Γ(-a)|` from `r = log Γ(a)`.
#[cold]
#[inline(never)]
fn mirrored(a: f64, r: f64) -> f64 {
    let sine = sinpi(a).abs();
    if sine == 0.0 || a == f64::INFINITY {
        return f64::INFINITY;
    }
    // Of a tiny number the product would be subnormal.
    if a < 1e-300 { r } else { log(PI / (a * sine)) - r }
}

/// `log Γ(a)` for positive `a`; of zero infinity.
#[inline(always)]
fn positive(a: f64) -> f64 {
    let near_zero = a < 0.5;
    let large = a >= 2.5;
    let (high, low) = log_parts(a);
    // n is a - 1, or below 1/2 that of a + 1.
    let n = if near_zero { a } else { a - 1.0 };
    let inverse = reciprocal(if large { a } else { n + 2.0 });
    let t = mul64(n, inverse);
    let t = fma64(-fma64(t, n + 2.0, -n), inverse, t);
    let p = horner64!(t; 0.5772156649015329, -0.49050273704516056, 0.13123432641064767, -0.1682009506443018, 0.0870155672266058, -0.10147337756363149, 0.06462417152112054, -0.07249649427459522, 0.051359982938390676, -0.05633653316232238, 0.04260654503035034, -0.04604597148314417, 0.0363992820566853, -0.03889309269334478, 0.03176896193212879, -0.0339971978408394, 0.028458635494164865, -0.027863728625354602, 0.022334739644356272, -0.03192079996685684, 0.037113827445323176, -0.024198689289246872);
    // Of 1 it is +0.
    let middle = mul64(mul64(n, n - 1.0), p) + 0.0;
    let small = if near_zero { (middle - low) - high } else { middle };
    let p = horner64!(inverse; 0.4189385332046727, 0.08333333333333699, -6.6643221696711e-13, -0.0027777777301904545, -1.7592662640700489e-09, 0.000793689282882502, -5.343626964701839e-07, -0.0005903943265371227, -2.8156608938021124e-05, 0.0009334860027600798, -3.091083708835543e-05, -0.0031038728087830407, 0.005572365197521376, -0.004501668140220473, 0.0014947734999092143);
    // (a - 1/2) (log a - 1) + p
    let above = fma64(a - 0.5, (high - 1.0) + low, p);
    let r = if large { above } else { small };
    if (a > 0.0) & (a < f64::INFINITY) { r } else { a + f64::INFINITY }
}
