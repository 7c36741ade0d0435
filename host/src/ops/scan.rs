//! Scans (prefix sums): each element combined with all before it, by an associative operation.
//!
//! The order of combining depends on the length alone: sums of floats have the same bits in every run and on
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
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::scan::carry::Carry;
use kernels_gpu::scan::{
    Operator, blocks, scan_running, scan_short, scan_tiles, scratch_len, shared_bytes, short_len,
};

pub use kernels_gpu::scan::{Compose, Max, Min, Sum};

pub use segments::{
    by_key, by_key_into, flagged, flagged_into, segments, segments_into, segments_scratch_bytes,
};

use super::number::Number;
use super::scratch::size_of_parts;
use super::sealed::Sealed;
use super::views::{As, AsMut};
use super::{Scratch, same_len};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// What is written for an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Everything up to it, and the element itself.
    Inclusive,
    /// Everything before it. The first gets the neutral element: 0 for a sum, the least number for a maximum.
    Exclusive,
}

/// A block for each multiprocessor, with all of its shared memory, or fewer blocks for fewer tiles.
pub(super) fn grid<T, C: Carry>(on: &Stream, n: usize) -> Grid1 {
    let info = on.inner().context().info();
    let shared = shared_bytes(info.shared_mem_per_block_optin_bytes as usize);
    Grid1::new(blocks::<T, C>(n, info.multiprocessors)).shared_mem(shared as u32)
}

/// An operation that the kernel `scan_tiles` has an instance of for elements of type `T`: [`Sum`] of all numbers, [`Max`] and
/// [`Min`] of `i32`, `u32` and `f32`, [`Compose`] of `[f32; 2]` and `[u32; 2]`.
#[diagnostic::on_unimplemented(
    message = "there is no scan of `{T}` by `{Self}`",
    note = "a kernel of your own makes one of any operation: see `kernels_gpu::scan::Operator`"
)]
pub trait ScanOperator<T: Pod>: Sealed<T> {
    /// The type of the kernel, of the same size: integers of either sign have the same sums.
    type Shipped: Pod;
    /// What goes from tile to tile.
    #[doc(hidden)]
    type Carry: cuda_std::warp::Plain;

    #[doc(hidden)]
    fn launch(
        on: &Stream,
        form: Form,
        x: &impl DeviceRead<T>,
        scratch: &mut Scratch,
        out: &mut impl DeviceWrite<T>,
    ) -> GpuResult<()>;
}

macro_rules! operators {
    ($($op:ident of $t:ident: $bound:ident as $shipped:ty;)*) => {$(
        impl<$t: $bound> Sealed<$t> for $op {}

        impl<$t: $bound> ScanOperator<$t> for $op
        where
            $op: Operator<$shipped>,
            scan_tiles<$shipped, $op>: Instance,
            scan_short<$shipped, $op>: Instance,
        {
            type Shipped = $shipped;
            type Carry = <$op as Operator<$shipped>>::Joined;

            fn launch(
                on: &Stream,
                form: Form,
                x: &impl DeviceRead<$t>,
                scratch: &mut Scratch,
                out: &mut impl DeviceWrite<$t>,
            ) -> GpuResult<()> {
                let (n, exclusive) = (x.len(), form == Form::Exclusive);
                let (x, mut out) = (As::new(x), AsMut::new(out));
                if n <= short_len::<$shipped>() {
                    return scan_short::<$shipped, $op>::launch(on, Grid1::new(1), &x, exclusive, &mut out);
                }
                let (mut states, _) = scratch.states(on, states_len::<$t, $op, Self::Carry>(n), 0)?;
                let grid = grid::<$shipped, Self::Carry>(on, n);
                // SAFETY: the states are 0, or as a scan left them.
                unsafe {
                    scan_tiles::<$shipped, $op>::launch(
                        on, grid, &x, exclusive, &mut states.words, &mut out,
                    )
                }
            }
        }
    )*};
}

operators! {
    Sum of T: Number as T::Unsigned;
    Max of T: Pod as T;
    Min of T: Pod as T;
    Compose of T: Pod as T;
}

/// Words for the states of the tiles of a scan whose states carry `C`.
fn states_len<T: Pod, O: ScanOperator<T>, C: Carry>(n_elems: usize) -> usize {
    scratch_len::<O::Shipped, C>(n_elems)
}

/// What a scan of `n_elems` elements by `O` takes of its scratch, in bytes.
#[must_use]
pub fn scratch_bytes<T: Pod, O: ScanOperator<T>>(n_elems: usize) -> usize {
    size_of_parts(&[states_len::<T, O, O::Carry>(n_elems) * size_of::<u64>()])
}

/// `out[i]` becomes the join of the elements of `x` up to `i` or before it. `x: [n]`, `out: [n]`; asynchronous, in one
/// launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; errors of the driver, such as out
/// of memory where the scratch must grow.
pub fn by_into<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let n = x.len();
    same_len("scan", n, out.len())?;
    if n == 0 {
        return Ok(());
    }
    O::launch(on.as_stream(), form, x, scratch, out)
}

/// As [`by_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// Errors of the driver.
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
/// Errors of the driver.
pub fn inclusive<T: Pod>(on: &impl AsStream, x: &impl DeviceRead<T>) -> GpuResult<DeviceBuffer<T>>
where
    Sum: ScanOperator<T>,
{
    by(on, Sum, Form::Inclusive, x)
}

/// `x[0] + … + x[i - 1]` for each `i`: a new buffer.
///
/// # Errors
/// Errors of the driver.
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

/// [`by_into`] by one block, tile after tile: the form to read first. Sums of `u32` and `f32`, maxima of `f32`.
///
/// # Errors
/// As [`by_into`].
pub fn running_into<T, O>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    scan_running<T, O>: Instance,
{
    same_len("scan", x.len(), out.len())?;
    let exclusive = form == Form::Exclusive;
    scan_running::<T, O>::launch(on.as_stream(), Grid1::new(1), x, exclusive, out)
}

#[doc = include_str!("../../../book/src/scans.md")]
#[cfg(doctest)]
struct Chapter;
