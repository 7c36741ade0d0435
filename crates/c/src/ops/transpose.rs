//! Transposes of matrices.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::transpose;

use crate::call::run;
use crate::element::{ElementType, with_bits};
use crate::error::Status;
use crate::handle::Handle;

/// Writes the transpose of each of `batches` matrices `x: [batches, rows, columns]`, row-major, to `out: [batches, columns, rows]`.
///
/// Elements of all types.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_transpose(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    out: *mut c_void,
    rows: i64,
    columns: i64,
    batches: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_transpose", handle, |call| {
            let (rows, columns) = (call.len("rows", rows)?, call.len("columns", columns)?);
            let (r#type, batches) = (call.code("type", r#type)?, call.len("batches", batches)?);
            let n = call.product("x", &[batches, rows, columns])?;
            with_bits!(call, r#type, [u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64], [u8 u16 u32 u64], T => {
                let x = call.read::<T>("x", x, n)?;
                let mut out = call.write::<T>("out", out, n)?;
                if n == 0 {
                    return Ok(());
                }
                call.enqueue(|on| {
                    transpose::batched(on, &x, &mut out, columns, rows, batches)
                })
            })
        })
    }
}
