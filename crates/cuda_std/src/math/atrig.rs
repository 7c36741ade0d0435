//! Inverse trigonometric functions.
//!
//! Minimax polynomials in `x²` around 0; elsewhere the identities
//! `asin x = π/2 - 2 asin √((1-x)/2)` and `atan x = π/2 - atan(1/x)`.

use super::hw::{self, fma, horner, mul};
use core::f32::consts::{FRAC_PI_2, PI};

/// π/2 less its nearest float.
const FRAC_PI_2_LO: f32 = -4.371_139e-8;

/// `asin x`, for `|x|` up to 0.57.
#[inline(always)]
fn arcsine(x: f32) -> f32 {
    let s = mul(x, x);
    let p = horner!(s; 0.166_669_68, 0.074_855_246, 0.046_709_508, 0.018_246_967, 0.051_743_8);
    fma(p, mul(s, x), x)
}

/// Arcsine, to 2 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn asinf(x: f32) -> f32 {
    let a = x.abs();
    let large = a > 0.57;
    let r = arcsine(if large { hw::sqrt_approx(fma(a, -0.5, 0.5)) } else { a });
    let r = if large { fma(r, -2.0, FRAC_PI_2_LO) + FRAC_PI_2 } else { r };
    r.copysign(x)
}

/// Arccosine, to 2 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn acosf(x: f32) -> f32 {
    let a = x.abs();
    let large = a > 0.57;
    let r = arcsine(if large { hw::sqrt_approx(fma(a, -0.5, 0.5)) } else { x });
    // 2r, π - 2r or π/2 - r.
    let small = FRAC_PI_2 - (r - FRAC_PI_2_LO);
    let r = r + r;
    let r = if x < 0.0 { PI - r } else { r };
    if large { r } else { small }
}

/// `atan x`, for `x` in `[0, 1]`.
#[inline(always)]
fn arctangent(x: f32) -> f32 {
    let s = mul(x, x);
    let p = horner!(s; -0.333_332_15, 0.199_950_04, -0.142_200_14, 0.106_984_26, -0.076_168_485, 0.043_934_137, -0.016_792_098, 0.003_022_621);
    fma(p, mul(s, x), x)
}

/// Arctangent, to 2 ulp.
#[inline(always)]
pub fn atanf(x: f32) -> f32 {
    let a = x.abs();
    let r = arctangent(if a > 1.0 { hw::rcp(a) } else { a });
    let r = if a > 1.0 { FRAC_PI_2 - r } else { r };
    r.copysign(x)
}

/// The angle of the point `(x, y)`, to 3 ulp, with C's results for zeros and infinities.
#[inline(always)]
pub fn atan2f(y: f32, x: f32) -> f32 {
    let (a, b) = (x.abs(), y.abs());
    let (least, most) = if b > a { (a, b) } else { (b, a) };
    let quotient = least / most;
    // 0/0 and inf/inf.
    let quotient = if most == 0.0 {
        0.0
    } else if least == f32::INFINITY {
        1.0
    } else {
        quotient
    };
    let r = arctangent(quotient);
    let r = if b > a { FRAC_PI_2 - r } else { r };
    let r = if x.is_sign_negative() { PI - r } else { r };
    let r = if x.is_nan() || y.is_nan() { x + y } else { r };
    r.copysign(y)
}
