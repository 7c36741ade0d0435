//! What collectives compute with.

use std::fmt;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// A number that ranks can reduce: `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f16`, `bf16`, `f32`, `f64`. What only moves data takes
/// every [`Pod`] type.
#[diagnostic::on_unimplemented(
    message = "ranks do not reduce `{Self}`",
    note = "they reduce `i8`, `u8`, `i32`, `u32`, `i64`, `u64`, `f16`, `bf16`, `f32` and `f64`"
)]
pub trait Element: Pod + sealed::Sealed {
    /// Which of them it is.
    const KIND: ElementKind;
}

/// The type of an [`Element`], as a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementKind {
    /// `i8`.
    I8,
    /// `u8`.
    U8,
    /// `i32`.
    I32,
    /// `u32`.
    U32,
    /// `i64`.
    I64,
    /// `u64`.
    U64,
    /// `f16`, IEEE half precision.
    F16,
    /// `bf16`, a float of 16 bits with 8 bits of exponent.
    BF16,
    /// `f32`.
    F32,
    /// `f64`.
    F64,
}

impl ElementKind {
    /// The size of one, in bytes.
    #[must_use]
    pub fn size_bytes(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::F16 | Self::BF16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }
}

macro_rules! elements {
    ($($name:ty: $kind:ident),* $(,)?) => {$(
        impl sealed::Sealed for $name {}

        impl Element for $name {
            const KIND: ElementKind = ElementKind::$kind;
        }
    )*};
}

elements! {
    i8: I8, u8: U8, i32: I32, u32: U32, i64: I64, u64: U64, f16: F16, bf16: BF16, f32: F32, f64: F64,
}

/// How the ranks' values become one.
///
/// The order in which they are combined is the backend's, so sums of floats may differ in their last bits from one number of
/// ranks, one size or one backend to another ([small sums](crate::Communicator::all_reduce) among devices of one host are made in the
/// order of the ranks). Over MPI sums of `f16` and `bf16` are made in `f32` and rounded once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reduction {
    /// Their sum; of integers modulo 2 to the power of their bits.
    Sum,
    /// Their product; of integers as the sum.
    Product,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// Their sum divided by the number of ranks; of integers the sum as above, and the quotient rounded towards zero.
    Average,
}

impl Reduction {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Sum, Self::Product, Self::Min, Self::Max, Self::Average];
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sum => "sum",
            Self::Product => "product",
            Self::Min => "min",
            Self::Max => "max",
            Self::Average => "average",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<T: Element>() -> bool {
        T::KIND.size_bytes() == size_of::<T>()
    }

    #[test]
    fn kinds_know_their_sizes() {
        assert!(size::<i8>() && size::<u8>() && size::<i32>() && size::<u32>() && size::<i64>());
        assert!(size::<u64>() && size::<f16>() && size::<bf16>() && size::<f32>() && size::<f64>());
    }
}
