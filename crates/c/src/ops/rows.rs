//! Softmax and norms of the rows of a matrix.

use std::ffi::c_void;
use std::mem::MaybeUninit;

use cuda_std::{bf16, f16};
use ferrowarp::ops::norm::{Norm, norm_into};
use ferrowarp::ops::softmax;

use crate::call::run;
use crate::element::{ElementType, with_type};
use crate::error::Status;
use crate::handle::Handle;

/// Writes the softmax of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`; its logarithm if `is_log`.
///
/// Elements of f32, f16, bf16, computed in f32.
///
/// # Safety
/// The handle exists; the arrays hold their elements until its stream has done the work.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_softmax(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    is_log: bool,
    x: *const c_void,
    out: *mut c_void,
    rows: i64,
    columns: i64,
) -> Status {
    // SAFETY: the caller's promise.
    unsafe {
        run("ferrowarp_softmax", handle, |call| {
            let (rows, columns) = (call.len("rows", rows)?, call.len("columns", columns)?);
            let (r#type, n) = (call.code("type", r#type)?, call.product("x", &[rows, columns])?);
            with_type!(call, r#type, [f32 f16 bf16], T => {
                let x = call.read::<T>("x", x, n)?;
                let mut out = call.write::<T>("out", out, n)?;
                if n == 0 {
                    return Ok(());
                }
                call.enqueue(|on| {
                    let into = if is_log { softmax::log_softmax_into } else { softmax::softmax_into };
                    into(on, &x, columns, &mut out)
                })
            })
        })
    }
}

/// What a norm takes beside the rows.
struct Beside {
    is_centered: bool,
    epsilon: f32,
    weight: *const c_void,
    bias: *const c_void,
    residual: *const c_void,
}

/// Writes the layer norm of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`:
/// (s - mean) / sqrt(variance + epsilon) * weight + bias with s = x + residual.
///
/// `weight: [columns]`, `bias: [columns]` and `residual: [rows, columns]` may be null. Elements of f32, f16, bf16, computed in f32.
///
/// # Safety
/// As ferrowarp_softmax().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_layer_norm(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    residual: *const c_void,
    weight: *const c_void,
    bias: *const c_void,
    epsilon: f32,
    out: *mut c_void,
    rows: i64,
    columns: i64,
) -> Status {
    let beside = Beside { is_centered: true, epsilon, weight, bias, residual };
    // SAFETY: the caller's promise.
    unsafe { norm("ferrowarp_layer_norm", handle, r#type, x, beside, out, [rows, columns]) }
}

/// Writes the RMS norm of each row of `x: [rows, columns]`, row-major, to `out: [rows, columns]`:
/// s / sqrt(mean of s^2 + epsilon) * weight with s = x + residual.
///
/// `weight: [columns]` and `residual: [rows, columns]` may be null. Elements of f32, f16, bf16, computed in f32.
///
/// # Safety
/// As ferrowarp_softmax().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ferrowarp_rms_norm(
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    residual: *const c_void,
    weight: *const c_void,
    epsilon: f32,
    out: *mut c_void,
    rows: i64,
    columns: i64,
) -> Status {
    let bias = std::ptr::null();
    let beside = Beside { is_centered: false, epsilon, weight, bias, residual };
    // SAFETY: the caller's promise.
    unsafe { norm("ferrowarp_rms_norm", handle, r#type, x, beside, out, [rows, columns]) }
}

/// # Safety
/// As [`ferrowarp_softmax`].
#[allow(clippy::too_many_arguments)]
unsafe fn norm(
    operation: &'static str,
    handle: *const Handle,
    r#type: MaybeUninit<ElementType>,
    x: *const c_void,
    beside: Beside,
    out: *mut c_void,
    [rows, columns]: [i64; 2],
) -> Status {
    let Beside { is_centered, epsilon, weight, bias, residual } = beside;
    // SAFETY: the caller's promise.
    unsafe {
        run(operation, handle, |call| {
            let (rows, columns) = (call.len("rows", rows)?, call.len("columns", columns)?);
            let (r#type, n) = (call.code("type", r#type)?, call.product("x", &[rows, columns])?);
            with_type!(call, r#type, [f32 f16 bf16], T => {
                let x = call.read::<T>("x", x, n)?;
                let residual = call.read_optional::<T>("residual", residual, n)?;
                let weight = call.read_optional::<T>("weight", weight, columns)?;
                let bias = call.read_optional::<T>("bias", bias, columns)?;
                let mut out = call.write::<T>("out", out, n)?;
                if n == 0 {
                    return Ok(());
                }
                let norm = if is_centered { Norm::layer(columns) } else { Norm::rms(columns) };
                let norm = norm.epsilon(epsilon);
                let norm = residual.iter().fold(norm, |norm, own| norm.residual(own.as_slice()));
                let norm = weight.iter().fold(norm, |norm, own| norm.weight(own.as_slice()));
                let norm = bias.iter().fold(norm, |norm, own| norm.bias(own.as_slice()));
                call.enqueue(|on| norm_into(on, &norm, &x, &mut out))
            })
        })
    }
}
