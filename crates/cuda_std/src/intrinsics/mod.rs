//! CUDA's device functions by their C names: 319, as rust-cuda lists them.
//!
//! Mathematics comes from [`math`](crate::math), where the error bounds stand; arithmetic with a
//! rounding in its name, conversions and integer functions are single PTX instructions. All of them
//! run on the host too. Functions that write through a pointer are `unsafe`; the pairs that they
//! give are returned by those of [`math`](crate::math) and of [`FloatExt`](crate::FloatExt).

mod convert;
mod fast;
mod integer;
mod pointer;
mod rounding;
#[cfg(not(target_os = "cuda"))]
mod soft;

pub use convert::*;
pub use fast::*;
pub use integer::*;
pub use pointer::*;
pub use rounding::*;

pub use crate::math::atrig::{acosf, asinf, atan2f, atanf};
pub use crate::math::bessel::{j0, j0f, j1, j1f, jn, jnf, y0, y0f, y1, y1f, yn, ynf};
pub use crate::math::double::{acosh, asinh, atanh};
pub use crate::math::double_atrig::{acos, asin, atan, atan2};
pub use crate::math::double_erf::{erf, erfc, erfcinv, erfcx, erfinv, normcdf, normcdfinv};
pub use crate::math::double_exp::{cosh, exp, exp2, exp10, expm1, sinh, tanh};
pub use crate::math::double_gamma::{lgamma, tgamma};
pub use crate::math::double_log::{log, log1p, log2, log10};
pub use crate::math::double_pow::pow;
pub use crate::math::double_root::{cbrt, hypot, rcbrt, rsqrt, sqrt};
pub use crate::math::double_trig::{cos, cospi, sin, sinpi, tan};
pub use crate::math::erf::{erfcf, erfcinvf, erfcxf, erff, erfinvf, normcdff, normcdfinvf};
pub use crate::math::exp::{exp2f, exp10f, expf, expm1f};
pub use crate::math::gamma::{lgammaf, tgammaf};
pub use crate::math::hyperbolic::{acoshf, asinhf, atanhf, coshf, sinhf, tanhf};
pub use crate::math::log::{log1pf, log2f, log10f, logf};
pub use crate::math::parts::{
    ceil_ as ceil, floor_ as floor, ldexp as scalbn, ldexpf as scalbnf, lround as llround,
    lroundf as llroundf, rint_ as nearbyint, rint_ as rint, rintf as nearbyintf, trunc_ as trunc,
};
pub use crate::math::parts::{
    ceilf, fdim, fdimf, floorf, fmax, fmaxf, fmin, fminf, fmod, fmodf, ilogb, ilogbf, ldexp,
    ldexpf, logb, logbf, nextafter, nextafterf, remainder, remainderf, rintf, round, roundf,
    saturatef, truncf,
};
pub use crate::math::pow::{powf, powi, powif};
pub use crate::math::root::{cbrtf, hypotf, rcbrtf, rsqrtf, sqrtf};
pub use crate::math::trig::{cosf, cospif, sinf, sinpif, tanf};
pub use convert::{double2ll_rn as llrint, float2ll_rn as llrintf};

macro_rules! small {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $t:ty),+) -> $r:ty = $value:expr;)+) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub fn $name($($arg: $t),+) -> $r {
            $value
        }
    )+ };
}

small! {
    /// Magnitude.
    fabsf(x: f32) -> f32 = x.abs();
    /// Magnitude.
    fabs(x: f64) -> f64 = x.abs();
    /// The magnitude of `x` with the sign of `y`.
    copysignf(x: f32, y: f32) -> f32 = x.copysign(y);
    /// The magnitude of `x` with the sign of `y`.
    copysign(x: f64, y: f64) -> f64 = x.copysign(y);
    /// `x·y + z`, rounded once.
    fmaf(x: f32, y: f32, z: f32) -> f32 = crate::math::hw::fma(x, y, z);
    /// `x·y + z`, rounded once.
    fma(x: f64, y: f64, z: f64) -> f64 = crate::math::hw::fma64(x, y, z);
    /// 1 if `x` is neither infinite nor NaN.
    finitef(x: f32) -> i32 = x.is_finite().into();
    /// 1 if `x` is neither infinite nor NaN.
    isfinited(x: f64) -> i32 = x.is_finite().into();
    /// 1 if `x` is infinite.
    isinff(x: f32) -> i32 = x.is_infinite().into();
    /// 1 if `x` is infinite.
    isinfd(x: f64) -> i32 = x.is_infinite().into();
    /// 1 if `x` is NaN.
    isnanf(x: f32) -> i32 = x.is_nan().into();
    /// 1 if `x` is NaN.
    isnand(x: f64) -> i32 = x.is_nan().into();
    /// 1 if the sign bit is set.
    signbitf(x: f32) -> i32 = x.is_sign_negative().into();
    /// 1 if the sign bit is set.
    signbitd(x: f64) -> i32 = x.is_sign_negative().into();
    /// The bits.
    float_as_int(x: f32) -> i32 = x.to_bits() as i32;
    /// From the bits.
    int_as_float(x: i32) -> f32 = f32::from_bits(x as u32);
    /// The bits.
    double_as_longlong(x: f64) -> i64 = x.to_bits() as i64;
    /// From the bits.
    longlong_as_double(x: i64) -> f64 = f64::from_bits(x as u64);
    /// The upper 32 bits.
    double2hiint(x: f64) -> i32 = (x.to_bits() >> 32) as i32;
    /// The lower 32 bits.
    double2loint(x: f64) -> i32 = x.to_bits() as i32;
    /// From the upper and the lower 32 bits.
    hiloint2double(high: i32, low: i32) -> f64
        = f64::from_bits(u64::from(high as u32) << 32 | u64::from(low as u32));
}
