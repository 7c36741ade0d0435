//! Scans of segments: each starts again at the head of a segment.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, Linear};
use kernels_gpu::scan::carry::Segmented;
use kernels_gpu::scan::{
    scan_bit_flagged, scan_by_key, scan_flagged, scan_mark_offsets, scan_short_by_key, short_len,
};

use super::super::number::Number;
use super::super::scratch::{TileStates, size_of_parts};
use super::super::views::{As, AsMut};
use super::super::{Scratch, block_count, same_len};
use super::{Form, ScanOperator, grid, states_len, unwritten};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::AsStream;

/// The grid of a scan of segments.
fn segmented_grid<T: Pod, O: ScanOperator<T>>(on: &Stream, n: usize) -> Grid1 {
    grid::<O::Shipped, Segmented<O::Carry>>(on, n)
}

/// The states of the tiles of a scan of segments, and `bytes` more.
fn segmented_states<'a, T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    n: usize,
    bytes: usize,
    scratch: &'a mut Scratch,
) -> GpuResult<(TileStates<'a>, DeviceSliceMut<'a, u8>)> {
    scratch.states(on, states_len::<T, O, Segmented<O::Carry>>(n), bytes)
}

/// Words of 32 bits, one bit for each of `n` elements.
fn bit_words(n: usize) -> usize {
    n.div_ceil(32)
}

/// The scratch of a scan of `n_elems` elements in segments, in bytes, for each of the three ways to mark segments.
#[must_use]
pub fn segments_scratch_bytes<T: Pod, O: ScanOperator<T>>(n_elems: usize) -> usize {
    size_of_parts(&[
        states_len::<T, O, Segmented<O::Carry>>(n_elems) * size_of::<u64>(),
        bit_words(n_elems) * size_of::<u32>(),
    ])
}

/// As [`by_into`](super::by_into), starting again wherever `heads[i]` is not 0. `x`, `heads`, `out: [n]`; asynchronous, in one
/// launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; errors of the driver.
pub fn flagged_into<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    heads: &impl DeviceRead<u8>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    scan_flagged<O::Shipped, O>: Instance,
{
    let n = x.len();
    same_len("scan", n, out.len())?;
    same_len("the flags of a scan", n, heads.len())?;
    if n == 0 {
        return Ok(());
    }
    let (mut states, _) = segmented_states::<T, O>(on, n, 0, scratch)?;
    let (stream, exclusive) = (on.as_stream(), form == Form::Exclusive);
    let (grid, x, mut out) = (segmented_grid::<T, O>(stream, n), As::new(x), AsMut::new(out));
    // SAFETY: the states are 0, or as a scan left them.
    unsafe {
        scan_flagged::<O::Shipped, O>::launch(
            stream,
            grid,
            &x,
            heads,
            exclusive,
            &mut states.words,
            &mut out,
        )
    }
}

/// As [`by_into`](super::by_into), starting again wherever the bits of `keys[i]` differ from those of `keys[i - 1]`. `x`, `keys`, `out: [n]`;
/// asynchronous, in one launch.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; errors of the driver.
pub fn by_key_into<T: Pod, K: Number, O: ScanOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    keys: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    scan_by_key<O::Shipped, K::Bits, O>: Instance,
    scan_short_by_key<O::Shipped, K::Bits, O>: Instance,
{
    let n = x.len();
    same_len("scan", n, out.len())?;
    same_len("the keys of a scan", n, keys.len())?;
    if n == 0 {
        return Ok(());
    }
    let (stream, exclusive) = (on.as_stream(), form == Form::Exclusive);
    let (x, keys, mut out) = (As::new(x), As::new(keys), AsMut::new(out));
    if n <= short_len::<O::Shipped>() {
        return scan_short_by_key::<O::Shipped, K::Bits, O>::launch(
            stream,
            Grid1::new(1),
            &x,
            &keys,
            exclusive,
            &mut out,
        );
    }
    let (mut states, _) = segmented_states::<T, O>(on, n, 0, scratch)?;
    let grid = segmented_grid::<T, O>(stream, n);
    // SAFETY: the states are 0, or as a scan left them.
    unsafe {
        scan_by_key::<O::Shipped, K::Bits, O>::launch(
            stream,
            grid,
            &x,
            &keys,
            exclusive,
            &mut states.words,
            &mut out,
        )
    }
}

/// As [`by_into`](super::by_into), starting again at each of `offsets`. `x`, `out: [n]`; `offsets: [segments]`, in any order,
/// where those of empty segments may be equal, and those past the end are left out; asynchronous, in two launches.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; errors of the driver.
pub fn segments_into<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    _operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    offsets: &impl DeviceRead<u64>,
    out: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    scan_bit_flagged<O::Shipped, O>: Instance,
{
    let (n, segments) = (x.len(), offsets.len());
    same_len("scan", n, out.len())?;
    if n == 0 {
        return Ok(());
    }
    let bit_bytes = bit_words(n) * size_of::<u32>();
    let (mut states, heads) = segmented_states::<T, O>(on, n, bit_bytes, scratch)?;
    let (stream, exclusive) = (on.as_stream(), form == Form::Exclusive);
    let mut heads = heads.into_cast::<u32>()?;
    heads.clear()?;
    if segments > 0 {
        let grid = Linear::new(block_count(segments.div_ceil(256)), 256);
        scan_mark_offsets::launch(stream, grid, offsets, &mut heads)?;
    }
    let (grid, x, mut out) = (segmented_grid::<T, O>(stream, n), As::new(x), AsMut::new(out));
    // SAFETY: the states are 0, or as a scan left them.
    unsafe {
        scan_bit_flagged::<O::Shipped, O>::launch(
            stream,
            grid,
            &x,
            &heads,
            exclusive,
            &mut states.words,
            &mut out,
        )
    }
}

/// As [`flagged_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`flagged_into`].
pub fn flagged<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    heads: &impl DeviceRead<u8>,
) -> GpuResult<DeviceBuffer<T>>
where
    scan_flagged<O::Shipped, O>: Instance,
{
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    flagged_into(on, operator, form, x, heads, &mut out, &mut scratch)?;
    Ok(out)
}

/// As [`by_key_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`by_key_into`].
pub fn by_key<T: Pod, K: Number, O: ScanOperator<T>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    keys: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<T>>
where
    scan_by_key<O::Shipped, K::Bits, O>: Instance,
    scan_short_by_key<O::Shipped, K::Bits, O>: Instance,
{
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    by_key_into(on, operator, form, x, keys, &mut out, &mut scratch)?;
    Ok(out)
}

/// As [`segments_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`segments_into`].
pub fn segments<T: Pod, O: ScanOperator<T>>(
    on: &impl AsStream,
    operator: O,
    form: Form,
    x: &impl DeviceRead<T>,
    offsets: &impl DeviceRead<u64>,
) -> GpuResult<DeviceBuffer<T>>
where
    scan_bit_flagged<O::Shipped, O>: Instance,
{
    let (mut out, mut scratch) = (unwritten(on, x.len())?, Scratch::new(on)?);
    segments_into(on, operator, form, x, offsets, &mut out, &mut scratch)?;
    Ok(out)
}
