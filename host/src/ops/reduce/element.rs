//! The numbers that are reduced, and the types that stand for them in the kernels.

use bytemuck::Pod;
use cuda_std::number::{bf16, f16};
use kernels_gpu::reduce::operator::{Number, Ordered};

use crate::ops::sealed::Sealed;

/// A number that reductions have kernels for: f16, bf16, f32, f64, i32, u32, i64 or u64.
///
/// Integers of either sign share an instance of a kernel: they have the same sums and products, and with some bits flipped
/// the same order.
#[diagnostic::on_unimplemented(
    message = "the kernels `reduce_sum`, `reduce_product`, `reduce_extreme` and `reduce_place` have no instance for `{Self}`",
    label = "not a number that reductions take",
    note = "reductions take `f16`, `bf16`, `f32`, `f64`, `i32`, `u32`, `i64` and `u64`; a kernel of your own reduces any \
            type: see `kernels_gpu::reduce::Operator`"
)]
pub trait Element: Pod + Sealed {
    /// The sum's type: f32 for halves, else the type itself.
    type Total: Pod;
    /// The type of the kernels that add and multiply.
    type Number: Number;
    /// The type of the kernels that compare.
    type Ordered: Ordered;
    /// The bits to flip so that the kernel's smallest element is the smallest one.
    #[doc(hidden)]
    const MIN: <Self::Ordered as Ordered>::Mask;
    /// The bits to flip so that the kernel's smallest element is the largest one.
    #[doc(hidden)]
    const MAX: <Self::Ordered as Ordered>::Mask;
}

macro_rules! elements {
    ($($ty:ty => $total:ty: adds $number:ty, compares $ordered:ty, flips $min:expr, $max:expr;)*) => {$(
        impl Element for $ty {
            type Total = $total;
            type Number = $number;
            type Ordered = $ordered;
            const MIN: <$ordered as Ordered>::Mask = $min;
            const MAX: <$ordered as Ordered>::Mask = $max;
        }
    )*};
}

/// The sign bits.
const SIGN: u32 = 1 << 31;
const SIGN_64: u64 = 1 << 63;

elements! {
    f16 => f32: adds f16, compares f16, flips 0, 1 << 15;
    bf16 => f32: adds bf16, compares bf16, flips 0, 1 << 15;
    f32 => f32: adds f32, compares f32, flips 0, SIGN;
    f64 => f64: adds f64, compares f64, flips 0, SIGN_64;
    i32 => i32: adds i32, compares u32, flips SIGN, !SIGN;
    u32 => u32: adds i32, compares u32, flips 0, !0;
    i64 => i64: adds u64, compares u64, flips SIGN_64, !SIGN_64;
    u64 => u64: adds u64, compares u64, flips 0, !0;
}
