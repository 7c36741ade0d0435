//! Scans of segments, each for itself.

use std::marker::PhantomData;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Linear};
use kernels_gpu::grid::scan::carry::Segmented;
use kernels_gpu::grid::scan::{self as kernels, Operator, scratch_len};

use super::super::recast::Recast;
use super::super::scratch::size_of_parts;
use super::super::sealed::Sealed;
use super::super::{Scratch, block_count, same_len};
use super::{Arguments, Form, Sum, grid, unwritten};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Segments begin where a flag is not 0.
#[derive(Clone, Copy, Debug)]
pub struct Flagged;

/// Segments begin at offsets.
#[derive(Clone, Copy, Debug)]
pub struct AtOffsets;

/// Segments are equal keys in a row.
#[derive(Clone, Copy, Debug)]
pub struct Keyed<K>(PhantomData<K>);

/// An operation that scans of segments have kernels of, for elements of type `T` and segments that are told by
/// `M`: sums of 32-bit integers and `f32`; where offsets tell them, of `f64` too. Keys are integers of 32 bits;
/// of `f32`, of 64 bits too.
#[diagnostic::on_unimplemented(
    message = "there is no scan of segments of `{T}` by `{Self}`, told by `{M}`",
    note = "a kernel of your own makes one of any operation: see `kernels_gpu::grid::scan::Segments`"
)]
pub trait SegmentOperator<T: Pod, M>: Sealed<(T, M)> {
    #[doc(hidden)]
    fn states_len(n: usize) -> usize;
    #[doc(hidden)]
    fn launch(arguments: Arguments<'_>, marks: &Recast) -> GpuResult<()>;
}

/// The kernel, what tells the segments, and the types that share an instance.
macro_rules! operators {
    ($($kernel:ident $marking:ty: [$($op:ident $ty:ty as $bits:ty $(, $key:ty)?);*];)*) => {$($(
        impl Sealed<($ty, $marking)> for $op {}

        impl SegmentOperator<$ty, $marking> for $op {
            fn states_len(n: usize) -> usize {
                scratch_len::<$bits, Segmented<<$op as Operator<$bits>>::Joined>>(n)
            }

            fn launch(arguments: Arguments<'_>, marks: &Recast) -> GpuResult<()> {
                const { assert!(size_of::<$ty>() == size_of::<$bits>()) };
                let Arguments { on, x, form, mut states, mut out, n } = arguments;
                let grid = grid::<$bits, Segmented<<$op as Operator<$bits>>::Joined>>(on, n);
                let exclusive = form == Form::Exclusive;
                // SAFETY: the states are 0, or as a scan left them.
                unsafe {
                    kernels::$kernel::<$bits, $($key,)? $op>::launch(
                        on, grid, &x, marks, exclusive, &mut states, &mut out,
                    )
                }
            }
        }
    )*)*};
}

operators! {
    scan_flagged Flagged: [Sum u32 as u32; Sum i32 as u32; Sum f32 as f32];
    scan_bit_flagged AtOffsets: [Sum u32 as u32; Sum i32 as u32; Sum f32 as f32; Sum f64 as f64];
    scan_by_key Keyed<u32>: [Sum u32 as u32, u32; Sum i32 as u32, u32; Sum f32 as f32, u32];
    scan_by_key Keyed<i32>: [Sum u32 as u32, u32; Sum i32 as u32, u32; Sum f32 as f32, u32];
    scan_by_key Keyed<u64>: [Sum f32 as f32, u64];
    scan_by_key Keyed<i64>: [Sum f32 as f32, u64];
}

/// Words of 32 bits, one bit for each of `n` elements.
fn bit_words(n: usize) -> usize {
    n.div_ceil(32)
}

/// What a scan of `n_elems` elements in segments takes of its scratch, in bytes, however they are told.
#[must_use]
pub fn segments_scratch_bytes<T: Pod, M, O: SegmentOperator<T, M>>(n_elems: usize) -> usize {
    size_of_parts(&[
        O::states_len(n_elems) * size_of::<u64>(),
        bit_words(n_elems) * size_of::<u32>(),
    ])
}

/// As [`by_into`](super::by_into), and anew wherever `heads[i]` is not 0. `x`, `heads`, `out: [n]`; queued, in one
/// launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; what the driver answers.
pub fn flagged_into<T: Pod, O: SegmentOperator<T, Flagged>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    heads: &impl DeviceRead<u8>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    same_len("the flags of a scan", x.len(), heads.len())?;
    // SAFETY: borrowed until this function returns.
    told_by(on, operator, form, x, unsafe { Recast::read(heads) }, out, scratch)
}

/// As [`by_into`](super::by_into), and anew wherever `keys[i]` is another than `keys[i - 1]`. `x`, `keys`, `out: [n]`;
/// queued, in one launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; what the driver answers.
pub fn by_key_into<T: Pod, K: Pod, O: SegmentOperator<T, Keyed<K>>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    keys: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    same_len("the keys of a scan", x.len(), keys.len())?;
    // SAFETY: borrowed until this function returns.
    told_by(on, operator, form, x, unsafe { Recast::read(keys) }, out, scratch)
}

/// Scans by marks that the kernel for `M` understands.
fn told_by<T: Pod, M, O: SegmentOperator<T, M>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    marks: Recast,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (states, _) = scratch.states(on, O::states_len(x.len()), 0)?;
    match Arguments::new(on, form, x, out, states)? {
        Some(arguments) => O::launch(arguments, &marks),
        None => Ok(()),
    }
}

/// As [`by_into`](super::by_into), and anew at each of `offsets`. `x`, `out: [n]`; `offsets: [segments]`, in any order,
/// where those of empty segments may be equal, and those past the end are left out; queued, in two launches.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; what the driver answers.
pub fn segments_into<T: Pod, O: SegmentOperator<T, AtOffsets>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    offsets: &impl DeviceRead<u64>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (n, segments) = (x.len(), offsets.len());
    let bit_bytes = bit_words(n) * size_of::<u32>();
    let (states, heads) = scratch.states(on, O::states_len(n), bit_bytes)?;
    let Some(arguments) = Arguments::new(on, form, x, out, states)? else { return Ok(()) };
    let mut heads = heads.into_cast::<u32>()?;
    heads.clear()?;
    if segments > 0 {
        let grid = Linear::new(block_count(segments.div_ceil(256)), 256);
        kernels::scan_mark_offsets::launch(on.as_stream(), grid, offsets, &mut heads)?;
    }
    // SAFETY: a part of the scratch, which is borrowed until this function returns.
    O::launch(arguments, &unsafe { Recast::read(&heads) })
}

/// As [`flagged_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`flagged_into`].
pub fn flagged<T: Pod, O: SegmentOperator<T, Flagged>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    heads: &impl DeviceRead<u8>,
) -> GpuResult<DeviceBuffer<T>> {
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    flagged_into(on, operator, form, x, heads, &mut out, &mut scratch)?;
    Ok(out)
}

/// As [`by_key_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`by_key_into`].
pub fn by_key<T: Pod, K: Pod, O: SegmentOperator<T, Keyed<K>>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    keys: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<T>> {
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    by_key_into(on, operator, form, x, keys, &mut out, &mut scratch)?;
    Ok(out)
}

/// As [`segments_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`segments_into`].
pub fn segments<T: Pod, O: SegmentOperator<T, AtOffsets>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    offsets: &impl DeviceRead<u64>,
) -> GpuResult<DeviceBuffer<T>> {
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    segments_into(on, operator, form, x, offsets, &mut out, &mut scratch)?;
    Ok(out)
}
