//! Reductions: sums, products, extremes and their indices, of whole arrays, [segments](segmented_sum),
//! [rows](row_sums) and [columns](column_sums).
//!
//! | of a whole array | order of combining | of no elements | NaN |
//! |---|---|---|---|
//! | [`sum`], [`product`] | fixed by length and alignment | 0, 1 | propagates |
//! | [`min`], [`max`] | does not matter | +∞, -∞; the type's largest, smallest integer | ignored |
//! | [`argmin`], [`argmax`] | the first of equal ones | `None` | ignored |
//!
//! Integers wrap. Halves are added in f32, and their sum is an f32. Of -0 and +0 the smaller is -0; for
//! `argmin` and `argmax` they are equal.
//!
//! The same input gives the same bits in every run and on every device: each is one launch, in which the
//! last block to finish combines the partial results in the order of the blocks.
//!
//! The plain forms wait and return a number. Those with `_into` are asynchronous, write to device memory, and take their
//! scratch memory from a [`Scratch`].
//!
//! [`by`] reduces with an operator of your own kernel crate, which may carry captured values: see [`kernels_gpu::functor`].
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

mod element;
mod parts;

pub use element::Element;
pub use parts::{
    column_max, column_max_into, column_min, column_min_into, column_sums, column_sums_into,
    columns_scratch_bytes, row_max, row_max_into, row_min, row_min_into, row_sums, row_sums_into,
    rows_scratch_bytes, segmented_max, segmented_max_into, segmented_min, segmented_min_into,
    segmented_sum, segmented_sum_into, segments_scratch_bytes,
};

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::functor::ReduceKernel;
use kernels_gpu::reduce as kernels;
use kernels_gpu::reduce::{reduce_extreme, reduce_place, reduce_product, reduce_sum};

use super::scratch::size_of_parts;
use super::views::{As, AsMut};
use super::{Scratch, block_count, same_len};
use crate::error::{GpuContext, GpuResult};
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::AsStream;

/// The most bytes of a block's partial result.
const PARTIAL_BYTES: usize = 16;

/// What the `_into` forms for whole arrays take of their scratch, whatever the array, in bytes.
#[must_use]
pub fn scratch_bytes() -> usize {
    size_of_parts(&[kernels::MAX_BLOCKS as usize * PARTIAL_BYTES])
}

/// What every launch takes beside its arrays: the grid, words for the blocks' partial results, and counters of finished blocks.
struct Blocks<'a> {
    grid: Grid1,
    partials: DeviceSliceMut<'a, u32>,
    counters: DeviceSliceMut<'a, u32>,
}

impl<'a> Blocks<'a> {
    /// Those of a reduction of `x` into one value.
    fn whole<T, U>(
        on: &impl AsStream,
        x: &impl DeviceRead<T>,
        out: &impl DeviceWrite<U>,
        scratch: &'a mut Scratch,
    ) -> GpuResult<Self> {
        same_len("a reduction into one value", 1, out.len())?;
        let blocks = kernels::blocks(x.len() * size_of::<T>());
        let (counters, [partials]) = scratch.parts(on, [blocks as usize * PARTIAL_BYTES])?;
        Ok(Self { grid: Grid1::new(blocks), partials: partials.into_cast()?, counters })
    }
}

/// The value that `enqueue` writes, with memory of its own.
fn value<U: Pod>(
    on: &impl AsStream,
    enqueue: impl FnOnce(&mut DeviceBuffer<U>, &mut Scratch) -> GpuResult<()>,
) -> GpuResult<U> {
    let mut out = DeviceBuffer::zeroed(on, 1).gpu_context("allocating the result")?;
    enqueue(&mut out, &mut Scratch::new(on)?)?;
    let mut host = [U::zeroed()];
    out.copy_to_host(&mut host).gpu_context("reading the result")?;
    Ok(host[0])
}

/// The two forms of an operation, one that waits for the number and one that is asynchronous, and its kernel.
macro_rules! whole {
    ($(
        $(#[$doc:meta])*
        $name:ident, $into:ident: $kernel:ident<$shipped:ident>($($flip:ident)?) => $total:ty;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Errors of the driver.
        pub fn $name<T: Element>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<$total>
        where
            $kernel<T::$shipped>: Instance,
        {
            value(on, |out, scratch| $into(on, x, out, scratch))
        }

        #[doc = concat!("As [`", stringify!($name), "`], into `out: [1]`; asynchronous, in one launch.")]
        ///
        /// # Errors
        /// [`SizeMismatch`](crate::GpuError::SizeMismatch) unless `out` has one element; errors of the driver.
        pub fn $into<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            out: &mut impl DeviceWrite<$total>,
            scratch: &mut Scratch,
        ) -> GpuResult<()>
        where
            $kernel<T::$shipped>: Instance,
        {
            let Blocks { grid, mut partials, mut counters } = Blocks::whole(on, x, out, scratch)?;
            let (stream, x, mut out) = (on.as_stream(), As::new(x), AsMut::new(out));
            $kernel::<T::$shipped>::launch(
                stream, grid, $(T::$flip,)? &x, &mut partials, &mut counters, &mut out,
            )
        }
    )*};
}

whole! {
    /// The sum of `x: [n]`: of integers modulo 2³² or 2⁶⁴, of halves in f32; 0 of no elements.
    ///
    /// The order of additions is fixed by `n` and by the address of `x` modulo 16, so that a sum has the
    /// same bits in every run. No element passes through more than `n / 540,000 + 64` additions of f32
    /// (fewer of smaller types). NaN and infinities propagate.
    sum, sum_into: reduce_sum<Number>() => T::Total;

    /// The product of `x: [n]` of f32, f64 or integers, in the order of a [`sum`]: of integers modulo 2³² or 2⁶⁴; 1 of no
    /// elements.
    product, product_into: reduce_product<Number>() => T;

    /// The smallest element of `x: [n]`. NaN is ignored; of no elements it is +∞, or the type's largest integer.
    min, min_into: reduce_extreme<Ordered>(MIN) => T;

    /// The largest element of `x: [n]`. NaN is ignored; of no elements it is -∞, or the type's smallest integer.
    max, max_into: reduce_extreme<Ordered>(MAX) => T;
}

/// The two forms of a search for the index of an extreme.
macro_rules! index_of {
    ($($name:ident, $into:ident, $what:literal, $flip:ident;)*) => {$(
        #[doc = concat!("The index of the ", $what, " element of `x: [n]`, the first of equal ones. NaN is ignored; `None` where")]
        /// there is no number.
        ///
        /// # Errors
        /// Errors of the driver.
        pub fn $name<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
        ) -> GpuResult<Option<usize>>
        where
            reduce_place<T::Ordered>: Instance,
        {
            let index: u64 = value(on, |out, scratch| $into(on, x, out, scratch))?;
            Ok((index != u64::MAX).then_some(index as usize))
        }

        #[doc = concat!("As [`", stringify!($name), "`], into `out: [1]`, which becomes `u64::MAX` where there is no number;")]
        /// asynchronous, in one launch.
        ///
        /// # Errors
        /// As [`min_into`].
        pub fn $into<T: Element>(
            on: &impl AsStream,
            x: &impl DeviceRead<T>,
            out: &mut impl DeviceWrite<u64>,
            scratch: &mut Scratch,
        ) -> GpuResult<()>
        where
            reduce_place<T::Ordered>: Instance,
        {
            let Blocks { grid, mut partials, mut counters } = Blocks::whole(on, x, out, scratch)?;
            let (stream, x) = (on.as_stream(), As::new(x));
            reduce_place::<T::Ordered>::launch(
                stream, grid, T::$flip, &x, &mut partials, &mut counters, out,
            )
        }
    )*};
}

index_of! {
    argmin, argmin_into, "smallest", MIN;
    argmax, argmax_into, "largest", MAX;
}

/// All elements of `x: [n]` joined by `operator`, which may carry captured values; its identity, finished, of no elements.
/// Waits for the value.
///
/// The operator's kernel is in the kernel crate that declares the operator, whose image `on`'s device has loaded:
/// [`kernels_gpu::instances!`] lists it. Elements are joined in an order that the length and the address of `x` modulo 16 fix.
///
/// # Errors
/// As [`by_into`].
#[doc(alias = "functor")]
pub fn by<O: ReduceKernel>(
    on: &impl AsStream,
    operator: O,
    x: &impl DeviceRead<O::Input>,
) -> GpuResult<O::Output> {
    value(on, |out, scratch| by_into(on, operator, x, out, scratch))
}

/// As [`by`], into `out: [1]`; asynchronous, in one launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) unless `out` has one element; [`NoKernels`](crate::GpuError::NoKernels) or
/// [`NotFound`](crate::GpuError::NotFound) if the device has not loaded the operator's kernel crate; errors of the driver.
pub fn by_into<O: ReduceKernel>(
    on: &impl AsStream,
    operator: O,
    x: &impl DeviceRead<O::Input>,
    out: &mut impl DeviceWrite<O::Output>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    const { assert!(size_of::<O::Value>() <= PARTIAL_BYTES) };
    let Blocks { grid, mut partials, mut counters } = Blocks::whole(on, x, out, scratch)?;
    operator.launch(on.as_stream(), grid, x, &mut partials, &mut counters, out)
}

/// Sum of `x: [n]` as textbooks have it: partial sums by trees in shared memory, added up on the host. The form to read first.
///
/// # Errors
/// Errors of the driver.
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
