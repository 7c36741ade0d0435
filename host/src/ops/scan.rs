//! Scans: each element joined with all before it, by an associative operation.
//!
//! What is joined with what depends on the length alone: sums of floats have the same bits in every run and on
//! every device. Halves are added in f32, and each result is rounded once; integers wrap.
//!
//! ```
//! use ferrowarp::ops::scan::{self, Form, Max};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[3.0_f32, 1.0, 4.0, 1.0, 5.0])?;
//! assert_eq!(scan::inclusive(&gpu, &x)?.to_vec()?, [3.0, 4.0, 8.0, 9.0, 14.0]);
//! assert_eq!(scan::exclusive(&gpu, &x)?.to_vec()?, [0.0, 3.0, 4.0, 8.0, 9.0]);
//! let highest = scan::by(&gpu, Max, Form::Inclusive, &x)?;
//! assert_eq!(highest.to_vec()?, [3.0, 3.0, 4.0, 4.0, 5.0]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

mod segments;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use cuda_std::{bf16, f16};
use kernels_gpu::grid::scan::carry::Carry;
use kernels_gpu::grid::scan::{self as kernels, Operator, blocks, scratch_len, shared_bytes};

pub use kernels_gpu::grid::scan::{Compose, Max, Min, Sum};

pub use segments::{
    AtOffsets, Flagged, Keyed, SegmentOperator, by_key, by_key_into, flagged, flagged_into,
    segments, segments_into, segments_scratch_bytes,
};

use super::recast::Recast;
use super::scratch::size_of_parts;
use super::sealed::Sealed;
use super::{Scratch, same_len};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::AsStream;

/// What is written for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything up to it, and the element itself.
    Inclusive,
    /// Everything before it. The first gets what changes nothing: 0 for a sum, the least number for a maximum.
    Exclusive,
}

/// The memory of one launch.
#[doc(hidden)]
#[allow(missing_debug_implementations)]
pub struct Arguments<'a> {
    on: &'a Stream,
    x: Recast,
    form: Form,
    states: DeviceSliceMut<'a, u64>,
    out: Recast,
    n: usize,
}

impl<'a> Arguments<'a> {
    /// Checks the lengths. `None` if there is nothing to do.
    fn new<T: Pod>(
        on: &'a impl AsStream,
        form: Form,
        x: &impl DeviceRead<T>,
        out: &mut impl DeviceWrite<T>,
        states: DeviceSliceMut<'a, u64>,
    ) -> GpuResult<Option<Self>> {
        let n = x.len();
        same_len("scan", n, out.len())?;
        if n == 0 {
            return Ok(None);
        }
        // SAFETY: the caller borrows both until the launch is queued.
        let (x, out) = unsafe { (Recast::read(x), Recast::write(out)) };
        Ok(Some(Self { on: on.as_stream(), x, form, states, out, n }))
    }
}

/// A block for each multiprocessor, with all of its shared memory, or fewer blocks for fewer tiles.
pub(super) fn grid<T, C: Carry>(on: &Stream, n: usize) -> Grid1 {
    let info = on.inner().context().info();
    let shared = shared_bytes(info.shared_mem_per_block_optin_bytes as usize);
    Grid1::new(blocks::<T, C>(n, info.multiprocessors)).shared_mem(shared as u32)
}

/// An operation that scans have kernels of, for elements of type `T`: [`Sum`] of all numbers, [`Max`] and
/// [`Min`] of `i32`, `u32` and `f32`, [`Compose`] of `[f32; 2]` and `[u32; 2]`.
#[diagnostic::on_unimplemented(
    message = "there is no scan of `{T}` by `{Self}`",
    note = "a kernel of your own makes one of any operation: see `kernels_gpu::grid::scan::Operator`"
)]
pub trait ScanOperator<T: Pod>: Sealed<T> {
    #[doc(hidden)]
    fn states_len(n: usize) -> usize;
    #[doc(hidden)]
    fn launch(arguments: Arguments<'_>) -> GpuResult<()>;
}

/// Types and operations, and the type of the kernel: integers of either sign have the same sums.
macro_rules! operators {
    ($($op:ident: $($ty:ty as $bits:ty),*;)*) => {$($(
        impl Sealed<$ty> for $op {}

        impl ScanOperator<$ty> for $op {
            fn states_len(n: usize) -> usize {
                scratch_len::<$bits, <$op as Operator<$bits>>::Joined>(n)
            }

            fn launch(arguments: Arguments<'_>) -> GpuResult<()> {
                const { assert!(size_of::<$ty>() == size_of::<$bits>()) };
                let Arguments { on, x, form, mut states, mut out, n } = arguments;
                let grid = grid::<$bits, <$op as Operator<$bits>>::Joined>(on, n);
                let exclusive = form == Form::Exclusive;
                // SAFETY: the states are 0, or as a scan left them.
                unsafe {
                    kernels::scan_tiles::<$bits, $op>::launch(
                        on, grid, &x, exclusive, &mut states, &mut out,
                    )
                }
            }
        }
    )*)*};
}

operators! {
    Sum: u8 as u8, i8 as u8, u16 as u16, i16 as u16, u32 as u32, i32 as u32, u64 as u64, i64 as u64,
        f16 as f16, bf16 as bf16, f32 as f32, f64 as f64;
    Max: i32 as i32, u32 as u32, f32 as f32;
    Min: i32 as i32, u32 as u32, f32 as f32;
    Compose: [f32; 2] as [f32; 2], [u32; 2] as [u32; 2];
}

/// What a scan of `n_elems` elements by `O` takes of its scratch, in bytes.
#[must_use]
pub fn scratch_bytes<T: Pod, O: ScanOperator<T>>(n_elems: usize) -> usize {
    size_of_parts(&[O::states_len(n_elems) * size_of::<u64>()])
}

/// `out[i]` becomes the join of the elements of `x` up to `i` or before it. `x: [n]`, `out: [n]`; queued, in one
/// launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; what the driver answers, out of
/// memory where the scratch must grow for one.
pub fn by_into<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (states, _) = scratch.states(on, O::states_len(x.len()), 0)?;
    match Arguments::new(on, form, x, out, states)? {
        Some(arguments) => O::launch(arguments),
        None => Ok(()),
    }
}

/// As [`by_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// What the driver answers.
pub fn by<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
) -> GpuResult<DeviceBuffer<T>> {
    let mut out = unwritten(on, x.len())?;
    by_into(on, operator, form, x, &mut out, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// `out[i] = x[0] + … + x[i]`; see [`by_into`].
///
/// # Errors
/// As [`by_into`].
pub fn inclusive_into<T: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    Sum: ScanOperator<T>,
{
    by_into(on, Sum, Form::Inclusive, x, out, scratch)
}

/// `out[i] = x[0] + … + x[i - 1]`; see [`by_into`].
///
/// # Errors
/// As [`by_into`].
pub fn exclusive_into<T: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    Sum: ScanOperator<T>,
{
    by_into(on, Sum, Form::Exclusive, x, out, scratch)
}

/// `x[0] + … + x[i]` for each `i`: a new buffer.
///
/// # Errors
/// What the driver answers.
pub fn inclusive<T: Pod>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<DeviceBuffer<T>>
where
    Sum: ScanOperator<T>,
{
    by(on, Sum, Form::Inclusive, x)
}

/// `x[0] + … + x[i - 1]` for each `i`: a new buffer.
///
/// # Errors
/// What the driver answers.
pub fn exclusive<T: Pod>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<DeviceBuffer<T>>
where
    Sum: ScanOperator<T>,
{
    by(on, Sum, Form::Exclusive, x)
}

/// A buffer that a kernel is about to write from end to end.
pub(super) fn unwritten<T: Pod>(on: &impl AsStream, n: usize) -> GpuResult<DeviceBuffer<T>> {
    // SAFETY: every bit pattern is a value, and the caller's kernel writes all of it or fails.
    unsafe { DeviceBuffer::uninitialized(on, n) }
}

/// An operation that [`running_into`] has a kernel of.
#[doc(hidden)]
pub trait RunningOperator<T: Pod>: Sealed<T> {
    fn running(
        on: &Stream,
        form: Form,
        x: &impl DeviceRead<T>,
        out: &mut impl DeviceWrite<T>,
    ) -> GpuResult<()>;
}

macro_rules! running {
    ($($op:ident $ty:ty;)*) => {$(
        impl RunningOperator<$ty> for $op {
            fn running(
                on: &Stream,
                form: Form,
                x: &impl DeviceRead<$ty>,
                out: &mut impl DeviceWrite<$ty>,
            ) -> GpuResult<()> {
                let exclusive = form == Form::Exclusive;
                kernels::scan_running::<$ty, $op>::launch(on, Grid1::new(1), x, exclusive, out)
            }
        }
    )*};
}

running! {
    Sum u32;
    Sum f32;
    Max f32;
}

/// The same by one block, tile after tile: the form to read first. Sums of `u32` and `f32`, maxima of `f32`.
///
/// # Errors
/// As [`by_into`].
pub fn running_into<T: Pod, O: RunningOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    same_len("scan", x.len(), out.len())?;
    O::running(on.as_stream(), form, x, out)
}

#[doc = include_str!("../../../book/src/scans.md")]
#[cfg(doctest)]
struct Chapter;
