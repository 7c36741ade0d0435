//! [`GpuFloat`]: the methods that `std` gives floats on the host.

use super::sealed::Sealed;
use crate::intrinsics as c;
use crate::math::{double_trig, hw, trig};

/// The methods that f32 and f64 have on the host, for the device: bounds stand at the functions of
/// [`math`](crate::math) that they call.
pub trait GpuFloat: Copy + PartialOrd + Sealed {
    /// Largest integer not above.
    fn floor(self) -> Self;
    /// Smallest integer not below.
    fn ceil(self) -> Self;
    /// Nearest integer, ties away from zero.
    fn round(self) -> Self;
    /// Nearest integer towards zero.
    fn trunc(self) -> Self;
    /// The fractional part, with the number's sign.
    fn fract(self) -> Self;
    /// Magnitude.
    fn abs(self) -> Self;
    /// 1 with the number's sign; NaN of NaN.
    fn signum(self) -> Self;
    /// The magnitude with the sign of `sign`.
    fn copysign(self, sign: Self) -> Self;
    /// `self·a + b`, rounded once: one instruction.
    fn mul_add(self, a: Self, b: Self) -> Self;
    /// Quotient rounded so that the rest is in `[0, |rhs|)`.
    fn div_euclid(self, rhs: Self) -> Self;
    /// The least rest that is not negative.
    fn rem_euclid(self, rhs: Self) -> Self;
    /// Integer power.
    fn powi(self, n: i32) -> Self;
    /// Power.
    fn powf(self, n: Self) -> Self;
    /// Square root, rounded once.
    fn sqrt(self) -> Self;
    /// `e^self`.
    fn exp(self) -> Self;
    /// `2^self`.
    fn exp2(self) -> Self;
    /// Natural logarithm.
    fn ln(self) -> Self;
    /// Logarithm to a base.
    fn log(self, base: Self) -> Self;
    /// Logarithm to base 2.
    fn log2(self) -> Self;
    /// Logarithm to base 10.
    fn log10(self) -> Self;
    /// Cube root.
    fn cbrt(self) -> Self;
    /// Length of the vector `(self, other)`.
    fn hypot(self, other: Self) -> Self;
    /// Sine.
    fn sin(self) -> Self;
    /// Cosine.
    fn cos(self) -> Self;
    /// Tangent.
    fn tan(self) -> Self;
    /// Arcsine.
    fn asin(self) -> Self;
    /// Arccosine.
    fn acos(self) -> Self;
    /// Arctangent.
    fn atan(self) -> Self;
    /// Angle of the point `(other, self)`.
    fn atan2(self, other: Self) -> Self;
    /// Sine and cosine.
    fn sin_cos(self) -> (Self, Self);
    /// `e^self - 1`.
    fn exp_m1(self) -> Self;
    /// `ln(1 + self)`.
    fn ln_1p(self) -> Self;
    /// Hyperbolic sine.
    fn sinh(self) -> Self;
    /// Hyperbolic cosine.
    fn cosh(self) -> Self;
    /// Hyperbolic tangent.
    fn tanh(self) -> Self;
    /// Inverse hyperbolic sine.
    fn asinh(self) -> Self;
    /// Inverse hyperbolic cosine.
    fn acosh(self) -> Self;
    /// Inverse hyperbolic tangent.
    fn atanh(self) -> Self;
}

macro_rules! methods {
    ($t:ty, $fma:path, $trunc:path, $fmod:path, $sincos:path, $log:path, $($name:ident($($arg:ident),*) = $f:path;)+) => {
        impl GpuFloat for $t {
            $(
                #[inline(always)]
                fn $name(self $(, $arg: Self)*) -> Self {
                    $f(self $(, $arg)*)
                }
            )+

            #[inline(always)]
            fn fract(self) -> Self {
                self - $trunc(self)
            }

            #[inline(always)]
            fn signum(self) -> Self {
                if self.is_nan() { self } else { <$t>::copysign(1.0, self) }
            }

            #[inline(always)]
            fn mul_add(self, a: Self, b: Self) -> Self {
                $fma(self, a, b)
            }

            #[inline]
            fn div_euclid(self, rhs: Self) -> Self {
                let q = $trunc(self / rhs);
                let step = if rhs > 0.0 { 1.0 } else { -1.0 };
                if $fmod(self, rhs) < 0.0 { q - step } else { q }
            }

            #[inline]
            fn rem_euclid(self, rhs: Self) -> Self {
                let r = $fmod(self, rhs);
                if r < 0.0 { r + <$t>::abs(rhs) } else { r }
            }

            #[inline(always)]
            fn log(self, base: Self) -> Self {
                $log(self) / $log(base)
            }

            #[inline(always)]
            fn sin_cos(self) -> (Self, Self) {
                $sincos(self)
            }

            #[inline(always)]
            fn powi(self, n: i32) -> Self {
                Powi::powi(self, n)
            }
        }
    };
}

/// Names the right function for each type.
trait Powi {
    fn powi(self, n: i32) -> Self;
}
impl Powi for f32 {
    #[inline(always)]
    fn powi(self, n: i32) -> f32 {
        c::powif(self, n)
    }
}
impl Powi for f64 {
    #[inline(always)]
    fn powi(self, n: i32) -> f64 {
        c::powi(self, n)
    }
}

methods! {
    f32, hw::fma, hw::trunc, c::fmodf, trig::sincosf, c::logf,
    floor() = c::floorf; ceil() = c::ceilf; round() = c::roundf; trunc() = c::truncf;
    abs() = c::fabsf; copysign(sign) = c::copysignf; powf(n) = c::powf; sqrt() = c::sqrtf;
    exp() = c::expf; exp2() = c::exp2f; ln() = c::logf; log2() = c::log2f; log10() = c::log10f;
    cbrt() = c::cbrtf; hypot(other) = c::hypotf; sin() = c::sinf; cos() = c::cosf; tan() = c::tanf;
    asin() = c::asinf; acos() = c::acosf; atan() = c::atanf; atan2(other) = c::atan2f;
    exp_m1() = c::expm1f; ln_1p() = c::log1pf; sinh() = c::sinhf; cosh() = c::coshf;
    tanh() = c::tanhf; asinh() = c::asinhf; acosh() = c::acoshf; atanh() = c::atanhf;
}

methods! {
    f64, hw::fma64, hw::trunc64, c::fmod, double_trig::sincos, c::log,
    floor() = c::floor; ceil() = c::ceil; round() = c::round; trunc() = c::trunc;
    abs() = c::fabs; copysign(sign) = c::copysign; powf(n) = c::pow; sqrt() = c::sqrt;
    exp() = c::exp; exp2() = c::exp2; ln() = c::log; log2() = c::log2; log10() = c::log10;
    cbrt() = c::cbrt; hypot(other) = c::hypot; sin() = c::sin; cos() = c::cos; tan() = c::tan;
    asin() = c::asin; acos() = c::acos; atan() = c::atan; atan2(other) = c::atan2;
    exp_m1() = c::expm1; ln_1p() = c::log1p; sinh() = c::sinh; cosh() = c::cosh;
    tanh() = c::tanh; asinh() = c::asinh; acosh() = c::acosh; atanh() = c::atanh;
}
