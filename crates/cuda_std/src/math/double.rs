//! The functions of doubles that the `libm` crate computes (after FreeBSD's msun, 1993).

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
    /// Inverse hyperbolic cosine, to 2 ulp.
    acosh;
    /// Inverse hyperbolic sine, to 2 ulp.
    asinh;
    /// Inverse hyperbolic tangent, to 2 ulp.
    atanh;
}
