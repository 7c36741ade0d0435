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
    /// Arccosine.
    acos;
    /// Inverse hyperbolic cosine.
    acosh;
    /// Arcsine.
    asin;
    /// Inverse hyperbolic sine.
    asinh;
    /// Arctangent.
    atan;
    /// Inverse hyperbolic tangent.
    atanh;
    /// Error function.
    erf;
    /// Complementary error function.
    erfc;
}

/// `√(x² + y²)` without overflow on the way.
#[inline]
pub fn hypot(x: f64, y: f64) -> f64 {
    libm::hypot(x, y)
}

/// The angle of the point `(x, y)`.
#[inline]
pub fn atan2(y: f64, x: f64) -> f64 {
    libm::atan2(y, x)
}

/// `x^y`.
#[inline]
pub fn pow(x: f64, y: f64) -> f64 {
    libm::pow(x, y)
}

/// Square root, rounded once.
#[inline(always)]
pub fn sqrt(x: f64) -> f64 {
    hw::sqrt64(x)
}
