//! What training takes beside [products](mod@super::matmul), [norms](mod@super::norm) and [attention](super::attention): the loss, the optimiser, and rows of
//! a table.
//!
//! ```
//! use ferrowarp::ops::training::cross_entropy_into;
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! // Two rows of two classes; the first is sure of its class, the second is not.
//! let logits = DeviceBuffer::from_slice(&gpu, &[100.0f32, 0.0, 0.0, 0.0])?;
//! let targets = DeviceBuffer::from_slice(&gpu, &[0u32, 1])?;
//! let mut losses = DeviceBuffer::zeroed(&gpu, 2)?;
//! let mut gradients = DeviceBuffer::zeroed(&gpu, 4)?;
//! cross_entropy_into(&gpu, &logits, 2, &targets, 1.0, &mut losses, &mut gradients)?;
//! assert_eq!(losses.to_vec()?[0], 0.0);
//! assert!((losses.to_vec()?[1] - 2.0f32.ln()).abs() < 1e-6);
//! assert_eq!(gradients.to_vec()?[2..], [0.5, -0.5]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use cuda_std::vector::Vec2;
use kernels_gpu::matmul::Value;
use kernels_gpu::training::{adam, cross_entropy, embedding, embedding_gradient};

pub use kernels_gpu::training::AdamStep;

use super::rows::rows_of;
use super::{block_count, same_len};
use crate::error::GpuResult;
use crate::stream::AsStream;

/// The cross entropy of each row of `logits: [rows, columns]` with its target, `losses[row] = ln sum exp(logits[row]) - logits[row][target]`, and the gradients
/// of the losses by the logits, times `scale`. `targets, losses: [rows]`; `gradients: [rows, columns]`, or of no elements where they are not wanted. Computed in
/// f32. Asynchronous; allocates nothing.
///
/// A row whose target is not below `columns` does not count: its loss and its gradients are 0. NaN or infinity in a row makes its loss and its gradients
/// NaN; a logit of negative infinity has the probability 0.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ, [`InvalidArgument`](crate::GpuError::InvalidArgument) if `logits` are not a whole number of
/// rows; errors of the driver.
pub fn cross_entropy_into<T: Value>(
    on: &impl AsStream,
    logits: &impl DeviceRead<T>,
    columns: usize,
    targets: &impl DeviceRead<u32>,
    scale: f32,
    losses: &mut impl DeviceWrite<f32>,
    gradients: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    cross_entropy<T>: Instance,
{
    const OPERATION: &str = "the cross entropy";
    let rows = rows_of(OPERATION, logits.len(), columns)?;
    same_len(OPERATION, rows, targets.len())?;
    same_len(OPERATION, rows, losses.len())?;
    if gradients.len() != 0 {
        same_len("the gradients of the cross entropy", logits.len(), gradients.len())?;
    }
    if rows == 0 {
        return Ok(());
    }
    let grid = Grid1::new(block_count(rows.div_ceil(kernels_gpu::training::loss::ROWS)));
    let on = on.as_stream();
    cross_entropy::<T>::launch(on, grid, columns, scale, logits, targets, losses, gradients)
}

/// What a step of Adam does, by its number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Adam {
    /// How far a weight goes in a step, about.
    pub rate: f32,
    /// What is kept of the means of gradients and of their squares.
    pub betas: [f32; 2],
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// Decoupled weight decay: by which part of itself, times `rate`, a weight becomes smaller.
    pub decay: f32,
}

impl Adam {
    /// With this rate, PyTorch's other numbers, and no decay.
    #[must_use]
    pub const fn new(rate: f32) -> Self {
        Self { rate, betas: [0.9, 0.999], epsilon: 1e-8, decay: 0.0 }
    }

    /// What the kernel takes in step `number`, from 1.
    #[must_use]
    pub fn step(&self, number: u32) -> AdamStep {
        let Self { rate, betas: [beta1, beta2], epsilon, decay } = *self;
        let unbias = |beta: f32| {
            let kept = f64::from(beta).powi(number.max(1).try_into().unwrap_or(i32::MAX));
            (1.0 / (1.0 - kept)) as f32
        };
        let (unbias1, unbias2) = (unbias(beta1), unbias(beta2));
        AdamStep { rate, beta1, beta2, epsilon, decay, unbias1, unbias2 }
    }
}

/// A step of Adam with decoupled weight decay: `weights` and `means`, of gradients and of their squares, are updated by `gradient`, and `rounded` becomes the
/// weights in a type of 16 bits. All `[n]`; `rounded` may be of no elements. `means` begin with zeros. Asynchronous; allocates nothing.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn adam_into<T: Value>(
    on: &impl AsStream,
    step: AdamStep,
    gradient: &impl DeviceRead<f32>,
    weights: &mut impl DeviceWrite<f32>,
    means: &mut impl DeviceWrite<Vec2<f32>>,
    rounded: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    adam<T>: Instance,
{
    const OPERATION: &str = "a step of Adam";
    let n = weights.len();
    same_len(OPERATION, n, gradient.len())?;
    same_len(OPERATION, n, means.len())?;
    if rounded.len() != 0 {
        same_len(OPERATION, n, rounded.len())?;
    }
    let config = LaunchConfig::for_num_elems(n);
    adam::<T>::launch(on.as_stream(), config, step, gradient, weights, means, rounded)
}

/// `out[i] = table[tokens[i]]`, rows of `columns` elements: `table: [entries, columns]`, `tokens: [n]`, `out: [n, columns]`. Asynchronous; allocates nothing.
/// A token that the table has no row for is a panic of the kernel.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ, [`InvalidArgument`](crate::GpuError::InvalidArgument) if `table` is not a whole number of
/// rows; errors of the driver.
pub fn embedding_into<T: Value>(
    on: &impl AsStream,
    tokens: &impl DeviceRead<u32>,
    table: &impl DeviceRead<T>,
    columns: usize,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    embedding<T>: Instance,
{
    const OPERATION: &str = "an embedding";
    rows_of(OPERATION, table.len(), columns)?;
    same_len(OPERATION, tokens.len().saturating_mul(columns), out.len())?;
    let config = LaunchConfig::for_num_elems(out.len());
    embedding::<T>::launch(on.as_stream(), config, columns, tokens, table, out)
}

/// The gradient of the table of [`embedding_into`]: each row of `out: [entries, columns]` becomes the sum of the rows of `gradient: [n, columns]` whose token it is,
/// in their order, of zeros if there are none. `places: [n]` are the indices that sort `tokens: [n]`: see [`argsort_into`](super::sort::argsort_into).
/// Asynchronous; allocates nothing.
///
/// # Errors
/// As [`embedding_into`], by `out` instead of `table`.
pub fn embedding_gradient_into<T: Value>(
    on: &impl AsStream,
    (tokens, places): (&impl DeviceRead<u32>, &impl DeviceRead<u32>),
    gradient: &impl DeviceRead<T>,
    columns: usize,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()>
where
    embedding_gradient<T>: Instance,
{
    const OPERATION: &str = "the gradient of an embedding";
    let entries = rows_of(OPERATION, out.len(), columns)?;
    same_len(OPERATION, tokens.len(), places.len())?;
    same_len(OPERATION, tokens.len().saturating_mul(columns), gradient.len())?;
    if entries == 0 {
        return Ok(());
    }
    let grid = Grid1::new(block_count(entries));
    embedding_gradient::<T>::launch(on.as_stream(), grid, columns, tokens, places, gradient, out)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/language-model.md")]
struct Chapter;
