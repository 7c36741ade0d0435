//! The error function, its complements and inverses, and the normal distribution's.
//!
//! `erfcx x = e^(x²) erfc x` is a polynomial in `(x-2)/(x+2)` over `1 + 2x` (M. M. Shepherd and J.
//! G. Laframboise, "Chebyshev approximation of (1+2x) exp(x²) erfc x in 0 ≤ x < ∞", 1981); `erfc`
//! is that times `e^(-x²)`, with the rounding error of the square put back. The inverses are
//! polynomials in `log(1-x²)`, after M. Giles, "Approximating the erfinv function", 2011.

use core::f32::consts::LOG2_E;

use super::exp::{LN_2, LN_2_LO, ROUND, expf};
use super::hw::{self, fma, horner, mul};
use super::log::logf;

/// `erf x / x - 1`, for `|x|` up to 0.925.
#[inline(always)]
fn small(x: f32) -> f32 {
    let s = mul(x, x);
    horner!(s; 0.128_379_15, -0.376_124_95, 0.112_818_05, -0.026_765_805, 0.004_991_641_3, -0.000_598_180_75)
}

/// Error function, to 2 ulp.
#[inline(always)]
pub fn erff(x: f32) -> f32 {
    let a = x.abs();
    // log2 of erfc, which is below 2^-25 from 4 on.
    let b = if a > 4.0 { 4.0 } else { a };
    let large = horner!(b; -0.000_298_794_9, -1.626_821_9, -0.919_381_1, -0.149_832_31, 0.032_012_753, -0.004_376_625_6, 0.000_281_243_8);
    let large = 1.0 - hw::ex2(large);
    if a < 0.925 { fma(small(x), x, x) } else { large.copysign(x) }
}

/// `e^(a²) erfc a`, for `a` from 0 to 2^100.
#[inline(always)]
fn scaled(a: f32) -> f32 {
    // t = (a-2)/(a+2), improved once.
    let (d, n) = (a + 2.0, a - 2.0);
    let r = hw::rcp(d);
    let t = mul(n, r);
    let t = fma(fma(-t, d, n), r, t);
    let p = horner!(t; 1.276_978_4, -0.092_763_714, -0.166_030_45, 0.164_048_79, -0.054_216_22, -0.008_015_56, 0.008_699_714, 0.001_209_719_2, -0.001_406_776, -0.000_350_157_82, 0.000_164_959_27, 6.050_644e-5);
    let d = fma(a, 2.0, 1.0);
    let r = hw::rcp(d);
    let q = mul(p, r);
    fma(fma(-q, d, p), r, q)
}

/// 2^-64.
const TWO_TO_MINUS_64: f32 = 5.421_010_9e-20;

/// `(m, s)` with `m·s·2^-64 = e^(-a²)` for `a` up to 10.5: `s` is a power of two, and the last
/// factor carries the underflow.
#[inline(always)]
fn gauss(a: f32) -> (f32, f32) {
    let s = mul(a, a);
    let lost = fma(a, a, -s);
    let j = fma(s, -LOG2_E, ROUND + 191.0);
    // The exponential's own error would be too much: a polynomial for 2^-k e^-s.
    let k = j - (ROUND + 191.0);
    let r = fma(k, -LN_2_LO, fma(k, -LN_2, -s));
    let p = horner!(r; 1.0, 1.0, 0.5, 0.166_666_66, 0.041_666_48, 0.008_333_688, 0.001_393_441_9, 0.000_196_346_95);
    (fma(p, -lost, p), f32::from_bits(j.to_bits() << 23))
}

/// Complementary error function, to 4 ulp.
#[inline(always)]
pub fn erfcf(x: f32) -> f32 {
    let a = x.abs();
    // From 10.1 on it is less than half the least subnormal.
    let b = if a > 10.5 { 10.5 } else { a };
    let (m, s) = gauss(b);
    let r = mul(mul(scaled(b), m), s) * TWO_TO_MINUS_64;
    let r = if x < 0.0 { 2.0 - r } else { r };
    // Around 0 the subtraction is exacter.
    let small = 1.0 - fma(small(x), x, x);
    if a < 0.5 { small } else { r }
}

/// Scaled complementary error function `e^(x²) erfc x`, to 4 ulp.
#[inline(always)]
pub fn erfcxf(x: f32) -> f32 {
    let a = x.abs();
    // Above, 1/(x √π).
    let huge = a > 1e10;
    let r = if huge { hw::rcp(a * 0.25) * 0.141_047_4 } else { scaled(a) };
    if x < 0.0 {
        let s = mul(a, a);
        let e = expf(s);
        let e = fma(e, fma(a, a, -s), e);
        if s > 88.5 { f32::INFINITY } else { e + (e - r) }
    } else {
        r
    }
}

/// `erfinv x` for the `l = log2(1-x²)`, from [`TAIL`] on.
#[inline(always)]
fn central(x: f32, l: f32) -> f32 {
    let p = horner!(l; -0.16081965, 0.005548828, 0.00077770103, -2.9206609e-05, -7.044822e-06, 4.614765e-07, 1.5459281e-07, 1.1971019e-08, 3.3057723e-10);
    // √π/2 in two parts
    fma(x, 0.886_226_9, mul(fma(p, l, 3.298_144_5e-8), x))
}

/// -5, as a logarithm to base 2.
const TAIL: f32 = -7.213_475;

/// `erfcinv(y)` for the `w = -log(y (2-y))` of `y` below 1, from `w` = 5 on.
#[inline(always)]
fn tail(w: f32) -> f32 {
    let u = hw::rsqrt(w);
    let v = u - 0.25;
    let p = horner!(v; 0.959_945_9, -0.198_196_19, 0.080_194_95, 0.553_686_86, -0.865_243_14, 0.876_779_5, -4.117_678, -1.919_378_9, 20.890_86, 126.813_48, -409.618_84);
    mul(p, mul(w, u))
}

/// Inverse error function, to 2 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn erfinvf(x: f32) -> f32 {
    let l = hw::lg2(fma(-x, x, 1.0));
    if l < TAIL {
        // The estimate is off by 4 ulp here, of which half would reach the result.
        let w = -logf(fma(-x, x, 1.0));
        let r = if w == f32::INFINITY { w } else { tail(w) };
        return r.copysign(x);
    }
    central(x, l)
}

/// Inverse complementary error function, to 4 ulp; NaN outside `[0, 2]`.
#[inline(always)]
pub fn erfcinvf(y: f32) -> f32 {
    // Below half the least of both arguments counts: they are symmetric about 1.
    let near = if y > 1.0 { 2.0 - y } else { y };
    let l = hw::lg2_full(mul(near, 2.0 - near));
    let r = if l < TAIL { tail(l * -LN_2) } else { central(1.0 - near, l) };
    let r = if near == 0.0 { f32::INFINITY } else { r };
    if y > 1.0 { -r } else { r }
}

/// Distribution function of the standard normal distribution, to 5 ulp.
#[inline(always)]
pub fn normcdff(x: f32) -> f32 {
    // z + lost = -x/√2; from 14.5 on the result is 0 or 1.
    let x = if x > 14.5 {
        14.5
    } else if x < -14.5 {
        -14.5
    } else {
        x
    };
    let z = mul(x, -core::f32::consts::FRAC_1_SQRT_2);
    let lost = fma(x, -core::f32::consts::FRAC_1_SQRT_2, -z);
    let lost = fma(x, -1.210_161_6e-8, lost);
    let a = z.abs();
    let (m, s) = gauss(a);
    let scaled = scaled(a);
    // erfc(z + lost) = erfc z - lost·2/√π·e^(-z²)
    let away = if z < 0.0 { -lost } else { lost };
    let scaled = fma(away, -core::f32::consts::FRAC_2_SQRT_PI, scaled);
    let r = mul(mul(mul(scaled, m), s), 0.5 * TWO_TO_MINUS_64);
    let r = if z < 0.0 { 1.0 - r } else { r };
    if x.is_nan() { x } else { r }
}

/// Inverse of [`normcdff`], to 5 ulp; NaN outside `[0, 1]`.
#[inline(always)]
pub fn normcdfinvf(p: f32) -> f32 {
    let r = erfcinvf(p + p);
    fma(r, -core::f32::consts::SQRT_2, r * -2.420_323_2e-8)
}
