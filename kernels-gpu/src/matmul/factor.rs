//! Elements of A and B: those that every kernel of the family multiplies, and what is different among them.

#![cfg_attr(not(target_os = "cuda"), allow(unused_variables))]

use super::warps::operand::Operand;
use super::{Epilogue, Problem, Value};
use cuda_std::copy::TensorElement;
use cuda_std::gpu_only;
use cuda_std::matrix::Tf32;
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};

/// An element of A and B. Sums are `f32`.
///
/// | element | along K alone | few rows or columns | sums of tensor cores |
/// |---|---|---|---|
/// | [`bf16`], [`f16`](struct@f16) | no | [`skinny`](super::skinny) | over all of K |
/// | [`Tf32`]: `f32`, rounded as it is loaded | yes | tiles | over all of K |
/// | [`E4m3`], [`E5m2`] | yes | tiles | over 128 of K, which ordinary cores add |
///
/// Where warpgroups multiply elements along K alone, an operand that lies otherwise is copied first ([`pack`](super::pack)).
pub trait Factor: Operand<Element = Self, Sum = f32> + TensorElement {
    /// The widest tile of [`hopper`](super::hopper): the kernels of wider ones are empty, and never launched.
    const WIDEST: usize = 256;
    /// Whether the tensor cores' sums have too few bits for a long K: Hopper adds products of 8-bit numbers with about 14.
    const IS_PROMOTED: bool = false;
    /// Whether [`multiply_few_rows`](Self::multiply_few_rows) is more than nothing.
    const HAS_SKINNY: bool = false;
    /// The number of the type in a tensor map, where loads change what they move: [`Tf32`] is rounded to nearest, ties to even. Other
    /// elements are moved as bytes.
    const MAP_TYPE: Option<u32> = None;

    /// [`skinny::multiply`](super::skinny::multiply); nothing for elements that have no such kernel.
    ///
    /// # Safety
    /// As [`skinny::multiply`](super::skinny::multiply).
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_few_rows<D: Value, E: Epilogue>(
        problem: &Problem,
        operands: [*const Self; 2],
        c: *const D,
        vectors: [*const D; 2],
        d: *mut D,
        epilogue: E,
    ) {
    }
}

/// Implements [`Factor`] for elements of 16 bits.
macro_rules! halves {
    ($($half:ident)*) => {$(
        impl Factor for $half {
            const HAS_SKINNY: bool = true;

            #[gpu_only]
            #[inline(always)]
            unsafe fn multiply_few_rows<D: Value, E: Epilogue>(
                problem: &Problem,
                operands: [*const Self; 2],
                c: *const D,
                vectors: [*const D; 2],
                d: *mut D,
                epilogue: E,
            ) {
                // SAFETY: the caller's promise.
                unsafe { super::skinny::multiply::<Self, D, E>(problem, operands, c, vectors, d, epilogue) }
            }
        }
    )*};
}

halves! { bf16 f16 }

impl Factor for Tf32 {
    const MAP_TYPE: Option<u32> = Some(11);
}

/// Implements [`Factor`] for floats of 8 bits. A thread has two sets of sums, for which its registers suffice with 192 columns.
macro_rules! bytes {
    ($($byte:ident)*) => {$(
        impl Factor for $byte {
            const WIDEST: usize = 192;
            const IS_PROMOTED: bool = true;
        }
    )*};
}

bytes! { E4m3 E5m2 }
