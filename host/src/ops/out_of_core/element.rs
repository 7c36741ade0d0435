//! What the host does with the elements of a reduction: joins the results of tiles, and reduces the CPU's share.

use cuda_std::number::{bf16, f16};

use crate::ops::reduce::Element;

/// A number that is reduced on the host too: every [`Element`].
pub trait HostElement: Element<Total: Send + Sync> + PartialOrd + Send + Sync {
    /// Whether sums and products have the same bits in any order.
    #[doc(hidden)]
    const IS_EXACT: bool;
    /// What a sum of no elements is.
    #[doc(hidden)]
    const ZERO: Self::Total;
    /// What a product of no elements is.
    #[doc(hidden)]
    const ONE: Self;
    /// The smallest of all, an infinity of floats.
    #[doc(hidden)]
    const LEAST: Self;
    /// The largest of all.
    #[doc(hidden)]
    const MOST: Self;

    #[doc(hidden)]
    fn total(self) -> Self::Total;

    #[doc(hidden)]
    fn add(a: Self::Total, b: Self::Total) -> Self::Total;

    #[doc(hidden)]
    fn multiply(self, other: Self) -> Self;

    /// Whether it is a float whose sign bit is set.
    #[doc(hidden)]
    fn has_sign(self) -> bool;
}

macro_rules! elements {
    ($($ty:ty: $exact:literal, $zero:expr, $one:expr, $least:expr, $most:expr,
        |$x:ident| $total:expr, |$a:ident, $b:ident| $sum:expr, |$c:ident, $d:ident| $product:expr,
        |$s:ident| $sign:expr;)*) => {$(
        impl HostElement for $ty {
            const IS_EXACT: bool = $exact;
            const ZERO: Self::Total = $zero;
            const ONE: Self = $one;
            const LEAST: Self = $least;
            const MOST: Self = $most;

            fn total(self) -> Self::Total {
                let $x = self;
                $total
            }

            fn add($a: Self::Total, $b: Self::Total) -> Self::Total {
                $sum
            }

            fn multiply(self, $d: Self) -> Self {
                let $c = self;
                $product
            }

            fn has_sign(self) -> bool {
                let $s = self;
                $sign
            }
        }
    )*};
}

macro_rules! integers {
    ($($ty:ident)*) => {
        elements! {$(
            $ty: true, 0, 1, $ty::MIN, $ty::MAX, |x| x, |a, b| a.wrapping_add(b), |c, d| c.wrapping_mul(d), |_s| false;
        )*}
    };
}

macro_rules! floats {
    ($($ty:ident)*) => {
        elements! {$(
            $ty: false, 0.0, 1.0, $ty::NEG_INFINITY, $ty::INFINITY, |x| x, |a, b| a + b, |c, d| c * d,
                |s| s.is_sign_negative();
        )*}
    };
}

macro_rules! halves {
    ($($ty:ident)*) => {
        elements! {$(
            $ty: false, 0.0, $ty::ONE, $ty::NEG_INFINITY, $ty::INFINITY, |x| x.to_f32(), |a, b| a + b,
                |c, d| $ty::from_f32(c.to_f32() * d.to_f32()), |s| s.is_sign_negative();
        )*}
    };
}

integers! { i32 u32 i64 u64 }
floats! { f32 f64 }
halves! { f16 bf16 }

/// The smaller of a number and of what may be a NaN, which is ignored; -0 is smaller than +0.
pub fn smaller<T: HostElement>(a: T, b: T) -> T {
    let takes = b < a || (b == a && b.has_sign());
    if takes { b } else { a }
}

/// The larger of a number and of what may be a NaN, which is ignored; +0 is larger than -0.
pub fn larger<T: HostElement>(a: T, b: T) -> T {
    let takes = b > a || (b == a && !b.has_sign());
    if takes { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_ignored_and_zeros_are_told_apart() {
        for [a, b] in [[0.0_f32, -0.0], [-0.0, 0.0]] {
            assert!(smaller(a, b).is_sign_negative() && !larger(a, b).is_sign_negative());
        }
        assert_eq!((smaller(3.0, f32::NAN), larger(3.0, f32::NAN)), (3.0, 3.0));
        assert_eq!((smaller(f64::MOST, 7.0), larger(f64::LEAST, 7.0)), (7.0, 7.0));
        assert_eq!((smaller(-3, 5), larger(u64::LEAST, 5)), (-3, 5));
        let half = |x| f16::from_f32(x);
        assert_eq!(half(1.5).multiply(half(2.0)), half(3.0));
        assert_eq!(bf16::add(bf16::from_f32(1.5).total(), 2.0), 3.5);
    }
}
