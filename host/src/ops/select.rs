//! Selections: some of the elements, in their order; partitions; runs of equal elements.
//!
//! How many there are stays on the device, in a buffer of one `u64`, so that nothing waits. The forms that make a
//! buffer of their own read it. What is selected, and where it stands, is the same in every run.
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
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::grid::select::{self as kernels, run_scratch_len, scratch_len};

use super::recast::Recast;
use super::scan::{grid, unwritten};
use super::scratch::size_of_parts;
use super::sealed::Sealed;
use super::{Scratch, same_len};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSliceMut};
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

/// The memory of one launch.
#[doc(hidden)]
#[derive(Debug)]
pub struct Arguments<'a> {
    on: &'a Stream,
    x: Recast,
    n: usize,
    split: bool,
    states: DeviceSliceMut<'a, u64>,
    out: Recast,
    count: Recast,
}

/// What a selection keeps: [`Above`], [`Nonzero`], [`Flagged`] or [`Unique`].
#[diagnostic::on_unimplemented(
    message = "there is no selection from elements of `{T}` by `{Self}`",
    note = "a kernel of your own selects by any predicate: see `kernels_gpu::grid::select::select_grid`"
)]
pub trait Selector<T: Pod>: Sized + Sealed<T> {
    #[doc(hidden)]
    fn check(&self, _n: usize) -> GpuResult<()> {
        Ok(())
    }

    #[doc(hidden)]
    fn launch(self, arguments: Arguments<'_>) -> GpuResult<()>;
}

/// The selector, its kernel with what that takes beside the elements, and the types that share an instance.
macro_rules! selectors {
    ($($selector:ty $(where $param:ident)?: $kernel:ident($self:ident $(, $argument:expr)?)
        [$($ty:ty as $bits:ty),*] { $($check:tt)* })*) => {
        $(selectors!(@one [$($param)?] $selector, $kernel, $self, [$($argument)?], { $($check)* }, $($ty as $bits),*);)*
    };
    (@one $param:tt $selector:ty, $kernel:ident, $self:ident, $argument:tt, $check:tt, $($ty:ty as $bits:ty),*) => {
        $(selectors!(@impl $param $selector, $kernel, $self, $argument, $check, $ty, $bits);)*
    };
    (@impl [$($param:ident)?] $selector:ty, $kernel:ident, $self:ident, [$($argument:expr)?], { $($check:tt)* },
        $ty:ty, $bits:ty) => {
        impl<$($param: DeviceRead<u8>)?> Sealed<$ty> for $selector {}

        impl<$($param: DeviceRead<u8>)?> Selector<$ty> for $selector {
            $($check)*

            fn launch($self, arguments: Arguments<'_>) -> GpuResult<()> {
                const { assert!(size_of::<$ty>() == size_of::<$bits>()) };
                let Arguments { on, x, n, split, mut states, mut out, mut count } = arguments;
                let grid = grid::<$bits, u64>(on, n.max(1));
                // SAFETY: the states are 0, or as a selection left them.
                unsafe {
                    kernels::$kernel::<$bits>::launch(
                        on, grid, &x, $($argument,)? split, &mut states, &mut out, &mut count,
                    )
                }
            }
        }
    };
}

selectors! {
    Above<u32>: select_above(self, self.0) [u32 as u32] {}
    Above<i32>: select_above(self, self.0) [i32 as i32] {}
    Above<f32>: select_above(self, self.0) [f32 as f32] {}
    Nonzero: select_nonzero(self) [u8 as u8, i8 as u8, u32 as u32, i32 as u32, f32 as f32] {}
    Flagged<'_, F> where F: select_flagged(self, self.0) [
        u8 as u8, i8 as u8, u32 as u32, i32 as u32, f32 as u32, u64 as u64, i64 as u64, f64 as u64
    ] {
        fn check(&self, n: usize) -> GpuResult<()> {
            same_len("the flags of a selection", n, self.0.len())
        }
    }
    Unique: select_unique(self) [
        u8 as u8, i8 as u8, u32 as u32, i32 as u32, f32 as u32, u64 as u64, i64 as u64, f64 as u64
    ] {}
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
    // SAFETY: all are borrowed until this function returns.
    let (x, out, count) = unsafe { (Recast::read(x), Recast::write(out), Recast::write(count)) };
    selector.launch(Arguments { on: on.as_stream(), x, n, split, states, out, count })
}

/// Writes the elements of `x: [n]` that `selector` keeps to the front of `out`, in their order, and how many there are
/// to `count: [1]`; queued, in one launch. What is behind them in `out` stays. Where `out` has room for fewer, the
/// rest is left out, and counted all the same.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `count` or the selector's flags have another length; what the
/// driver answers, out of memory where the scratch must grow for one.
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

/// As [`by_into`]; `out: [n]` gets the other elements too, from its end on: behind the kept ones, in reversed order.
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

/// A type whose runs can be encoded: numbers of 1, 4 and 8 bytes, compared by their bits.
pub trait RunElement: Pod + Sealed {
    #[doc(hidden)]
    fn states_len(n: usize) -> usize;
    #[doc(hidden)]
    fn launch(
        on: &Stream,
        x: (&Recast, usize),
        states: &mut DeviceSliceMut<'_, u64>,
        out: (&mut Recast, &mut Recast, &mut Recast),
    ) -> GpuResult<()>;
}

macro_rules! run_elements {
    ($($ty:ty as $bits:ty),*) => {$(
        impl Sealed for $ty {}

        impl RunElement for $ty {
            fn states_len(n: usize) -> usize {
                run_scratch_len::<$bits>(n)
            }

            fn launch(
                on: &Stream,
                (x, n): (&Recast, usize),
                states: &mut DeviceSliceMut<'_, u64>,
                (values, lengths, count): (&mut Recast, &mut Recast, &mut Recast),
            ) -> GpuResult<()> {
                const { assert!(size_of::<$ty>() == size_of::<$bits>()) };
                let grid = grid::<$bits, u64>(on, n.max(1));
                // SAFETY: the states are 0, or as a selection left them.
                unsafe {
                    kernels::run_lengths::<$bits>::launch(on, grid, x, states, values, lengths, count)
                }
            }
        }
    )*};
}

run_elements!(
    u8 as u8, i8 as u8, u32 as u32, i32 as u32, f32 as u32, u64 as u64, i64 as u64, f64 as u64
);

/// What the runs of `n_elems` elements take of their scratch, in bytes.
#[must_use]
pub fn run_lengths_scratch_bytes<T: RunElement>(n_elems: usize) -> usize {
    size_of_parts(&[T::states_len(n_elems) * size_of::<u64>()])
}

/// Run-length encoding of `x: [n]`: the element of each run of equal ones to the front of `values`, the run's length,
/// modulo 2^32, to the front of `lengths`, and how many runs there are to `count: [1]`; queued, in one launch. Where
/// there is room for fewer, the rest is left out, and counted all the same.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `count` has another length; what the driver answers.
pub fn run_lengths_into<T: RunElement>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    values: &mut impl DeviceWrite<T>,
    lengths: &mut impl DeviceWrite<u32>,
    count: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let n = x.len();
    same_len("the count of runs", 1, count.len())?;
    let (mut states, _) = scratch.states(on, T::states_len(n), 0)?;
    // SAFETY: all are borrowed until this function returns.
    let (x, mut values, mut lengths, mut count) = unsafe {
        (Recast::read(x), Recast::write(values), Recast::write(lengths), Recast::write(count))
    };
    T::launch(on.as_stream(), (&x, n), &mut states, (&mut values, &mut lengths, &mut count))
}

/// The elements of the runs of `x`, and the runs' lengths modulo 2^32: new buffers. Waits for their number.
///
/// # Errors
/// What the driver answers.
pub fn run_lengths<T: RunElement>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
) -> GpuResult<(DeviceBuffer<T>, DeviceBuffer<u32>)> {
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
    kernels::select_running::launch(on.as_stream(), Grid1::new(1), x, selector.0, out, count)
}
