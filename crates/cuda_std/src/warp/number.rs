//! Numbers that warp reductions add and compare.

use super::Plain;
use crate::number::Half;
use half::{bf16, f16};

#[cfg(target_os = "cuda")]
use super::WarpReductionOp;
#[cfg(target_os = "cuda")]
use crate::arch::compute_capability;

/// A number with a sum, a smaller and a larger one.
///
/// Integers wrap. Of a NaN and a number, the smaller and the larger are the number.
pub trait Number: Plain + sealed::Sealed {
    /// The sum.
    fn plus(self, other: Self) -> Self;

    /// The smaller.
    fn smaller(self, other: Self) -> Self;

    /// The larger.
    fn larger(self, other: Self) -> Self;

    /// Joins the lanes of `mask` by one or two instructions, if the type and the GPU have them.
    ///
    /// # Safety
    /// As the functions of the [module](super) that take a mask.
    #[cfg(target_os = "cuda")]
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn redux(self, _mask: u32, _op: WarpReductionOp) -> Option<Self> {
        None
    }
}

/// An integer whose bits warps combine.
pub trait Bits: Number {
    /// Bit by bit and.
    fn both(self, other: Self) -> Self;

    /// Bit by bit or.
    fn either(self, other: Self) -> Self;

    /// Bit by bit exclusive or.
    fn differing(self, other: Self) -> Self;
}

mod sealed {
    pub trait Sealed {}
}

/// Integers; those of at most 32 bits widen without a change of order to a type that `redux` takes.
macro_rules! integers {
    ($($ty:ident as $wide:ident;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Number for $ty {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }

            #[cfg(target_os = "cuda")]
            #[inline(always)]
            unsafe fn redux(self, mask: u32, op: WarpReductionOp) -> Option<Self> {
                // SAFETY: the caller's promise.
                unsafe { $wide(self as _, mask, op).map(|joined| joined as Self) }
            }
        }

        impl Bits for $ty {
            #[inline(always)]
            fn both(self, other: Self) -> Self {
                self & other
            }

            #[inline(always)]
            fn either(self, other: Self) -> Self {
                self | other
            }

            #[inline(always)]
            fn differing(self, other: Self) -> Self {
                self ^ other
            }
        }
    )*};
}

integers! {
    u8 as redux_unsigned;
    u16 as redux_unsigned;
    u32 as redux_unsigned;
    i8 as redux_signed;
    i16 as redux_signed;
    i32 as redux_signed;
    u64 as redux_words;
    i64 as redux_words;
}

#[cfg(target_os = "cuda")]
#[inline(always)]
unsafe fn redux_unsigned(value: u32, mask: u32, op: WarpReductionOp) -> Option<u32> {
    if compute_capability() < 800 {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { super::WarpReduceValue::reduce(value, mask, op) })
}

#[cfg(target_os = "cuda")]
#[inline(always)]
unsafe fn redux_signed(value: i32, mask: u32, op: WarpReductionOp) -> Option<i32> {
    if compute_capability() < 800 {
        return None;
    }
    // SAFETY: the caller's promise.
    Some(unsafe { super::WarpReduceValue::reduce(value, mask, op) })
}

/// 64 bits as two words, for operations without a carry between them.
#[cfg(target_os = "cuda")]
#[inline(always)]
unsafe fn redux_words(value: u64, mask: u32, op: WarpReductionOp) -> Option<u64> {
    use WarpReductionOp::{And, Or, Xor};
    if !matches!(op, And | Or | Xor) {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let low = redux_unsigned(value as u32, mask, op)?;
        let high = redux_unsigned((value >> 32) as u32, mask, op)?;
        Some(u64::from(high) << 32 | u64::from(low))
    }
}

/// Floating-point numbers.
macro_rules! floats {
    ($($ty:ty: $plus:expr, $smaller:expr, $larger:expr;)*) => {$(
        impl sealed::Sealed for $ty {}

        impl Number for $ty {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $plus(self, other)
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                $smaller(self, other)
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                $larger(self, other)
            }
        }
    )*};
}

floats! {
    f32: core::ops::Add::add, f32::min, f32::max;
    f64: core::ops::Add::add, f64::min, f64::max;
    f16: Half::hadd, Half::hmin, Half::hmax;
    bf16: Half::hadd, Half::hmin, Half::hmax;
}
