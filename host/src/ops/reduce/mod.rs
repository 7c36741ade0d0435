//! One value of many: sums, products, extremes and their places, of whole arrays, [segments](segmented_sum),
//! [rows](row_sums) and [columns](column_sums).
//!
//! | of a whole array | order of joining | of nothing | NaN |
//! |---|---|---|---|
//! | [`sum`], [`product`] | fixed by length and alignment | 0, 1 | goes through |
//! | [`min`], [`max`] | has no influence | +∞, -∞; the type's largest, smallest integer | left out |
//! | [`argmin`], [`argmax`] | the first of equal ones | `None` | left out |
//!
//! Integers wrap. Halves are added in f32, and their sum is an f32. Of -0 and +0 the smaller is -0; for
//! `argmin` and `argmax` they are equal.
//!
//! The same input gives the same bits in every run and on every device: each is one launch, in which the
//! block that ends last joins the blocks' values in the order of the blocks.
//!
//! The plain forms wait and return a number. Those with `_into` are queued, write into memory of the device,
//! and take their scratch memory from a [`Scratch`].
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops::reduce};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[3.0f32, -1.0, f32::NAN, 4.0])?;
//! assert_eq!((reduce::min(&gpu, &x)?, reduce::argmax(&gpu, &x)?), (-1.0, Some(3)));
//! assert_eq!(reduce::sum(&gpu, &x.slice(..2))?, 2.0);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

mod parts;
mod types;

pub use parts::{
    column_max, column_max_into, column_min, column_min_into, column_sums, column_sums_into,
    columns_scratch_bytes, row_max, row_max_into, row_min, row_min_into, row_sums, row_sums_into,
    rows_scratch_bytes, segmented_max, segmented_max_into, segmented_min, segmented_min_into,
    segmented_sum, segmented_sum_into, segments_scratch_bytes,
};
pub use types::{Compare, CompareParts, Product, Sum, SumParts};

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::grid::reduce as kernels;

use self::types::{Job, Side};
use super::scratch::size_of_parts;
use super::{Scratch, block_count, same_len};
use crate::error::{GpuContext, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Bytes that a block hands over, at most.
const PARTIAL_BYTES: usize = 16;

/// What the `_into` forms for whole arrays take of their scratch, whatever the array, in bytes.
#[must_use]
pub fn scratch_bytes() -> usize {
    size_of_parts(&[kernels::MAX_BLOCKS as usize * PARTIAL_BYTES])
}

/// What a launch over `x` into one value takes.
fn job<'a, T: Pod, S: AsStream, U>(
    on: &'a S,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<U>,
    scratch: &'a mut Scratch,
) -> GpuResult<Job<'a>> {
    same_len("a reduction into one value", 1, out.len())?;
    let blocks = kernels::blocks(x.len() * size_of::<T>());
    let (counters, [partials]) = scratch.parts(on, [blocks as usize * PARTIAL_BYTES])?;
    Ok(Job { stream: on.as_stream(), blocks, partials: partials.into_cast()?, counters })
}

/// The value that `queue` writes, with memory of its own.
fn value<U: Pod>(
    on: &impl AsStream,
    queue: impl FnOnce(&mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>,
) -> GpuResult<U> {
    let mut out = DeviceBuffer::zeroed(on, 1).gpu_context("allocating the result")?;
    queue(&mut out, &mut Scratch::new(on)?)?;
    let mut host = [U::zeroed()];
    out.copy_to_host(&mut host).gpu_context("reading the result")?;
    Ok(host[0])
}

/// The forms of an operation: queued into memory, and waited for.
macro_rules! whole {
    ($(
        $(#[$doc:meta])*
        $name:ident, $into:ident: $trait:ident => $total:ty,
        |$job:ident, $x:ident, $out:ident| $launch:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// What the driver answers.
        pub fn $name<T: $trait>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<$total> {
            value(on, |out, scratch| $into(on, x, out, scratch))
        }

        #[doc = concat!("As [`", stringify!($name), "`], into `out: [1]`; queued, in one launch.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) unless `out` has one element; what the driver answers.
        pub fn $into<T: $trait>(
            on: &impl AsStream,
            $x: &impl DeviceRead<T>,
            $out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> GpuResult<()> {
            let $job = job(on, $x, $out, scratch)?;
            $launch
        }
    )*};
}

whole! {
    /// The sum of `x: [n]`: of integers modulo 2³² or 2⁶⁴, of halves in f32; 0 of nothing.
    ///
    /// The order of additions is fixed by `n` and by the address of `x` modulo 16, so that a sum has the
    /// same bits in every run. No element passes through more than `n / 540,000 + 64` additions of f32
    /// (fewer of smaller types). NaN and infinities go through.
    sum, sum_into: Sum => T::Total, |job, x, out| T::launch(job, x, out);

    /// The product of `x: [n]`, in the order of a [`sum`]: of integers modulo 2³² or 2⁶⁴; 1 of nothing.
    product, product_into: Product => T, |job, x, out| T::launch(job, x, out);

    /// The smallest element of `x: [n]`. NaN is left out; of nothing it is +∞, or the type's largest integer.
    min, min_into: Compare => T, |job, x, out| T::launch_extreme(job, Side::Least, x, out);

    /// The largest element of `x: [n]`. NaN is left out; of nothing it is -∞, or the type's smallest integer.
    max, max_into: Compare => T, |job, x, out| T::launch_extreme(job, Side::Greatest, x, out);
}

/// The position of the smallest element of `x: [n]`, the first of equal ones. NaN is left out; `None` where there
/// is no number.
///
/// # Errors
/// What the driver answers.
pub fn argmin<T: Compare>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<Option<usize>> {
    Ok(position(value(on, |out, scratch| argmin_into(on, x, out, scratch))?))
}

/// The position of the largest element of `x: [n]`, the first of equal ones. NaN is left out; `None` where there
/// is no number.
///
/// # Errors
/// What the driver answers.
pub fn argmax<T: Compare>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<Option<usize>> {
    Ok(position(value(on, |out, scratch| argmax_into(on, x, out, scratch))?))
}

/// As [`argmin`], into `out: [1]`, which becomes `u64::MAX` where there is no number; queued, in one launch.
///
/// # Errors
/// As [`min_into`].
pub fn argmin_into<T: Compare>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    T::launch_place(job(on, x, out, scratch)?, Side::Least, x, out)
}

/// As [`argmax`], into `out: [1]`, which becomes `u64::MAX` where there is no number; queued, in one launch.
///
/// # Errors
/// As [`max_into`].
pub fn argmax_into<T: Compare>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    T::launch_place(job(on, x, out, scratch)?, Side::Greatest, x, out)
}

/// What a kernel's position says.
fn position(at: u64) -> Option<usize> {
    (at != u64::MAX).then_some(at as usize)
}

/// Sum of `x: [n]` in the textbook's way: partial sums by trees in shared memory, added up on the host.
///
/// # Errors
/// What the driver answers.
pub fn sum_tree_f32<S: AsStream>(on: &S, x: &impl DeviceRead<f32>) -> GpuResult<f32> {
    let blocks = x.len().div_ceil(kernels::BLOCK as usize);
    let mut partials = DeviceBuffer::<u32>::zeroed(on, blocks)?;
    let grid = Grid1::new(block_count(blocks));
    kernels::reduce_tree_f32::launch(on.as_stream(), grid, x, &mut partials)?;
    Ok(partials.to_vec()?.into_iter().map(f32::from_bits).sum())
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../book/src/reductions-and-maps.md")]
struct Chapter;
