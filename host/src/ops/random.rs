//! Arrays of random numbers: Philox4x32-10, the same for a seed whatever the grid and the device.
//!
//! A seed stands for an endless array of each kind; a call writes the part that begins at element `offset`. So
//! calls that follow each other continue the array, and any part of it can be had alone. The words are those of
//! [`cuda_std::random::Philox`], sequence 0 of the seed.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops::random};
//!
//! let gpu = Gpu::new()?;
//! let mut noise = DeviceBuffer::<f32>::zeroed(&gpu, 1000)?;
//! random::uniform_into(&gpu, &mut noise, 42, 0)?;
//! let mut part = DeviceBuffer::<f32>::zeroed(&gpu, 100)?;
//! random::uniform_into(&gpu, &mut part, 42, 300)?;
//! assert_eq!(part.to_vec()?, noise.to_vec()?[300..400]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::{DeviceWrite, Grid1, Instance};
use kernels_gpu::random::{
    Below, Below64, NormalF32, UniformF32, UniformF64, Words, Words64, blocks, random_fill,
};
use kernels_gpu::random::{random_normal_plain, random_uniform_plain};

use super::sealed::Sealed;
use crate::LaunchConfig;
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

/// A type of uniform numbers: `f32` (multiples of 2^-24, a word each) or `f64` (multiples of 2^-53, two words each).
#[diagnostic::on_unimplemented(
    message = "the kernel `random_fill` has no uniform distribution of `{Self}`",
    note = "it has those of `f32` and `f64`"
)]
pub trait Uniform: Pod + Sealed {
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()>;
}

impl Uniform for f32 {
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()> {
        fill::<UniformF32, _, 4>(on, out, seed, offset, 0.0, 0.0)
    }
}

impl Uniform for f64 {
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()> {
        fill::<UniformF64, _, 2>(on, out, seed, offset, 0.0, 0.0)
    }
}

/// A type of random integers: `u32` (a word each) or `u64` (two words each, the lower half first).
#[diagnostic::on_unimplemented(
    message = "the kernel `random_fill` has no integers of type `{Self}`",
    note = "it has those of `u32` and `u64`"
)]
pub trait Integer: Pod + PartialOrd + Sealed {
    /// Fills `out` with the integers of `range`, or with all.
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        range: Option<Range<Self>>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()>;
}

impl Integer for u32 {
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        range: Option<Range<Self>>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()> {
        match range {
            None => fill::<Words, _, 4>(on, out, seed, offset, 0, 0),
            Some(Range { start, end }) => {
                fill::<Below, _, 4>(on, out, seed, offset, start, end - start)
            }
        }
    }
}

impl Integer for u64 {
    fn fill(
        on: &impl AsStream,
        out: &mut impl DeviceWrite<Self>,
        range: Option<Range<Self>>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()> {
        match range {
            None => fill::<Words64, _, 2>(on, out, seed, offset, 0, 0),
            Some(Range { start, end }) => {
                fill::<Below64, _, 2>(on, out, seed, offset, start, end - start)
            }
        }
    }
}

/// Fills `out` from `Distribution`, `N` numbers for each counter of the generator, with its parameters `a` and `b`.
fn fill<Distribution, T, const N: usize>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    seed: u64,
    offset: u64,
    a: T,
    b: T,
) -> GpuResult<()>
where
    random_fill<Distribution, T, N>: Instance,
{
    let grid = Grid1::new(blocks(out.len(), size_of::<T>()));
    random_fill::<Distribution, T, N>::launch(on.as_stream(), grid, seed, offset, a, b, out)
}

/// Uniform numbers in `[0, 1)`: 0 can occur, 1 cannot. `out: [n]` of `f32` or `f64`. Asynchronous; the same bits on every
/// device.
///
/// # Errors
/// Errors of the driver.
pub fn uniform_into<T: Uniform>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    T::fill(on, out, seed, offset)
}

/// Normal numbers of mean 0 and variance 1: `out: [n]`. Asynchronous. As [`normal_scaled_into`].
///
/// # Errors
/// Errors of the driver.
pub fn normal_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    normal_scaled_into(on, out, seed, offset, 0.0, 1.0)
}

/// Normal numbers of mean `mean` and standard deviation `deviation`: `out: [n]`. Asynchronous.
///
/// By Box and Muller's transform of pairs of words: elements `2 k` and `2 k + 1` are the cosine and the sine of a pair.
/// Logarithm, root, sine and cosine are approximate instructions: before the scale a number is off by at most
/// 2^-18 times the radius of its pair, which is at most 6.8. The same bits whatever the grid; between devices the
/// last ones may differ.
///
/// # Errors
/// Errors of the driver.
pub fn normal_scaled_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
    mean: f32,
    deviation: f32,
) -> GpuResult<()> {
    fill::<NormalF32, _, 4>(on, out, seed, offset, mean, deviation)
}

/// All integers, equally likely: `out: [n]` of `u32` or `u64`. Asynchronous; the same bits on every device.
///
/// # Errors
/// Errors of the driver.
pub fn integers_into<T: Integer>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    T::fill(on, out, None, seed, offset)
}

/// The integers of `range`, all equally likely (no remainder is taken): `out: [n]` of `u32` or `u64`. Asynchronous; the same
/// bits on every device.
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) if the range is empty; errors of the driver.
pub fn integers_in_range_into<T: Integer>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    range: Range<T>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    if range.is_empty() {
        let reason = "the range is empty".into();
        return Err(GpuError::InvalidArgument { operation: "random integers", reason });
    }
    T::fill(on, out, Some(range), seed, offset)
}

/// [`uniform_into`] by the plain kernel: the same numbers.
///
/// # Errors
/// Errors of the driver.
pub fn uniform_plain_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    let config = LaunchConfig::for_num_elems(out.len());
    random_uniform_plain::launch(on.as_stream(), config, seed, offset, out)
}

/// [`normal_into`] by the plain kernel, with accurate functions: to 8 units in the last place of the pair's radius.
///
/// # Errors
/// Errors of the driver.
pub fn normal_plain_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    let config = LaunchConfig::for_num_elems(out.len());
    random_normal_plain::launch(on.as_stream(), config, seed, offset, out)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/random-arrays.md")]
struct Chapter;
