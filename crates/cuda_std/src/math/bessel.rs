//! Bessel functions of the first and second kind.
//!
//! Doubles by the `libm` crate (after FreeBSD's msun, 1993); floats through doubles, so that their
//! results keep their relative accuracy near the zeros of the functions too.

macro_rules! orders {
    ($($(#[$doc:meta])* $name:ident, $single:ident;)+) => { $(
        $(#[$doc])*
        #[inline(never)]
        pub fn $name(x: f64) -> f64 {
            libm::$name(x)
        }
        $(#[$doc])*
        #[inline]
        pub fn $single(x: f32) -> f32 {
            $name(x.into()) as f32
        }
    )+ };
}

orders! {
    /// First kind, order 0.
    j0, j0f;
    /// First kind, order 1.
    j1, j1f;
    /// Second kind, order 0; NaN for negative `x`.
    y0, y0f;
    /// Second kind, order 1; NaN for negative `x`.
    y1, y1f;
}

/// First kind, order `n`.
#[inline(never)]
pub fn jn(n: i32, x: f64) -> f64 {
    libm::jn(n, x)
}

/// Second kind, order `n`; NaN for negative `x`.
#[inline(never)]
pub fn yn(n: i32, x: f64) -> f64 {
    libm::yn(n, x)
}

/// First kind, order `n`.
#[inline]
pub fn jnf(n: i32, x: f32) -> f32 {
    jn(n, x.into()) as f32
}

/// Second kind, order `n`; NaN for negative `x`.
#[inline]
pub fn ynf(n: i32, x: f32) -> f32 {
    yn(n, x.into()) as f32
}
