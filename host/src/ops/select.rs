//! Selections (stream compaction), partitions and run-length encoding.
//!
//! The number of selected elements stays on the device, in a buffer of one `u64`, so that nothing waits for it. The forms that
//! return a buffer of their own read it. Results are the same, bit for bit, in every run.
//!
//! ```
//! use ferrowarp::ops::select::{self, Above, Nonzero, Unique};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[3.0_f32, 0.0, 0.0, -1.0, 5.0])?;
//! assert_eq!(select::by(&gpu, Nonzero, &x)?.to_vec()?, [3.0, -1.0, 5.0]);
//! let (parts, kept) = select::partition(&gpu, Above(1.0), &x)?;
//! assert_eq!((parts.to_vec()?, kept), (vec![3.0, 5.0, -1.0, 0.0, 0.0], 2));
//! assert_eq!(select::by(&gpu, Unique, &x)?.to_vec()?, [3.0, 0.0, -1.0, 5.0]);
//! let (values, lengths) = select::run_lengths(&gpu, &x)?;
//! assert_eq!(values.to_vec()?, [3.0, 0.0, -1.0, 5.0]);
//! assert_eq!(lengths.to_vec()?, [1, 2, 1, 1]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::functor::SelectKernel;
use kernels_gpu::select::{
    run_lengths as run_lengths_kernel, run_scratch_len, scratch_len, select_above, select_flagged,
    select_nonzero, select_running, select_unique,
};

use super::number::Number;
use super::scan::{grid, unwritten};
use super::scratch::{TileStates, size_of_parts};
use super::sealed::Sealed;
use super::views::{As, AsMut};
use super::{Scratch, same_len};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// The elements that are greater than this. `u32`, `i32`, `f32`; a NaN is not greater.
#[derive(Clone, Copy, Debug)]
pub struct Above<T>(pub T);

/// The elements that are not zero, of either sign. `u8`, `i8`, `u32`, `i32`, `f32`; a NaN is not zero.
#[derive(Clone, Copy, Debug)]
pub struct Nonzero;

/// The elements whose flag is not 0: `flags: [n]`. Numbers of 1, 4 and 8 bytes.
#[derive(Debug)]
pub struct Flagged<'a, F>(pub &'a F);

impl<F> Clone for Flagged<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Flagged<'_, F> {}

/// The elements that differ from the one before, and the first. Numbers of 1, 4 and 8 bytes are compared by their
/// bits: of floats, a NaN equals itself, and the two zeros differ.
#[derive(Clone, Copy, Debug)]
pub struct Unique;

/// The elements that a [`Predicate`](kernels_gpu::functor::Predicate) of your own kernel crate keeps, which may carry captured
/// values: `Where(Within { low: 0.0, high: 1.0 })`. See [`kernels_gpu::functor`] for how to write one.
#[derive(Clone, Copy, Debug)]
pub struct Where<P>(pub P);

/// What a selection keeps: [`Above`], [`Nonzero`], [`Flagged`], [`Unique`] or [`Where`].
#[diagnostic::on_unimplemented(
    message = "there is no selection from elements of `{T}` by `{Self}`",
    note = "a predicate of your own is wrapped: `Where(predicate)`; see `kernels_gpu::functor`"
)]
pub trait Selector<T: Pod>: Sized + Sealed<T> {
    #[doc(hidden)]
    fn check(&self, _n: usize) -> GpuResult<()> {
        Ok(())
    }

    #[doc(hidden)]
    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()>;
}

impl<T: Pod> Sealed<T> for Above<T> {}

impl<T: Pod> Selector<T> for Above<T>
where
    select_above<T>: Instance,
{
    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        mut states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()> {
        let (grid, x, mut out) = (grid::<T, u64>(on, x.len().max(1)), As::new(x), AsMut::new(out));
        // SAFETY: the states are 0, or as a selection left them.
        unsafe {
            select_above::<T>::launch(
                on,
                grid,
                &x,
                self.0,
                split,
                &mut states.words,
                &mut out,
                count,
            )
        }
    }
}

impl<T: Number> Sealed<T> for Nonzero {}

impl<T: Number> Selector<T> for Nonzero
where
    select_nonzero<T::Unsigned>: Instance,
{
    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        mut states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()> {
        let (grid, x, mut out) = (grid::<T, u64>(on, x.len().max(1)), As::new(x), AsMut::new(out));
        // SAFETY: the states are 0, or as a selection left them.
        unsafe {
            select_nonzero::<T::Unsigned>::launch(
                on,
                grid,
                &x,
                split,
                &mut states.words,
                &mut out,
                count,
            )
        }
    }
}

impl<T: Number, F: DeviceRead<u8>> Sealed<T> for Flagged<'_, F> {}

impl<T: Number, F: DeviceRead<u8>> Selector<T> for Flagged<'_, F>
where
    select_flagged<T::Bits>: Instance,
{
    fn check(&self, n: usize) -> GpuResult<()> {
        same_len("the flags of a selection", n, self.0.len())
    }

    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        mut states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()> {
        let (grid, x, mut out) = (grid::<T, u64>(on, x.len().max(1)), As::new(x), AsMut::new(out));
        // SAFETY: the states are 0, or as a selection left them.
        unsafe {
            select_flagged::<T::Bits>::launch(
                on,
                grid,
                &x,
                self.0,
                split,
                &mut states.words,
                &mut out,
                count,
            )
        }
    }
}

impl<T: Number> Sealed<T> for Unique {}

impl<T: Number> Selector<T> for Unique
where
    select_unique<T::Bits>: Instance,
{
    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        mut states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()> {
        let (grid, x, mut out) = (grid::<T, u64>(on, x.len().max(1)), As::new(x), AsMut::new(out));
        // SAFETY: the states are 0, or as a selection left them.
        unsafe {
            select_unique::<T::Bits>::launch(
                on,
                grid,
                &x,
                split,
                &mut states.words,
                &mut out,
                count,
            )
        }
    }
}

impl<T: Pod, P: SelectKernel<T>> Sealed<T> for Where<P> {}

impl<T: Pod, P: SelectKernel<T>> Selector<T> for Where<P> {
    fn launch(
        self,
        on: &Stream,
        x: &impl DeviceRead<T>,
        split: bool,
        mut states: TileStates<'_>,
        out: &mut impl DeviceWrite<T>,
        count: &mut impl DeviceWrite<u64>,
    ) -> GpuResult<()> {
        let grid = grid::<T, u64>(on, x.len().max(1));
        // SAFETY: the states are 0, or as a selection left them.
        unsafe { self.0.launch(on, grid, x, split, &mut states.words, out, count) }
    }
}

/// What a selection from `n_elems` elements takes of its scratch, in bytes.
#[must_use]
pub fn scratch_bytes<T: Pod>(n_elems: usize) -> usize {
    size_of_parts(&[scratch_len::<T>(n_elems) * size_of::<u64>()])
}

fn select<T: Pod>(
    on: &impl AsStream,
    selector: impl Selector<T>,
    split: bool,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    count: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let n = x.len();
    selector.check(n)?;
    same_len("the count of a selection", 1, count.len())?;
    let (states, _) = scratch.states(on, scratch_len::<T>(n), 0)?;
    selector.launch(on.as_stream(), x, split, states, out, count)
}

/// Writes the elements of `x: [n]` that `selector` keeps to the front of `out`, in their order, and how many there are
/// to `count: [1]`; asynchronous, in one launch. The rest of `out` stays as it is. Where `out` has room for fewer, the
/// rest is left out, and counted all the same.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `count` or the selector's flags have another length; errors of
/// the driver, such as out of memory where the scratch must grow.
pub fn by_into<T: Pod>(
    on: &impl AsStream,
    selector: impl Selector<T>,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    count: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    select(on, selector, false, x, out, count, scratch)
}

/// As [`by_into`]; `out: [n]` gets the other elements too, after the kept ones, in reversed order.
///
/// # Errors
/// As [`by_into`], and if `out` has another length than `x`.
pub fn partition_into<T: Pod>(
    on: &impl AsStream,
    selector: impl Selector<T>,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    count: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    same_len("partition", x.len(), out.len())?;
    select(on, selector, true, x, out, count, scratch)
}

/// The elements that `selector` keeps, in their order: a new buffer of their number. Waits for the count.
///
/// # Errors
/// As [`by_into`].
pub fn by<T: Pod>(
    on: &impl AsStream,
    selector: impl Selector<T>,
    x: &impl DeviceRead<T>,
) -> GpuResult<DeviceBuffer<T>> {
    let (mut out, mut count) = (unwritten(on, x.len())?, unwritten(on, 1)?);
    by_into(on, selector, x, &mut out, &mut count, &mut Scratch::new(on)?)?;
    let kept = read(&count)?;
    front(on, &out, kept)
}

/// All elements, those that `selector` keeps first, and how many these are; see [`partition_into`]. Waits for the
/// count.
///
/// # Errors
/// As [`by_into`].
pub fn partition<T: Pod>(
    on: &impl AsStream,
    selector: impl Selector<T>,
    x: &impl DeviceRead<T>,
) -> GpuResult<(DeviceBuffer<T>, usize)> {
    let (mut out, mut count) = (unwritten(on, x.len())?, unwritten(on, 1)?);
    partition_into(on, selector, x, &mut out, &mut count, &mut Scratch::new(on)?)?;
    let kept = read(&count)?;
    Ok((out, kept))
}

/// A count that a kernel has written.
fn read(count: &DeviceBuffer<u64>) -> GpuResult<usize> {
    let mut host = [0];
    count.copy_to_host(&mut host)?;
    Ok(host[0] as usize)
}

/// The first elements of a buffer, as one of their own.
fn front<T: Pod>(
    on: &impl AsStream,
    all: &DeviceBuffer<T>,
    len: usize,
) -> GpuResult<DeviceBuffer<T>> {
    let mut front = unwritten(on, len)?;
    front.as_mut_slice().copy_from_device(all.slice(..len))?;
    Ok(front)
}

/// What the runs of `n_elems` elements take of their scratch, in bytes.
#[must_use]
pub fn run_lengths_scratch_bytes<T: Number>(n_elems: usize) -> usize {
    size_of_parts(&[run_scratch_len::<T>(n_elems) * size_of::<u64>()])
}

/// Run-length encoding of `x: [n]`: the element of each run of equal ones to the front of `values`, the run's length,
/// modulo 2^32, to the front of `lengths`, and how many runs there are to `count: [1]`; asynchronous, in one launch. Where
/// there is room for fewer, the rest is left out, and counted all the same.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `count` has another length; errors of the driver.
pub fn run_lengths_into<T: Number>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    values: &mut impl DeviceWrite<T>,
    lengths: &mut impl DeviceWrite<u32>,
    count: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    run_lengths_kernel<T::Bits>: Instance,
{
    let n = x.len();
    same_len("the count of runs", 1, count.len())?;
    let (mut states, _) = scratch.states(on, run_scratch_len::<T>(n), 0)?;
    let (stream, x, mut values) = (on.as_stream(), As::new(x), AsMut::new(values));
    let grid = grid::<T, u64>(stream, n.max(1));
    // SAFETY: the states are 0, or as a selection left them.
    unsafe {
        run_lengths_kernel::<T::Bits>::launch(
            stream,
            grid,
            &x,
            &mut states.words,
            &mut values,
            lengths,
            count,
        )
    }
}

/// The elements of the runs of `x`, and the runs' lengths modulo 2^32: new buffers. Waits for their number.
///
/// # Errors
/// Errors of the driver.
pub fn run_lengths<T: Number>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
) -> GpuResult<(DeviceBuffer<T>, DeviceBuffer<u32>)>
where
    run_lengths_kernel<T::Bits>: Instance,
{
    let n = x.len();
    let (mut values, mut lengths) = (unwritten(on, n)?, unwritten(on, n)?);
    let mut count = unwritten(on, 1)?;
    run_lengths_into(on, x, &mut values, &mut lengths, &mut count, &mut Scratch::new(on)?)?;
    let runs = read(&count)?;
    Ok((front(on, &values, runs)?, front(on, &lengths, runs)?))
}

/// [`by_into`] with [`Above`] by one block: the form to read first.
///
/// # Errors
/// As [`by_into`].
pub fn running_into(
    on: &impl AsStream,
    selector: Above<u32>,
    x: &impl DeviceRead<u32>,
    out: &mut impl DeviceWrite<u32>,
    count: &mut impl DeviceWrite<u64>,
) -> GpuResult<()> {
    same_len("the count of a selection", 1, count.len())?;
    select_running::launch(on.as_stream(), Grid1::new(1), x, selector.0, out, count)
}
