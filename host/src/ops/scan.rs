//! Sums of all elements before each element.

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::grid::scan::{self as kernels, TILE, scratch_len};

use super::scratch::size_of_parts;
use super::{Scratch, same_len};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// What [`exclusive_into`] takes of its scratch for `n_elems` elements, in bytes.
#[must_use]
pub fn scratch_bytes(n_elems: usize) -> usize {
    size_of_parts(&[scratch_len(n_elems) * size_of::<u64>()])
}

/// `out[i] = x[0] + … + x[i - 1]` modulo 2³². `x: [n]`, `out: [n]`; queued, in one launch. The sums are
/// integers, so they are the same in every run.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length ; what the driver answers, out of memory
/// where the scratch must grow for one.
pub fn exclusive_into<S: AsStream>(
    on: &S,
    x: &impl DeviceRead<u32>,
    out: &mut impl DeviceWrite<u32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let n = x.raw().len;
    same_len("scan", n, out.raw_mut().len)?;
    let (_, [states]) = scratch.parts(on, [scratch_len(n) * size_of::<u64>()])?;
    let mut states = states.into_cast::<u64>()?;
    states.clear()?;
    let tiles = n.div_ceil(TILE) as u32;
    kernels::scan_exclusive::launch(on.as_stream(), Grid1::new(tiles), x, &mut states, out)
}

/// As [`exclusive_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// What the driver answers.
pub fn exclusive<S: AsStream>(on: &S, x: &impl DeviceRead<u32>) -> GpuResult<DeviceBuffer<u32>> {
    let n = x.raw().len;
    let mut out = DeviceBuffer::zeroed(on, n)?;
    exclusive_into(on, x, &mut out, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// The same by one block, tile after tile: the form to read first.
///
/// # Errors
/// As [`exclusive_into`].
pub fn running_into<S: AsStream>(
    on: &S,
    x: &impl DeviceRead<u32>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    same_len("scan", x.raw().len, out.raw_mut().len)?;
    kernels::scan_running::launch(on.as_stream(), Grid1::new(1), x, out)
}
