//! The functions of doubles that the `libm` crate computes (after FreeBSD's msun, 1993).

use super::hw;

macro_rules! from_libm {
    ($($(#[$doc:meta])* $name:ident;)+) => { $(
        $(#[$doc])*
        #[inline]
        pub fn $name(x: f64) -> f64 {
            libm::$name(x)
        }
    )+ };
}

from_libm! {
    /// Arccosine, to 1 ulp.
    acos;
    /// Inverse hyperbolic cosine, to 2 ulp.
    acosh;
    /// Arcsine, to 1 ulp.
    asin;
    /// Inverse hyperbolic sine, to 2 ulp.
    asinh;
    /// Arctangent, to 1 ulp.
    atan;
    /// Inverse hyperbolic tangent, to 2 ulp.
    atanh;
    /// Error function, to 1 ulp.
    erf;
    /// Complementary error function, to 3 ulp.
    erfc;
}

/// `√(x² + y²)` without overflow on the way, to 1 ulp.
#[inline]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// The angle of the point `(x, y)`, to 2 ulp.
#[inline]
pub fn atan2(y: f64, x: f64) -> f64 {
    libm::atan2(y, x)
}

/// `x^y`, to 1 ulp.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Square root, rounded once.
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    hw::sqrt64(x)
}
