//! Softmax and log-softmax of the rows of a matrix, and their gradients.
//!
//! `x: [rows, columns]`, row-major, of [`f32`], [`f16`](cuda_std::f16) or [`bf16`](cuda_std::bf16); computed in
//! `f32`. `columns` is an argument, `rows` follows from the length. A row of up to 32,768 elements is read once
//! on every GPU, of up to 262,144 on those with clusters (`sm_90`); what is longer is read twice.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[0.0f32, 0.0, 1.0, 1.0])?;
//! let y = ops::softmax(&gpu, &x, 2)?;
//! assert_eq!(y.to_vec()?, [0.5; 4]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Results
//! - A softmax is off by at most `(96 + 3 d) 2^-24` of itself, `d` the distance of the element to the row's
//!   maximum, and then rounded to the element type; below 2^-126 it may be 0. A log-softmax is off by at most
//!   `(128 + 2 |y|) 2^-24`.
//! - NaN or positive infinity makes the whole row NaN, and so does a row of negative infinities alone. Among
//!   others a negative infinity becomes 0 (log-softmax: itself).
//! - The order of summation depends on `columns`, the element type, whether the device has clusters and how large the shared
//!   memory of its blocks is, and whether all rows begin at multiples of 16 bytes, and on nothing else: the same bits again and again. (The exponential is an approximate instruction, of which an
//!   emulated GPU rounds correctly: between devices the last bits may differ.)

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::rows::softmax_plain;

use super::rows::{Form, Held, Long, RowValue, plan, rows_of};
use super::{block_count, same_len};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// The softmax of each row of `x: [rows, columns]`, as a new buffer. Asynchronous.
///
/// # Errors
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if `x` is not a whole number of rows, and for rows of 2^31
/// elements; errors of the driver.
pub fn softmax<T: RowValue>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    columns: usize,
) -> GpuResult<DeviceBuffer<T>> {
    let mut out = DeviceBuffer::zeroed(on, x.len())?;
    softmax_into(on, x, columns, &mut out)?;
    Ok(out)
}

/// As [`softmax`], into `out: [rows, columns]`. Asynchronous; allocates nothing.
///
/// # Errors
/// As [`softmax`]; [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length.
pub fn softmax_into<T: RowValue>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    columns: usize,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    forward(on, x, columns, out, false)
}

/// The logarithm of the softmax of each row of `x: [rows, columns]`, into `out` of the same shape. Asynchronous;
/// allocates nothing.
///
/// # Errors
/// As [`softmax_into`].
pub fn log_softmax_into<T: RowValue>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    columns: usize,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    forward(on, x, columns, out, true)
}

fn forward<T: RowValue>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    columns: usize,
    out: &mut impl DeviceWrite<T>,
    is_log: bool,
) -> GpuResult<()> {
    let len = x.len();
    let rows = rows_of("softmax", len, columns)?;
    same_len("softmax", len, out.len())?;
    let long = Long::Staged { addresses: x.raw().address | out.raw_mut().address };
    let Some(plan) = plan::<T>(on, (rows, columns), Held::of::<T>(1), long)? else {
        return Ok(());
    };
    let (stream, config, shape) = (on.as_stream(), plan.config, plan.shape);
    // SAFETY: both matrices have the shape, which was checked, and the plan is the one that the form asks for.
    unsafe {
        match plan.form {
            Form::Registers => T::softmax_registers(stream, config, shape, is_log, x, out),
            Form::Staged => T::softmax_staged(stream, config, shape, is_log, x, out),
            Form::StagedPairs => T::softmax_staged_pairs(stream, config, shape, is_log, x, out),
            Form::Clusters => T::softmax_clusters(stream, config, shape, is_log, x, out),
            _ => T::softmax_streamed(stream, config, shape, is_log, x, out),
        }
    }
}

/// The gradient by the inputs of a softmax, from its results `y` and the gradient `dy` by them, into `dx`; all
/// `[rows, columns]`. `dx = y (dy - sum y dy)`. Asynchronous; allocates nothing.
///
/// Rows of up to 16,384 elements are read once.
///
/// # Errors
/// As [`softmax_into`].
pub fn softmax_backward_into<T: RowValue>(
    on: &impl AsStream,
    y: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    columns: usize,
    dx: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    backward(on, y, dy, columns, dx, false)
}

/// The gradient of a log-softmax: `dx = dy - exp(y) sum dy`.
///
/// # Errors
/// As [`softmax_into`].
pub fn log_softmax_backward_into<T: RowValue>(
    on: &impl AsStream,
    y: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    columns: usize,
    dx: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    backward(on, y, dy, columns, dx, true)
}

fn backward<T: RowValue>(
    on: &impl AsStream,
    y: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    columns: usize,
    dx: &mut impl DeviceWrite<T>,
    is_log: bool,
) -> GpuResult<()> {
    let len = y.len();
    let rows = rows_of("the gradient of softmax", len, columns)?;
    same_len("the gradient of softmax", len, dy.len())?;
    same_len("the gradient of softmax", len, dx.len())?;
    let Some(plan) = plan::<T>(on, (rows, columns), Held::of::<T>(2), Long::Streamed)? else {
        return Ok(());
    };
    let (stream, config, shape) = (on.as_stream(), plan.config, plan.shape);
    // SAFETY: as in `forward`.
    unsafe {
        match plan.form {
            Form::Registers => {
                T::softmax_backward_registers(stream, config, shape, is_log, y, dy, dx)
            }
            _ => T::softmax_backward_streamed(stream, config, shape, is_log, y, dy, dx),
        }
    }
}

/// [`softmax_into`] (with `is_log`, [`log_softmax_into`]) by the plain kernel, a block for each row: the form to
/// read first.
///
/// # Errors
/// As [`softmax_into`]; [`LaunchTooLarge`](crate::GpuError::LaunchTooLarge) for 2^31 rows or more.
pub fn plain_into(
    on: &impl AsStream,
    x: &impl DeviceRead<f32>,
    columns: usize,
    is_log: bool,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let len = x.len();
    let rows = rows_of("softmax", len, columns)?;
    same_len("softmax", len, out.len())?;
    softmax_plain::launch(on.as_stream(), Grid1::new(block_count(rows)), columns, is_log, x, out)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/rows.md")]
struct Chapter;
