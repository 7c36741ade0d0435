//! Hyperbolic functions and their inverses.
//!
//! `sinh` and `cosh` come from `e^x/2`, `tanh` from `e^2x`, with polynomials around 0 where they
//! would cancel; the inverses from `log1p` of an argument that does not cancel (W. Kahan, "Branch
//! cuts for complex elementary functions", 1987).

use super::exp::{LN_2, half_expf};
use super::hw::{self, fma, horner, mul};
use super::log::{log1pf, regular_log1p};

/// Hyperbolic sine, to 3 ulp.
#[inline(always)]
pub fn sinhf(x: f32) -> f32 {
    let a = x.abs();
    let half = half_expf(a);
    let large = fma(hw::rcp(half), -0.25, half);
    let s = mul(x, x);
    let p = horner!(s; 0.166_667_2, 0.008_330_149, 0.000_203_839_02);
    let small = fma(p, mul(s, x), x);
    if a < 1.0 { small } else { large.copysign(x) }
}

/// Hyperbolic cosine, to 2 ulp.
#[inline(always)]
pub fn coshf(x: f32) -> f32 {
    let half = half_expf(x.abs());
    fma(hw::rcp(half), 0.25, half)
}

/// Hyperbolic tangent, to 2 ulp.
#[inline(always)]
pub fn tanhf(x: f32) -> f32 {
    let e = hw::ex2(x.abs() * 2.885_39);
    let large = fma(hw::rcp(e + 1.0), -2.0, 1.0);
    let s = mul(x, x);
    let p = horner!(s; -0.333_329_47, 0.133_207_29, -0.052_672_01, 0.016_437_877);
    let small = fma(p, mul(s, x), x);
    (if x.abs() < 0.55 { small } else { large }).copysign(x)
}

/// Inverse hyperbolic sine, to 3 ulp.
#[inline(always)]
pub fn asinhf(x: f32) -> f32 {
    let a = x.abs();
    // x + x²/(1 + √(1 + x²)); twice x is enough where the square would overflow.
    let root = hw::sqrt_approx(fma(a, a, 1.0));
    let huge = a > 1e17;
    let t = if huge { a } else { fma(mul(a, a), hw::rcp(1.0 + root), a) };
    let r = log1pf(t);
    (if huge { r + LN_2 } else { r }).copysign(x)
}

/// Inverse hyperbolic cosine, to 4 ulp; NaN below 1.
#[inline(always)]
pub fn acoshf(x: f32) -> f32 {
    let t = if x >= 1.0 { x - 1.0 } else { f32::NAN };
    let huge = t > 1e17;
    let sum = if huge { t } else { t + hw::sqrt_approx(fma(t, t, t + t)) };
    let r = log1pf(sum);
    if huge { r + LN_2 } else { r }
}

/// Inverse hyperbolic tangent, to 3 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn atanhf(x: f32) -> f32 {
    let a = x.abs();
    // 2a/(1-a), with its residual put back.
    let (n, d) = (a + a, 1.0 - a);
    let r = hw::rcp(d);
    let q = mul(n, r);
    let r = 0.5 * regular_log1p(fma(fma(-q, d, n), r, q));
    // Of 1 the quotient is infinite.
    let r = if a < 1.0 { r } else { q };
    (if a > 1.0 { f32::NAN } else { r }).copysign(x)
}
