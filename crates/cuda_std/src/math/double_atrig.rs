//! Inverse trigonometric functions of doubles.
//!
//! As in f32: minimax polynomials in `x²` around 0, elsewhere `asin x = π/2 - 2 asin √((1-x)/2)`
//! and `atan x = π/2 - atan(1/x)`. Every function is `base + k (t + rest)` with a small rest and a
//! base and `k` by selection, so that the lanes of a warp stay together.

use super::hw::{fma64, horner64, mul64};
use super::newton::{high, quotient_parts, reciprocal, root_parts};
use core::f64::consts::{FRAC_PI_2, PI};

/// π/2 less its nearest double.
const FRAC_PI_2_LO: f64 = 6.123_233_995_736_766e-17;
const PI_LO: f64 = 2.0 * FRAC_PI_2_LO;

/// Upper half of the bits of cos 1: from there on the arcsine of the root is below 1/2.
const COS_1: u32 = 0x3fe1_4a28;

/// `asin x`, or of a `large` `x`, from cos 1 on, `asin √((1-|x|)/2)`.
#[inline(always)]
fn arcsine(x: f64, large: bool) -> f64 {
    let s = if large { fma64(x.abs(), -0.5, 0.5) } else { mul64(x, x) };
    let (root, lost) = root_parts(s);
    let (t, lost) = if large { (root, lost) } else { (x, 0.0) };
    let p = horner64!(s; 0.16666666666667698, 0.07499999999726217, 0.044642857396573525, 0.030381932623466203, 0.022372483102303106, 0.017347078568002383, 0.014031892665718566, 0.011006588736995018, 0.012843945388976647, -0.0036095298700939754, 0.038420067336029755, -0.04321883947323758, 0.04569413998590522);
    t + fma64(mul64(p, s), t, lost)
}

/// `base + base_lo + k·r`.
#[inline(always)]
fn placed((base, base_lo): (f64, f64), k: f64, r: f64) -> f64 {
    base + fma64(k, r, base_lo)
}

/// Arcsine, to 1 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn asin(x: f64) -> f64 {
    let large = high(x) & 0x7fff_ffff >= COS_1;
    let (base, k) = if large { ((FRAC_PI_2, FRAC_PI_2_LO), -2.0) } else { ((0.0, 0.0), 1.0) };
    placed(base, k, arcsine(x.abs(), large)).copysign(x)
}

/// Arccosine, to 1 ulp; NaN outside `[-1, 1]`.
#[inline(always)]
pub fn acos(x: f64) -> f64 {
    let large = high(x) & 0x7fff_ffff >= COS_1;
    let (base, k) = match (large, x < 0.0) {
        (false, _) => ((FRAC_PI_2, FRAC_PI_2_LO), -1.0),
        (true, false) => ((0.0, 0.0), 2.0),
        (true, true) => ((PI, PI_LO), -2.0),
    };
    placed(base, k, arcsine(x, large))
}

/// `base + base_lo + k·atan(t + lost)`, for `t` in `[0, 1]` and `k` of 1 or -1.
#[inline(always)]
fn arctangent((base, base_lo): (f64, f64), k: f64, (t, lost): (f64, f64)) -> f64 {
    let s = mul64(t, t);
    let p = horner64!(s; -0.3333333333333186, 0.19999999999755186, -0.14285714271341438, 0.1111111067889019, -0.09090901237262705, 0.07692212947291537, -0.066658604705168, 0.05877308281085732, -0.05239234835192455, 0.046739546722371995, -0.040926490396895644, 0.03406799006401129, -0.025827026075400387, 0.016978260418002586, -0.009184724233715698, 0.0038560629099151423, -0.001164103892320063, 0.00022302958130879748, -2.0259293603595074e-05);
    // The base takes the large part by itself, so that both round but once.
    fma64(k, t, base) + fma64(k, fma64(mul64(p, s), t, lost), base_lo)
}

/// Arctangent, to 1 ulp.
#[inline(always)]
pub fn atan(x: f64) -> f64 {
    let a = x.abs();
    // No infinity to the reciprocal; from 2^55 on the result is π/2.
    let over = reciprocal(if a > 1e300 { 1e300 } else { a });
    let large = over < a;
    let t = if large { over } else { a };
    let (base, k) = if large { ((FRAC_PI_2, FRAC_PI_2_LO), -1.0) } else { ((0.0, 0.0), 1.0) };
    arctangent(base, k, (t, 0.0)).copysign(x)
}

/// The angle of the point `(x, y)`, to 2 ulp, with C's results for zeros and infinities.
#[inline(always)]
pub fn atan2(y: f64, x: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    let steep = b > a;
    let (least, most) = if steep { (a, b) } else { (b, a) };
    let usual = high(most).wrapping_sub(0x0030_0000) < 0x7fa0_0000;
    let (least, most) = if usual { (least, most) } else { tamed(least, most) };
    let (base, k) = match (steep, x.is_sign_negative()) {
        (false, false) => ((0.0, 0.0), 1.0),
        (true, false) => ((FRAC_PI_2, FRAC_PI_2_LO), -1.0),
        (true, true) => ((FRAC_PI_2, FRAC_PI_2_LO), 1.0),
        (false, true) => ((PI, PI_LO), -1.0),
    };
    arctangent(base, k, quotient_parts(least, most)).copysign(y)
}

/// Numbers with the quotient of `least` and `most`, or of what C takes in place of 0/0 and ∞/∞, for
/// a `most` that is zero, subnormal, nearly so, huge, infinite or NaN.
#[inline(always)]
fn tamed(least: f64, most: f64) -> (f64, f64) {
    if most == 0.0 {
        (least, 1.0)
    } else if most == f64::INFINITY {
        (if least == f64::INFINITY { 1.0 } else { least * 0.0 }, 1.0)
    } else {
        // 2^100
        let scale = if most > 1.0 {
            1.0 / 1_267_650_600_228_229_401_496_703_205_376.0
        } else {
            1_267_650_600_228_229_401_496_703_205_376.0
        };
        (least * scale, most * scale)
    }
}
