//! Powers.
//!
//! `x^y = 2^(y·log2 x)`, with the logarithm and the product as unevaluated sums of two floats (T. J.
//! Dekker, 1971; products by fma). The logarithm is `2 atanh((m-1)/(m+1))`, so its series starts
//! with a quotient that is carried in two parts and goes on with small terms only.

use super::exp::ROUND;
use super::hw::{self, fma, horner, mul, trunc};

const LOG2_E_HI: f32 = 1.442_695;
const LOG2_E_LO: f32 = 1.925_963e-8;

/// `log2 a` in two parts, for positive finite `a`; relative error below 2^-30.
#[inline(always)]
pub(crate) fn log2_parts(a: f32) -> (f32, f32) {
    let tiny = a < f32::MIN_POSITIVE;
    let bits = if tiny { a * 16_777_216.0 } else { a }.to_bits();
    let e = bits.wrapping_sub(0x3f35_04f3) & 0xff80_0000;
    let m = f32::from_bits(bits.wrapping_sub(e));
    let e = fma(e as i32 as f32, 1.192_092_9e-7, if tiny { -24.0 } else { 0.0 });
    // q + q_lo = 2 (m-1)/(m+1)
    let f = m - 1.0;
    let r = hw::rcp(m + 1.0);
    let q = mul(f, r) * 2.0;
    let rest = f - q;
    let q_lo = mul(r, fma(-q, f, rest + rest));
    let s = mul(q, q);
    let p = horner!(s; 0.120_224_59, 0.018_033_713, 0.003_218_181_4, 0.000_657_211);
    let p = mul(s, p);
    // q·(log2 e + p)
    let high = mul(q, LOG2_E_HI);
    let low = fma(q, LOG2_E_HI, -high);
    let low = fma(q_lo, LOG2_E_HI, fma(q, LOG2_E_LO, low));
    let third = mul(q, p);
    let low = low + fma(q, p, -third);
    let sum = high + third;
    let low = low + ((high - sum) + third);
    let total = e + sum;
    (total, low + ((e - total) + sum))
}

/// `2^(hi + lo)` for any `hi`, NaN included.
#[inline(always)]
pub(crate) fn exp2_parts(hi: f32, lo: f32) -> f32 {
    // Exponents of normal numbers; `ex2` has what lies beyond, as in `exp`.
    let limited = if hi > 127.0 {
        127.0
    } else if hi < -126.0 {
        -126.0
    } else {
        hi
    };
    let j = limited + (ROUND + 127.0);
    hw::ex2((hi - (j - (ROUND + 127.0))) + lo) * f32::from_bits(j.to_bits() << 23)
}

/// `x^y`, to 4 ulp, with C's results for what is special.
#[inline(always)]
pub fn powf(x: f32, y: f32) -> f32 {
    let (high, low) = log2_parts(x.abs());
    let product = mul(y, high);
    let rest = fma(y, low, fma(y, high, -product));
    let rest = if product.abs() < 256.0 { rest } else { 0.0 };
    let r = exp2_parts(product, rest);
    let regular = x.to_bits().wrapping_sub(1) < 0x7f7f_ffff && y.is_finite();
    if regular { r } else { special(x, y, r) }
}

macro_rules! special_powers {
    ($name:ident, $t:ty, $trunc:path) => {
        /// The power of a number that is zero, negative, infinite or NaN, or to one that is not finite;
        /// `r` is that of finite `|x|`.
        #[inline(always)]
        pub(crate) fn $name(x: $t, y: $t, r: $t) -> $t {
            if x == 1.0 || y == 0.0 {
                return 1.0;
            }
            if x.is_nan() || y.is_nan() {
                return x + y;
            }
            let a = x.abs();
            if y.is_infinite() {
                let grows = (a > 1.0) == (y > 0.0);
                return if a == 1.0 {
                    1.0
                } else if grows {
                    <$t>::INFINITY
                } else {
                    0.0
                };
            }
            let half = y * 0.5;
            let odd = $trunc(y) == y && $trunc(half) != half;
            let magnitude = if a == 0.0 || a == <$t>::INFINITY {
                if (a == 0.0) == (y > 0.0) { 0.0 } else { <$t>::INFINITY }
            } else if $trunc(y) == y {
                r
            } else {
                return <$t>::NAN;
            };
            if odd { magnitude.copysign(x) } else { magnitude }
        }
    };
}

special_powers!(special, f32, trunc);
special_powers!(special64, f64, hw::trunc64);

macro_rules! by_squaring {
    ($name:ident, $t:ty, $mul:path) => {
        /// `x^n` by squaring: each of the `2 log2 n` products rounds.
        #[inline(always)]
        pub fn $name(x: $t, n: i32) -> $t {
            let (mut base, mut left, mut r) = (x, n.unsigned_abs(), 1.0);
            while left != 0 {
                if left & 1 != 0 {
                    r = $mul(r, base);
                }
                base = $mul(base, base);
                left >>= 1;
            }
            if n < 0 { 1.0 / r } else { r }
        }
    };
}

by_squaring!(powif, f32, mul);
by_squaring!(powi, f64, hw::mul64);
