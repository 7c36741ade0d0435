//! [`FloatExt`]: functions of CUDA's math library that `std` does not have.

use super::sealed::Sealed;
use crate::intrinsics as c;
use crate::math::{double_trig, parts, trig};

/// More mathematics for f32 and f64, on the device and on the host.
pub trait FloatExt: Copy + PartialOrd + Sealed {
    /// `cos(π·self)`.
    fn cospi(self) -> Self;
    /// `erf`.
    fn error_function(self) -> Self;
    /// `erfc = 1 - erf`.
    fn complementary_error_function(self) -> Self;
    /// The inverse of [`complementary_error_function`](Self::complementary_error_function).
    fn inv_complementary_error_function(self) -> Self;
    /// `e^(self²)·erfc(self)`.
    fn scaled_complementary_error_function(self) -> Self;
    /// `(m, e)` with `self = m·2^e` and `|m|` in `[1/2, 1)`; `(self, 0)` for zero and what is not finite.
    fn frexp(self) -> (Self, i32);
    /// `e` with `|self| = m·2^e` and `m` in `[1, 2)`; the least i32 for zero and NaN, the largest for infinities.
    fn unbiased_exp(self) -> i32;
    /// Bessel function of the first kind of order 0.
    fn j0(self) -> Self;
    /// Bessel function of the first kind of order 1.
    fn j1(self) -> Self;
    /// Bessel function of the first kind of order `order`.
    fn jn(self, order: i32) -> Self;
    /// `self·2^n`, rounded once.
    fn ldexp(self, n: i32) -> Self;
    /// `log |Γ(self)|`.
    fn log_gamma(self) -> Self;
    /// `log(1 + self)`.
    fn log1p(self) -> Self;
    /// Distribution function of the standard normal distribution.
    fn norm_cdf(self) -> Self;
    /// The inverse of [`norm_cdf`](Self::norm_cdf).
    fn inv_norm_cdf(self) -> Self;
    /// Reciprocal cube root.
    fn rcbrt(self) -> Self;
    /// Limited to `[0, 1]`; of NaN it is 0.
    fn saturate(self) -> Self;
    /// `self·2^n`, rounded once.
    fn scale_by_n(self, n: i32) -> Self;
    /// `sin(π·self)` and `cos(π·self)`.
    fn sincospi(self) -> (Self, Self);
    /// `sin(π·self)`.
    fn sinpi(self) -> Self;
    /// `Γ(self)`.
    fn gamma(self) -> Self;
    /// Bessel function of the second kind of order 0.
    fn y0(self) -> Self;
    /// Bessel function of the second kind of order 1.
    fn y1(self) -> Self;
    /// Bessel function of the second kind of order `order`.
    fn yn(self, order: i32) -> Self;
}

macro_rules! methods {
    ($t:ty, $jn:path, $yn:path, $($name:ident($($arg:ident: $a:ty)?) -> $r:ty = $f:path;)+) => {
        impl FloatExt for $t {
            $(
                #[inline(always)]
                fn $name(self $(, $arg: $a)?) -> $r {
                    $f(self $(, $arg)?)
                }
            )+

            #[inline(always)]
            fn jn(self, order: i32) -> Self {
                $jn(order, self)
            }

            #[inline(always)]
            fn yn(self, order: i32) -> Self {
                $yn(order, self)
            }
        }
    };
}

methods! {
    f32, c::jnf, c::ynf,
    cospi() -> Self = c::cospif; error_function() -> Self = c::erff;
    complementary_error_function() -> Self = c::erfcf;
    inv_complementary_error_function() -> Self = c::erfcinvf;
    scaled_complementary_error_function() -> Self = c::erfcxf;
    frexp() -> (Self, i32) = parts::frexpf; unbiased_exp() -> i32 = c::ilogbf;
    j0() -> Self = c::j0f; j1() -> Self = c::j1f; ldexp(n: i32) -> Self = c::ldexpf;
    log_gamma() -> Self = c::lgammaf; log1p() -> Self = c::log1pf; norm_cdf() -> Self = c::normcdff;
    inv_norm_cdf() -> Self = c::normcdfinvf; rcbrt() -> Self = c::rcbrtf;
    saturate() -> Self = c::saturatef; scale_by_n(n: i32) -> Self = c::scalbnf;
    sincospi() -> (Self, Self) = trig::sincospif; sinpi() -> Self = c::sinpif;
    gamma() -> Self = c::tgammaf; y0() -> Self = c::y0f; y1() -> Self = c::y1f;
}

methods! {
    f64, c::jn, c::yn,
    cospi() -> Self = c::cospi; error_function() -> Self = c::erf;
    complementary_error_function() -> Self = c::erfc;
    inv_complementary_error_function() -> Self = c::erfcinv;
    scaled_complementary_error_function() -> Self = c::erfcx;
    frexp() -> (Self, i32) = parts::frexp; unbiased_exp() -> i32 = c::ilogb;
    j0() -> Self = c::j0; j1() -> Self = c::j1; ldexp(n: i32) -> Self = c::ldexp;
    log_gamma() -> Self = c::lgamma; log1p() -> Self = c::log1p; norm_cdf() -> Self = c::normcdf;
    inv_norm_cdf() -> Self = c::normcdfinv; rcbrt() -> Self = c::rcbrt;
    saturate() -> Self = parts::saturate; scale_by_n(n: i32) -> Self = c::scalbn;
    sincospi() -> (Self, Self) = double_trig::sincospi; sinpi() -> Self = c::sinpi;
    gamma() -> Self = c::tgamma; y0() -> Self = c::y0; y1() -> Self = c::y1;
}
