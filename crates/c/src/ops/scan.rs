//! Scans (prefix sums).

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::scan::{self, Form, Max, Min, Sum};

use super::reduce::Operator;
use crate::call::run;
use crate::element::{ElementType, with_type};
use crate::error::Status;
use crate::handle::Handle;

/// Writes each element of `x: [n]` joined with all before it to `out: [n]`; if `is_exclusive`, those before it alone. The first is then 0, or
/// of maxima the type's least number, of minima its greatest. Integers wrap; sums of floats have the same bits in every run.
///
/// Sums of all types; FERROWARP_OPERATOR_MIN and FERROWARP_OPERATOR_MAX of i32, u32 and f32.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_scan(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    operator: MaybeUninit<Operator>,
    is_exclusive: bool,
    x: *const c_void,
    out: *mut c_void,
    n: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_scan", handle, |call| {
            let (r#type, operator) = (call.code("type", r#type)?, call.code("operator", operator)?);
            let n = call.len("n", n)?;
            let form = if is_exclusive { Form::Exclusive } else { Form::Inclusive };
            macro_rules! by {
                ($by:ident, [$($ty:ident)*]) => {
                    with_type!(call, r#type, [$($ty)*], T => {
                        let x = call.read::<T>("x", x, n)?;
                        let mut out = call.write::<T>("out", out, n)?;
                        call.enqueue_with(scan::scratch_bytes::<T, $by>(n), |on, scratch| {
                            scan::by_into(on, $by, form, &x, &mut out, scratch)
                        })
                    })
                };
            }
            match operator {
                Operator::Sum => by!(Sum, [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64]),
                Operator::Max => by!(Max, [u32 i32 f32]),
                Operator::Min => by!(Min, [u32 i32 f32]),
                _ => Err(call.wrong("`operator` has to be that of sums, minima or maxima")),
            }
        })
    }
}
