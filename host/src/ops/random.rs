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
use cuda_std::launch::{DeviceWrite, Grid1};
use kernels_gpu::grid::random::{
    Below, Below64, NormalF32, UniformF32, UniformF64, Words, Words64, blocks, random_fill,
};
use kernels_gpu::{random_normal_plain, random_uniform_plain};

use crate::LaunchConfig;
use crate::error::{GpuError, GpuResult};
use crate::stream::{AsStream, Stream};

mod sealed {
    /// Bars other implementations.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A type of uniform numbers: `f32` (multiples of 2^-24, a word each) or `f64` (multiples of 2^-53, two words each).
pub trait Uniform: Pod + sealed::Sealed {
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn fill(on: &Stream, out: &mut impl DeviceWrite<Self>, seed: u64, offset: u64)
    -> GpuResult<()>;
}

/// A type of random integers: `u32` (a word each) or `u64` (two words each, the lower half first).
pub trait Integer: Pod + PartialOrd + sealed::Sealed {
    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn fill(on: &Stream, out: &mut impl DeviceWrite<Self>, seed: u64, offset: u64)
    -> GpuResult<()>;

    #[doc(hidden)]
    #[allow(clippy::missing_errors_doc)]
    fn fill_range(
        on: &Stream,
        out: &mut impl DeviceWrite<Self>,
        range: Range<Self>,
        seed: u64,
        offset: u64,
    ) -> GpuResult<()>;
}

/// Launches one instance of the kernel for as many elements as there are.
macro_rules! fill {
    ($distribution:ident $t:ident $n:literal, $on:ident, $out:ident, $seed:ident, $offset:ident, $a:expr, $b:expr) => {{
        let grid = Grid1::new(blocks($out.len(), size_of::<$t>()));
        random_fill::<$distribution, $t, $n>::launch($on, grid, $seed, $offset, $a, $b, $out)
    }};
}

/// Implements [`Uniform`].
macro_rules! uniforms {
    ($($t:ident $n:literal $distribution:ident;)*) => {$(
        impl Uniform for $t {
            fn fill(
                on: &Stream,
                out: &mut impl DeviceWrite<Self>,
                seed: u64,
                offset: u64,
            ) -> GpuResult<()> {
                fill!($distribution $t $n, on, out, seed, offset, 0.0, 0.0)
            }
        }
    )*};
}

uniforms! {
    f32 4 UniformF32;
    f64 2 UniformF64;
}

/// Implements [`Integer`].
macro_rules! integers {
    ($($t:ident $n:literal $words:ident $below:ident;)*) => {$(
        impl Integer for $t {
            fn fill(
                on: &Stream,
                out: &mut impl DeviceWrite<Self>,
                seed: u64,
                offset: u64,
            ) -> GpuResult<()> {
                fill!($words $t $n, on, out, seed, offset, 0, 0)
            }

            fn fill_range(
                on: &Stream,
                out: &mut impl DeviceWrite<Self>,
                range: Range<Self>,
                seed: u64,
                offset: u64,
            ) -> GpuResult<()> {
                let (start, count) = (range.start, range.end - range.start);
                fill!($below $t $n, on, out, seed, offset, start, count)
            }
        }
    )*};
}

integers! {
    u32 4 Words Below;
    u64 2 Words64 Below64;
}

/// Uniform numbers in `[0, 1)`: 0 can occur, 1 cannot. `out: [n]` of `f32` or `f64`. Queued; the same bits on every
/// device.
///
/// # Errors
/// What the driver answers.
pub fn uniform_into<T: Uniform>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    T::fill(on.as_stream(), out, seed, offset)
}

/// Normal numbers of mean 0 and variance 1: `out: [n]`. Queued. As [`normal_scaled_into`].
///
/// # Errors
/// What the driver answers.
pub fn normal_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    normal_scaled_into(on, out, seed, offset, 0.0, 1.0)
}

/// Normal numbers of mean `mean` and standard deviation `deviation`: `out: [n]`. Queued.
///
/// By Box and Muller's transform of pairs of words: elements `2 k` and `2 k + 1` are the cosine and the sine of a pair.
/// Logarithm, root, sine and cosine are approximate instructions: before the scale a number is off by at most
/// 2^-18 times the radius of its pair, which is at most 6.8. The same bits whatever the grid; between devices the
/// last ones may differ.
///
/// # Errors
/// What the driver answers.
pub fn normal_scaled_into(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<f32>,
    seed: u64,
    offset: u64,
    mean: f32,
    deviation: f32,
) -> GpuResult<()> {
    let on = on.as_stream();
    fill!(NormalF32 f32 4, on, out, seed, offset, mean, deviation)
}

/// All integers, equally likely: `out: [n]` of `u32` or `u64`. Queued; the same bits on every device.
///
/// # Errors
/// What the driver answers.
pub fn integers_into<T: Integer>(
    on: &impl AsStream,
    out: &mut impl DeviceWrite<T>,
    seed: u64,
    offset: u64,
) -> GpuResult<()> {
    T::fill(on.as_stream(), out, seed, offset)
}

/// The integers of `range`, all equally likely (no remainder is taken): `out: [n]` of `u32` or `u64`. Queued; the same
/// bits on every device.
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) if the range is empty; what the driver answers.
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
    T::fill_range(on.as_stream(), out, range, seed, offset)
}

/// [`uniform_into`] by the plain kernel: the same numbers.
///
/// # Errors
/// What the driver answers.
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
/// What the driver answers.
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
