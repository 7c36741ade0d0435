//! The gamma function and the logarithm of its magnitude.
//!
//! `1/Γ(1+t)` is a polynomial for `|t|` up to 1/2, from which the recurrence leads to arguments up
//! to 4.5; from there on Stirling's formula, with the power in two parts. Negative arguments by
//! Euler's reflection `Γ(x) Γ(-x) = -π / (x sin πx)`.

use super::double_gamma::lgamma;
use super::exp::ROUND;
use super::hw::{self, fma, horner, mul, rint};
use super::log::logf;
use super::pow::log2_parts;
use super::trig::sinpif;

/// `1/Γ(1+t)`, for `|t|` up to 1/2.
#[inline(always)]
fn reciprocal(t: f32) -> f32 {
    let p = horner!(t; 0.577_215_7, -0.655_877_9, -0.042_003_04, 0.166_531_65, -0.042_191_65, -0.009_539_44, 0.007_186_511, -0.001_551_993_2, -0.000_163_329_45, 0.000_754_093_75);
    fma(p, t, 1.0)
}

/// `Γ(a) = 2^(high + low)·factor`, for `a` from 3.5.
#[inline(always)]
fn stirling(a: f32) -> (f32, f32, f32) {
    let u = hw::rcp(a);
    let p = horner!(u; 0.083_333_04, 0.003_482_593, -0.002_795_204_8, 0.000_271_300_96);
    // √(2π) (1 + u p)
    let factor = fma(mul(u, p), 2.506_628_3, 2.506_628_3);
    // (a - 1/2) log2 a - a log2 e, in two parts.
    let (high, low) = log2_parts(a);
    let b = a - 0.5;
    let product = mul(b, high);
    let rest = fma(b, low, fma(b, high, -product));
    let other = mul(a, 1.442_695);
    let other_rest = fma(a, 1.925_963e-8, fma(a, 1.442_695, -other));
    let sum = product - other;
    let lost = ((product - sum) - other) + rest;
    (sum, lost - other_rest, factor)
}

/// Gamma function, to 5 ulp; NaN for negative integers and minus infinity.
#[inline(always)]
pub fn tgammaf(x: f32) -> f32 {
    let a = x.abs();
    if a < 4.5 { small_gamma(x) } else { large_gamma(x) }
}

/// The gamma function of `|x|` up to 4.5.
#[inline(always)]
fn small_gamma(x: f32) -> f32 {
    let k = rint(x);
    // x = k + t
    let t = if k == 0.0 { x } else { x - k };
    let r = reciprocal(t);
    // Γ(1+t) times (t+1)…(x-1), or over x…t.
    let mut product = 1.0;
    let mut z = x;
    while z - t > 1.5 {
        z -= 1.0;
        product = mul(product, z);
    }
    if k > 0.5 {
        return mul(product, hw::rcp(r));
    }
    while z - t < -0.5 {
        product = mul(product, z);
        z += 1.0;
    }
    let poles = t == 0.0 && x < 0.0;
    if poles { f32::NAN } else { 1.0 / mul(mul(product, t), r) }
}

/// The gamma function of `|x|` from 4.5 on, and of NaN.
#[inline(always)]
fn large_gamma(x: f32) -> f32 {
    let a = x.abs();
    // Γ overflows from 35.04 on, and its reciprocal is 0 from 42 on.
    let (high, low, factor) = stirling(a.min(50.0));
    if x > 0.0 {
        return scaled_power(high, low, factor);
    }
    if x.is_nan() || x == rint(x) {
        return f32::NAN;
    }
    // -π / (a sin πa Γ(a))
    let sine = sinpif(a);
    let r = mul(mul(a.min(50.0), sine), factor);
    scaled_power(-high, -low, -core::f32::consts::PI / r)
}

/// `2^(high + low)·factor`, rounded once if it is subnormal.
#[inline(always)]
fn scaled_power(high: f32, low: f32, factor: f32) -> f32 {
    let j = high + ROUND;
    let m = hw::ex2((high - (j - ROUND)) + low);
    let k = (j.to_bits() << 9) as i32 >> 9;
    let half = k >> 1;
    let scale = |k: i32| f32::from_bits(((k + 127) as u32) << 23);
    mul(mul(m, factor), scale(half)) * scale(k - half)
}

/// Logarithm of the gamma function's magnitude, to 6 ulp.
#[inline(always)]
pub fn lgammaf(x: f32) -> f32 {
    let a = x.abs();
    if x < 0.0 {
        return mirrored(x);
    }
    let r = positive(a);
    if x.is_infinite() { f32::INFINITY } else { r }
}

/// The same for negative `x`: the zeros between the poles need what only doubles have.
#[cold]
#[inline(never)]
fn mirrored(x: f32) -> f32 {
    lgamma(x.into()) as f32
}

/// `log Γ(a)` for positive `a`.
#[inline(always)]
fn positive(a: f32) -> f32 {
    if a < 1.5 {
        let near = a < 0.5;
        let t = if near { a } else { a - 1.0 };
        let p = horner!(t; -0.577_215_7, 0.822_468_4, -0.400_686_03, 0.270_474_97, -0.207_295_97, 0.171_809_84, -0.146_388_13, 0.106_631_62, -0.089_627_21, 0.163_129_84, -0.170_536_19, 0.037_546_203);
        if near { fma(p, t, -logf(a)) } else { mul(p, t) + 0.0 }
    } else if a < 3.5 {
        let t = a - 2.0;
        let p = horner!(t; 0.422_784_33, 0.322_467_03, -0.067_352_146, 0.020_580_828, -0.007_385_379, 0.002_889_956_3, -0.001_199_304_6, 0.000_521_860_1, -0.000_215_992_07, 6.558_269e-5, -9.574_712e-6);
        mul(p, t)
    } else if a < 8.0 {
        let t = a - 5.75;
        horner!(t; 4.366_716_4, 1.659_730_6, 0.094_951_324, -0.005_994_080_6, 0.000_568_312_36, -6.302_878e-5, 7.089_284_3e-6, -1.331_113_7e-6, 2.668_578_5e-7)
    } else {
        let u = hw::rcp(a);
        let p = mul(u, fma(mul(u, u), -0.002_759_802_2, 0.083_333_24));
        // (a - 1/2)(log a - 1) + (log 2π - 1)/2 + p
        let p = p + 0.418_938_53;
        let l = logf(a) - 1.0;
        fma(a - 0.5, l, p)
    }
}
