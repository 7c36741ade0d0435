//! Layer norm and RMS norm of the rows of a matrix, and their gradients.
//!
//! `x: [rows, columns]`, row-major, of [`f32`], [`f16`](cuda_std::f16) or [`bf16`](cuda_std::bf16); computed in `f32`.
//!
//! | | result |
//! |---|---|
//! | layer norm | `(s - mean) / sqrt(variance + epsilon) * weight + bias` |
//! | RMS norm | `s / sqrt(mean of s² + epsilon) * weight + bias` |
//!
//! with `s = x + residual`; the variance is that of `n`, not of `n - 1`. Weight, bias and residual are optional.
//! A row of up to 16,384 elements is read once on every GPU, of up to 131,072 on those with clusters (`sm_90`);
//! what is longer is read twice. (Of [`f16`](cuda_std::f16) and [`bf16`](cuda_std::bf16) without a residual, twice as long.)
//!
//! ```
//! use ferrowarp::ops::norm::{self, Norm};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[3.0f32, 4.0, 0.0, 0.0])?;
//! let weight = DeviceBuffer::from_slice(&gpu, &[2.0f32; 4])?;
//! let y = norm::norm(&gpu, &Norm::rms(4).epsilon(0.0).weight(weight.as_slice()), &x)?;
//! assert_eq!(y.to_vec()?, [2.4, 3.2, 0.0, 0.0]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # Results
//! - The variance is a sum of squared deviations from a mean that is known before they are squared (Chan, Golub
//!   and LeVeque's pairwise form): no squares are subtracted from one another. A result is off by at most
//!   `2^-18` of itself and of the row's largest element over the deviation, and then rounded to the element type.
//! - NaN or infinity in a row makes all of it NaN. (An infinite element of an RMS norm is NaN, its neighbours 0.)
//! - The order of summation depends on `columns`, the element type, whether the device has clusters and how large the shared
//!   memory of its blocks is, and whether all rows and weights begin at multiples of 16 bytes, and on nothing else: the same
//!   bits again and again. Gradients of weights are summed in two stages, in an order that depends on the same and on the number of rows.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Grid2, LaunchConfig, Linear};
use cuda_std::vector::Vec2;
use kernels_gpu::rows::norm::{NormKind, PACKS};
use kernels_gpu::rows::norm_backward::{FUSED_COLUMNS, FUSED_THREADS, fused_blocks};
use kernels_gpu::rows::norm_plain;
use kernels_gpu::rows::norm_weights::{FINISH_COLUMNS, chunks, columns_per_block};
use kernels_gpu::rows::softmax::MAX_SHARED_BYTES;
use kernels_gpu::rows::stages::{MAX_STAGES, shared_bytes};
use kernels_gpu::rows::{Shape, VECTOR_BYTES};

use super::rows::{Form, Held, Long, Plan, RowValue, STATIC_SHARED_BYTES, plan, rows_of};
use super::scratch::{Scratch, size_of_parts};
use super::views::{As, AsMut};
use super::{block_count, same_len};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSlice, DeviceSliceMut};
use crate::stream::AsStream;

/// Epsilon unless another one is given: PyTorch's of `layer_norm`.
pub const EPSILON: f32 = 1e-5;

/// A norm of rows of a length, with what it takes beside them.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a, T: Pod> {
    columns: usize,
    kind: NormKind,
    weight: Option<DeviceSlice<'a, T>>,
    bias: Option<DeviceSlice<'a, T>>,
    residual: Option<DeviceSlice<'a, T>>,
}

impl<'a, T: Pod> Norm<'a, T> {
    fn new(columns: usize, is_centered: u32) -> Self {
        let kind = NormKind { is_centered, epsilon: EPSILON };
        Self { columns, kind, weight: None, bias: None, residual: None }
    }

    /// Layer norm of rows of `columns` elements, without weights.
    #[must_use]
    pub fn layer(columns: usize) -> Self {
        Self::new(columns, 1)
    }

    /// RMS norm of rows of `columns` elements, without weights.
    #[must_use]
    pub fn rms(columns: usize) -> Self {
        Self::new(columns, 0)
    }

    /// With another epsilon than [`EPSILON`].
    #[must_use]
    pub fn epsilon(self, epsilon: f32) -> Self {
        Self { kind: NormKind { epsilon, ..self.kind }, ..self }
    }

    /// With weights: `[columns]`.
    #[must_use]
    pub fn weight(self, weight: DeviceSlice<'a, T>) -> Self {
        Self { weight: Some(weight), ..self }
    }

    /// With a bias: `[columns]`.
    #[must_use]
    pub fn bias(self, bias: DeviceSlice<'a, T>) -> Self {
        Self { bias: Some(bias), ..self }
    }

    /// Of the sum with a residual: `[rows, columns]`. The sum is not rounded before it is normalised.
    #[must_use]
    pub fn residual(self, residual: DeviceSlice<'a, T>) -> Self {
        Self { residual: Some(residual), ..self }
    }

    /// Weight and bias, where there are any.
    fn weights(&self) -> (As<'_, T>, As<'_, T>) {
        (As::optional(self.weight.as_ref()), As::optional(self.bias.as_ref()))
    }

    /// The rows of `x`, where all lengths agree.
    fn rows(&self, len: usize) -> GpuResult<usize> {
        let rows = rows_of("norm", len, self.columns)?;
        for shared in [self.weight, self.bias].into_iter().flatten() {
            same_len("the weights of a norm", self.columns, shared.len())?;
        }
        same_len("the residual of a norm", len, self.residual.map_or(len, |r| r.len()))?;
        Ok(rows)
    }
}

/// The norm of each row of `x: [rows, columns]`, as a new buffer. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if an argument of `norm` has another length,
/// [`InvalidArgument`](crate::GpuError::InvalidArgument) if `x` is not a whole number of rows, and for rows of 2^31
/// elements; errors of the driver.
pub fn norm<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
) -> GpuResult<DeviceBuffer<T>> {
    let mut out = DeviceBuffer::zeroed(on, x.len())?;
    norm_into(on, norm, x, &mut out)?;
    Ok(out)
}

/// As [`norm`], into `out: [rows, columns]`. Asynchronous; allocates nothing.
///
/// # Errors
/// As [`norm()`]; [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length.
pub fn norm_into<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    forward(on, norm, x, out, None)
}

/// As [`norm_into`], and `sum` becomes `x + residual`, rounded to the element type: what the next residual is.
///
/// # Errors
/// As [`norm_into`]; [`SizeMismatch`](crate::GpuError::SizeMismatch) if `sum` has another length.
pub fn norm_with_sum_into<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    mut sum: DeviceSliceMut<'_, T>,
) -> GpuResult<()> {
    same_len("the sum of a norm", x.len(), sum.len())?;
    forward(on, norm, x, out, Some(&mut sum))
}

fn forward<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    sum: Option<&mut DeviceSliceMut<'_, T>>,
) -> GpuResult<()> {
    let len = x.len();
    let shape = (norm.rows(len)?, norm.columns);
    same_len("norm", len, out.len())?;
    let (stream, kind) = (on.as_stream(), norm.kind);
    let is_alone = norm.residual.is_none() && sum.is_none();
    let residual = &As::<T>::optional(norm.residual.as_ref());
    let (weight, bias) = norm.weights();
    let (weight, bias, sum) = (&weight, &bias, &mut AsMut::<T>::optional(sum));
    let (held, long) = if is_alone {
        let shared = weight.raw().address | bias.raw().address;
        let addresses = x.raw().address | out.raw_mut().address | shared;
        (Held { inputs: 1, packs: PACKS }, Long::Pipelined { addresses })
    } else {
        (Held::of::<T>(2), Long::Clusters)
    };
    let Some(Plan { form, shape, config }) = plan::<T>(on, shape, held, long)? else {
        return Ok(());
    };
    /// The kernel of a form, without or with a residual.
    macro_rules! launch {
        ($alone:ident, $with_sum:ident) => {
            if is_alone {
                T::$alone(stream, config, shape, kind, x, weight, bias, out)
            } else {
                T::$with_sum(stream, config, shape, kind, x, residual, weight, bias, out, sum)
            }
        };
    }
    // SAFETY: all have the stated lengths, which were checked, and the plan is the one that the form asks for.
    unsafe {
        match form {
            Form::Registers => launch!(norm_registers, norm_sum_registers),
            Form::Pipelined => T::norm_pipelined(stream, config, shape, kind, x, weight, bias, out),
            Form::PipelinedSmall => {
                T::norm_pipelined_small(stream, config, shape, kind, x, weight, bias, out)
            }
            Form::Clusters => launch!(norm_clusters, norm_sum_clusters),
            _ => launch!(norm_streamed, norm_sum_streamed),
        }
    }
}

/// The gradient by `x: [rows, columns]`, from the gradient `dy` by the norm's results, into `dx`. Asynchronous; allocates
/// nothing.
///
/// `x` is what was normalised: with a residual, the sum. `norm`'s residual is here what is added to `dx`: the gradient
/// that comes to the sum from elsewhere. Rows of up to 16,384 elements are read once. (With the gradients by weight and bias:
/// aligned rows of 512 to 8,192 elements on a device with bulk copies, `sm_90`; others twice.)
///
/// # Errors
/// As [`norm_into`].
pub fn backward_into<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    dx: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let rows = backward_rows(norm, x, dy, dx)?;
    match fused(on, norm, rows, [x.raw().address, dy.raw().address, dx.raw_mut().address]) {
        // SAFETY: all lengths were checked.
        Some(plan) => unsafe { backward_fused(on, norm, plan, x, dy, dx, None) },
        None => backward_alone(on, norm, rows, x, dy, dx, None),
    }
}

/// The rows of a backward pass, where all lengths agree.
fn backward_rows<T: RowValue>(
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    dx: &mut impl DeviceWrite<T>,
) -> GpuResult<usize> {
    let len = x.len();
    let rows = norm.rows(len)?;
    same_len("the gradient of a norm", len, dy.len())?;
    same_len("the gradient of a norm", len, dx.len())?;
    Ok(rows)
}

/// The launch that reads everything once, where it can: rows of 512 to [`FUSED_COLUMNS`] elements that all begin at
/// multiples of 16 bytes, on a device with bulk copies.
fn fused<T: Pod>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    rows: usize,
    matrices: [u64; 3],
) -> Option<(LaunchConfig, Shape)> {
    let (columns, info) = (norm.columns, on.as_stream().inner().context().info());
    let row_bytes = columns * size_of::<T>();
    let others = [norm.weight, norm.residual].into_iter().flatten();
    let addresses = matrices.into_iter().chain(others.map(|other| other.raw().address));
    let bits = addresses.fold(row_bytes as u64, |all, address| all | address);
    let fits = rows > 0 && (512..=FUSED_COLUMNS).contains(&columns);
    if !fits || !bits.is_multiple_of(VECTOR_BYTES as u64) || info.compute_capability < (9, 0) {
        return None;
    }
    let vectors = row_bytes / VECTOR_BYTES;
    let threads = vectors.div_ceil(Held::of::<T>(2).packs).next_multiple_of(32) as u32;
    // Each block has its share of a multiprocessor's shared memory, of which the system takes 1 KiB for each.
    let shared = info.shared_mem_per_multiprocessor_bytes / (FUSED_THREADS / threads);
    let shared = shared.saturating_sub(1024 + STATIC_SHARED_BYTES);
    let (shared, stage) =
        (shared.min(MAX_SHARED_BYTES - STATIC_SHARED_BYTES), 2 * row_bytes as u32);
    let stages = (shared / stage).min(MAX_STAGES as u32);
    let blocks = fused_blocks(rows, columns) as u32;
    let config = Linear::new(blocks, threads).shared_mem(shared_bytes(stages, stage)).into();
    (stages >= 2).then_some((config, Shape { rows, columns: columns as u32, threads: 0 }))
}

/// # Safety
/// All have the stated lengths, `plan` is of [`fused`], and `partials` has room for two sums of each block and column.
unsafe fn backward_fused<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    (config, shape): (LaunchConfig, Shape),
    x: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    dx: &mut impl DeviceWrite<T>,
    partials: Option<&mut DeviceSliceMut<'_, f32>>,
) -> GpuResult<()> {
    let (stream, kind, (weight, _)) = (on.as_stream(), norm.kind, norm.weights());
    let addend = &As::<T>::optional(norm.residual.as_ref());
    let (weight, partials) = (&weight, &mut AsMut::<f32>::optional(partials));
    // SAFETY: the caller's promise.
    unsafe {
        T::norm_backward_fused(stream, config, shape, kind, x, dy, weight, addend, dx, partials)
    }
}

/// The gradient by the elements alone; `stats` become each row's mean and reciprocal deviation.
fn backward_alone<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    rows: usize,
    x: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    dx: &mut impl DeviceWrite<T>,
    stats: Option<&mut DeviceSliceMut<'_, Vec2<f32>>>,
) -> GpuResult<()> {
    let Some(plan) = plan::<T>(on, (rows, norm.columns), Held::of::<T>(2), Long::Streamed)? else {
        return Ok(());
    };
    let (stream, config, shape, kind) = (on.as_stream(), plan.config, plan.shape, norm.kind);
    let (weight, addend) = (&norm.weights().0, &As::<T>::optional(norm.residual.as_ref()));
    let stats = &mut AsMut::<Vec2<f32>>::optional(stats);
    // SAFETY: as in `forward`.
    unsafe {
        match plan.form {
            Form::Registers => T::norm_backward_registers(
                stream, config, shape, kind, x, dy, weight, addend, dx, stats,
            ),
            _ => T::norm_backward_streamed(
                stream, config, shape, kind, x, dy, weight, addend, dx, stats,
            ),
        }
    }
}

/// [`norm_into`] by the plain kernel, a block for each row: the form to read first. It knows no residual, and leaves
/// `norm`'s out.
///
/// # Errors
/// As [`norm_into`]; [`LaunchTooLarge`](crate::GpuError::LaunchTooLarge) for 2^31 rows or more.
pub fn plain_into(
    on: &impl AsStream,
    norm: &Norm<'_, f32>,
    x: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let rows = norm.rows(x.len())?;
    same_len("norm", x.len(), out.len())?;
    let (weight, bias) = norm.weights();
    let NormKind { is_centered, epsilon } = norm.kind;
    let grid = Grid1::new(block_count(rows));
    norm_plain::launch(
        on.as_stream(),
        grid,
        norm.columns,
        is_centered,
        epsilon,
        x,
        &weight,
        &bias,
        out,
    )
}

/// Gradients by the weights and the bias, each `[columns]`; what is `None` is not computed.
#[derive(Debug)]
pub struct WeightGradients<'a, T: Pod> {
    /// By the weights: `sum over rows of dy * normalised x`.
    pub weight: Option<DeviceSliceMut<'a, T>>,
    /// By the bias: `sum over rows of dy`.
    pub bias: Option<DeviceSliceMut<'a, T>>,
}

/// As [`backward_into`], with the gradients by weight and bias. Asynchronous; allocates nothing once `scratch` is large
/// enough. Without rows those gradients are 0.
///
/// # Errors
/// As [`backward_into`]; [`SizeMismatch`](crate::GpuError::SizeMismatch) if a gradient has another length.
pub fn backward_with_weights_into<T: RowValue>(
    on: &impl AsStream,
    norm: &Norm<'_, T>,
    x: &impl DeviceRead<T>,
    dy: &impl DeviceRead<T>,
    dx: &mut impl DeviceWrite<T>,
    mut gradients: WeightGradients<'_, T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (columns, rows) = (norm.columns, backward_rows(norm, x, dy, dx)?);
    for gradient in [&gradients.weight, &gradients.bias].into_iter().flatten() {
        same_len("the gradient of a norm's weights", columns, gradient.len())?;
    }
    if columns == 0 {
        return Ok(());
    }
    let (_, [stats, partials]) = scratch.parts(on, parts(rows, columns))?;
    let (stats, partials) = (stats.into_cast::<Vec2<f32>>()?, partials.into_cast::<f32>()?);
    let addresses = [x.raw().address, dy.raw().address, dx.raw_mut().address];
    let partials = match fused(on, norm, rows, addresses) {
        Some(plan) => {
            let length = 2 * fused_blocks(rows, columns) * columns;
            let (mut partials, _) = partials.split_at_mut(length);
            // SAFETY: all lengths were checked, and `partials` have those of the plan.
            unsafe { backward_fused(on, norm, plan, x, dy, dx, Some(&mut partials))? };
            partials
        }
        None => {
            let mut stats = (rows > 0).then_some(stats);
            if stats.is_some() {
                backward_alone(on, norm, rows, x, dy, dx, stats.as_mut())?;
            }
            let stats = As::<Vec2<f32>>::optional(stats.as_ref());
            let across = columns.div_ceil(columns_per_block(size_of::<T>())) as u32;
            let (grid, by) = (Grid2::new(across, chunks(rows) as u32), columns as u32);
            let (mut partials, _) = partials.split_at_mut(2 * chunks(rows) * columns);
            // SAFETY: all have the stated shapes, the statistics by the kernel before.
            unsafe {
                T::norm_weights_partial(
                    on.as_stream(),
                    grid,
                    rows,
                    by,
                    x,
                    dy,
                    &stats,
                    &mut partials,
                )?;
            }
            partials
        }
    };
    let mut weight = AsMut::<T>::optional(gradients.weight.as_mut());
    let mut bias = AsMut::<T>::optional(gradients.bias.as_mut());
    let grid = Grid2::new(columns.div_ceil(FINISH_COLUMNS) as u32, 2);
    // SAFETY: all have the stated shapes.
    unsafe {
        T::norm_weights_finish(on.as_stream(), grid, columns, &partials, &mut weight, &mut bias)
    }
}

/// The scratch memory of [`backward_with_weights_into`], in bytes.
#[must_use]
pub fn scratch_bytes(rows: usize, columns: usize) -> usize {
    size_of_parts(&parts(rows, columns))
}

/// Statistics of each row; partial sums for two gradients.
fn parts(rows: usize, columns: usize) -> [usize; 2] {
    let most = chunks(rows).max(fused_blocks(rows, columns));
    [rows * size_of::<Vec2<f32>>(), 2 * most * columns * size_of::<f32>()]
}
