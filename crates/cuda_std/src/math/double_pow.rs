//! Powers of doubles.
//!
//! As in f32, `x^y = e^(y·log x)` with the logarithm and the product in two parts: the logarithm is
//! the series of `2 atanh((m-1)/(m+1))`, of which the first two terms are carried in pairs (T. J.
//! Dekker, 1971).

use super::double_exp::{LN_2_LO, finished, near_one, nearest};
use super::double_log::split;
use super::hw::{fma64, horner64, mul64};
use super::newton::reciprocal;
use super::pow::special64;
use core::f64::consts::{LN_2, LOG2_E};

/// The first 32 bits of log 2, whose products with exponents are exact, and the rest.
const LN_2_SHORT: f64 = 0.693_147_180_369_123_8;
const LN_2_REST: f64 = 1.908_214_929_270_587_7e-10;
const TWELFTH: f64 = 1.0 / 12.0;
const TWELFTH_LO: f64 = 4.625_929_269_271_485e-18;

/// `log a` in two parts, for positive finite `a`; relative error below 2^-63.
#[inline(always)]
fn log_pair(a: f64) -> (f64, f64) {
    let (f, e) = split(a);
    // q + q_lo = 2 (m-1)/(m+1), and s + s_lo its square.
    let r = reciprocal(f + 2.0);
    let q = mul64(f, r) * 2.0;
    let rest = f - q;
    let q_lo = mul64(r, fma64(-q, f, rest + rest));
    let s = mul64(q, q);
    let s_lo = fma64(q + q, q_lo, fma64(q, q, -s));
    // p + p_lo = 1/12 + s/80 + …
    let tail = horner64!(s; 0.0125, 0.0022321428571429195, 0.00043402777776665736, 8.877840984388594e-05, 1.8780023070312367e-05, 4.069460428478446e-06, 8.931086946855466e-07, 2.2361745711982986e-07);
    let p = fma64(tail, s, TWELFTH);
    let p_lo = fma64(tail, s, TWELFTH - p) + TWELFTH_LO;
    // d + d_lo = q·s·p, in two products.
    let c = mul64(s, p);
    let c_lo = fma64(s, p_lo, fma64(s_lo, p, fma64(s, p, -c)));
    let d = mul64(q, c);
    let d_lo = fma64(q, c_lo, fma64(q_lo, c, fma64(q, c, -d)));
    let high = q + d;
    let low = ((q - high) + d) + (q_lo + d_lo);
    let whole = mul64(e, LN_2_SHORT);
    let sum = whole + high;
    (sum, fma64(e, LN_2_REST, ((whole - sum) + high) + low))
}

/// `x^y`, to 1 ulp, with C's results for what is special.
#[inline(always)]
pub fn pow(x: f64, y: f64) -> f64 {
    let (high, low) = log_pair(x.abs());
    let product = mul64(y, high);
    let rest = fma64(y, low, fma64(y, high, -product));
    let (k, whole) = nearest(product, LOG2_E);
    let r = fma64(whole, -LN_2, product) + fma64(whole, -LN_2_LO, rest);
    let r = finished(product, 0x4086_1800, near_one(r), k);
    let regular = x.to_bits().wrapping_sub(1) < 0x7fef_ffff_ffff_ffff && y.is_finite();
    if regular { r } else { special64(x, y, r) }
}
