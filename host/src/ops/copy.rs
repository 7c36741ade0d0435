//! Copies by kernel: whole arrays, pitched rows, every n-th element; and kernels that show what coalesced access is worth.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, DeviceWritePitched, Grid1, Linear};
use kernels_gpu::elementwise::copy::{
    TILE, copy_bytes, copy_coalesced as coalesced, copy_quads, copy_rows as rows,
    copy_strided as strided,
};
use kernels_gpu::elementwise::map::blocks;
use kernels_gpu::quads::Quad;

use super::views::{As, AsMut, AsPitched, AsRows, unit};
use super::{block_count, same_len};
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

const BLOCK: u32 = 256;
/// Enough blocks to fill any device; each thread steps on from there.
const MAX_BLOCKS: usize = 8 * 132;

/// Copies `x` to `out`, both `[n]`, of any plain type, at the memory's full speed; asynchronous, in one launch.
///
/// Wherever the two begin: stores are of aligned 16 bytes, and so are loads, of which two make a store's bytes where the
/// alignments differ.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn copy<T: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let (from, to) = (x.raw(), out.raw_mut());
    same_len("copying an array", from.len, to.len)?;
    let bytes = from.len * size_of::<T>();
    let stream = on.as_stream();
    let is_quads = unit(&[from.address as usize, to.address as usize, bytes]) == 16;
    let grid = Grid1::new(blocks(bytes, 1, 1));
    if is_quads {
        copy_quads::launch(stream, grid, &As::new(x), &mut AsMut::new(out))
    } else {
        copy_bytes::launch(stream, grid, &As::new(x), &mut AsMut::new(out))
    }
}

/// Copies rows: `out[row][column] = x[row * pitch + column]`, of any plain type; asynchronous, in one launch. The extents and the
/// distance of the rows of `out` are its own: `buffer.pitched_mut(width, height, pitch)`, or `buffer.grid_mut(…)`.
///
/// It goes by the largest unit of 16, 4 or 1 bytes that divides both addresses, both pitches and the width.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if the rows are not inside `x` or overlap there; errors of the driver.
pub fn copy_pitched<T: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    pitch: usize,
    out: &mut impl DeviceWritePitched<T>,
) -> GpuResult<()> {
    let (to, width, height, to_pitch) = out.raw_pitched();
    let address = to.address as usize;
    check_rows(x.len(), (width, height), pitch)?;
    launch_rows(on, x, pitch, out, [width, to_pitch, address])
}

/// Copies every `stride`th element: `out[i] = x[i * stride]`, `out: [n]`, of any plain type; asynchronous, in one launch.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if `x` has too few elements, or the stride is 0; errors of the driver.
pub fn copy_every<T: Pod>(
    on: &impl AsStream,
    stride: usize,
    x: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let to = out.raw_mut();
    let (address, len) = (to.address as usize, to.len);
    check_rows(x.len(), (1, len), stride)?;
    launch_rows(on, x, stride, &mut AsRows::<_, T>::new(out), [1, 1, address])
}

/// An error unless rows are inside `len` elements and do not overlap.
fn check_rows(len: usize, (width, height): (usize, usize), pitch: usize) -> GpuResult<()> {
    const OPERATION: &str = "copying rows";
    let mismatch =
        |expected, found| Err(GpuError::SizeMismatch { operation: OPERATION, expected, found });
    if width == 0 || height == 0 {
        return Ok(());
    }
    if pitch < width {
        return mismatch(width, pitch);
    }
    let end = (height - 1).saturating_mul(pitch).saturating_add(width);
    if end > len { mismatch(end, len) } else { Ok(()) }
}

/// Launches the copy of rows that were checked. `to`: the width and the pitch of `out` in elements, and its address.
fn launch_rows<T: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<T>,
    pitch: usize,
    out: &mut impl DeviceWritePitched<T>,
    [width, to_pitch, to]: [usize; 3],
) -> GpuResult<()> {
    let (stream, from) = (on.as_stream(), x.raw());
    let (_, _, height, _) = out.raw_pitched();
    let bytes = |elements: usize| elements * size_of::<T>();
    // The last unit of a row must be inside `x` too.
    let all =
        [from.address as usize, to, bytes(width), bytes(pitch), bytes(to_pitch), bytes(from.len)];
    let unit = unit(&all);
    let mut out = AsPitched::<_, T>::new(out);
    let units = |unit: usize| (bytes(pitch) / unit) as u64;
    let grid = |unit: usize| {
        let tiles = (height * (bytes(width) / unit)).div_ceil(TILE);
        Grid1::new(tiles.min(1 << 30) as u32)
    };
    match unit {
        16.. => rows::<Quad>::launch(stream, grid(16), &As::new(x), units(16), &mut out),
        4.. => rows::<u32>::launch(stream, grid(4), &As::new(x), units(4), &mut out),
        _ => rows::<u8>::launch(stream, grid(1), &As::new(x), units(1), &mut out),
    }
}

/// Copies `x` to `out`, both `[n]`, neighbouring threads on neighbouring elements, 4 bytes each: the form to read first.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn copy_coalesced(
    on: &impl AsStream,
    x: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("copying an array", n, out.len())?;
    let blocks = n.div_ceil(BLOCK as usize).min(MAX_BLOCKS) as u32;
    coalesced::launch(on.as_stream(), Linear::new(blocks, BLOCK), x, out)
}

/// Copies `x` to `out`, each thread a run of `per_thread` elements: slow on purpose.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn copy_strided(
    on: &impl AsStream,
    per_thread: u32,
    x: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("copying an array", n, out.len())?;
    let threads = n.div_ceil(per_thread.max(1) as usize);
    let blocks = block_count(threads.div_ceil(BLOCK as usize));
    strided::launch(on.as_stream(), Linear::new(blocks, BLOCK), per_thread.max(1), x, out)
}
