//! Numbers as the types that kernels have instances for.

use bytemuck::Pod;
use cuda_std::number::{bf16, f16};

use super::sealed::Sealed;

/// A number of 8 to 64 bits, and the types that stand for it in kernels: types that a kernel treats alike share an instance.
#[diagnostic::on_unimplemented(
    message = "no kernel has an instance for elements of `{Self}`",
    label = "not a number that kernels take",
    note = "kernels take `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32` and `f64`; which of these, each kernel says"
)]
pub trait Number: Pod + Sealed {
    /// The unsigned integer of the same size: for kernels that move bits, or compare them for equality.
    type Bits: Pod;
    /// An integer as the unsigned one of the same size, a float as it is: for kernels that add, or look for zeros.
    type Unsigned: Pod;
}

macro_rules! numbers {
    ($($ty:ty: $bits:ty, $unsigned:ty;)*) => {$(
        impl Sealed for $ty {}

        impl Number for $ty {
            type Bits = $bits;
            type Unsigned = $unsigned;
        }
    )*};
}

numbers! {
    u8: u8, u8;
    u16: u16, u16;
    u32: u32, u32;
    u64: u64, u64;
    i8: u8, u8;
    i16: u16, u16;
    i32: u32, u32;
    i64: u64, u64;
    f16: u16, f16;
    bf16: u16, bf16;
    f32: u32, f32;
    f64: u64, f64;
}
