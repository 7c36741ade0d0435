//! Reductions of arrays and of segments.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::reduce;

use crate::call::run;
use crate::code::code;
use crate::element::{ElementType, with_type};
use crate::error::Status;
use crate::handle::Handle;

/// How elements are joined.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// The sum. Integers wrap.
    Sum = 0,
    /// The smallest. NaN is ignored.
    Min = 1,
    /// The largest. NaN is ignored.
    Max = 2,
    /// The product. Integers wrap.
    Product = 3,
    /// The index (`uint64_t`) of the smallest, the first of equal ones; UINT64_MAX where there is no number.
    Argmin = 4,
    /// The index (`uint64_t`) of the largest, the first of equal ones; UINT64_MAX where there is no number.
    Argmax = 5,
}

code!(Operator, "ferrowarp_operator", [Sum Min Max Product Argmin Argmax]);

/// Joins all of `x: [n]` to `out: [1]`, in device memory. The sum of f16 and bf16 is a `float`, an index is a `uint64_t`; everything else has
/// the elements' type. Of no elements a sum is 0, a product 1, a minimum inf or the type's largest integer, a maximum -inf or its smallest. Floats are joined in
/// a fixed order: the same bits in every run.
///
/// Elements of f16, bf16, f32, f64, i32, u32, i64, u64; products not of f16 and bf16.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_reduce(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    operator: MaybeUninit<Operator>,
    x: *const c_void,
    n: i64,
    out: *mut c_void,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_reduce", handle, |call| {
            let (r#type, operator) = (call.code("type", r#type)?, call.code("operator", operator)?);
            let n = call.len("n", n)?;
            macro_rules! by {
                ($into:ident => $total:ty, [$($ty:ident)*]) => {
                    with_type!(call, r#type, [$($ty)*], T => {
                        let x = call.read::<T>("x", x, n)?;
                        let mut out = call.write::<$total>("out", out, 1)?;
                        call.enqueue_with(reduce::scratch_bytes(), |on, scratch| {
                            reduce::$into(on, &x, &mut out, scratch)
                        })
                    })
                };
            }
            type Sum<T> = <T as reduce::Element>::Total;
            match operator {
                Operator::Sum => by!(sum_into => Sum<T>, [f16 bf16 f32 f64 i32 u32 i64 u64]),
                Operator::Product => by!(product_into => T, [f32 f64 i32 u32 i64 u64]),
                Operator::Min => by!(min_into => T, [f16 bf16 f32 f64 i32 u32 i64 u64]),
                Operator::Max => by!(max_into => T, [f16 bf16 f32 f64 i32 u32 i64 u64]),
                Operator::Argmin => by!(argmin_into => u64, [f16 bf16 f32 f64 i32 u32 i64 u64]),
                Operator::Argmax => by!(argmax_into => u64, [f16 bf16 f32 f64 i32 u32 i64 u64]),
            }
        })
    }
}

/// Joins each segment of `x: [n]` to an element of `out: [segments]`: segment s is `x[offsets[s]]` to before `x[offsets[s + 1]]`, with
/// `offsets: [segments + 1]` (`uint64_t`) in device memory. What of a segment lies outside of `x` is left out. Results are as those of
/// ferrowarp_reduce().
///
/// Sums of f16, bf16, f32, f64, i32, u32; minima and maxima of f32, i32, u32.
///
/// # Safety
/// As ferrowarp_reduce().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_segmented_reduce(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    operator: MaybeUninit<Operator>,
    x: *const c_void,
    n: i64,
    offsets: *const u64,
    segments: i64,
    out: *mut c_void,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_segmented_reduce", handle, |call| {
            let (r#type, operator) = (call.code("type", r#type)?, call.code("operator", operator)?);
            let (n, segments) = (call.len("n", n)?, call.len("segments", segments)?);
            macro_rules! by {
                ($into:ident => $total:ty, [$($ty:ident)*]) => {
                    with_type!(call, r#type, [$($ty)*], T => {
                        let x = call.read::<T>("x", x, n)?;
                        let n_offsets = call.sum("offsets", segments, 1)?;
                        let offsets = call.read::<u64>("offsets", offsets.cast(), n_offsets)?;
                        let mut out = call.write::<$total>("out", out, segments)?;
                        call.enqueue_with(reduce::segments_scratch_bytes(segments, n), |on, scratch| {
                            let (offsets, out) = (offsets.as_slice(), &mut out);
                            reduce::$into(on, &x, &offsets, out, scratch)
                        })
                    })
                };
            }
            type Sum<T> = <T as reduce::Element>::Total;
            match operator {
                Operator::Sum => by!(segmented_sum_into => Sum<T>, [f16 bf16 f32 f64 i32 u32]),
                Operator::Min => by!(segmented_min_into => T, [f32 i32 u32]),
                Operator::Max => by!(segmented_max_into => T, [f32 i32 u32]),
                _ => Err(call.wrong("`operator` has to be that of sums, minima or maxima")),
            }
        })
    }
}
