//! Sums of all elements before each element.

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1};
use kernels_gpu::grid::scan::{self as kernels, TILE, scratch_len};

use super::same_len;
use crate::error::{GpuContext, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Scratch memory of [`exclusive_into`], for one array at a time.
pub struct Scratch {
    states: DeviceBuffer<u64>,
}

crate::graph_buffers!(Scratch { states });

impl Scratch {
    /// Scratch for arrays of up to `n_elems` elements.
    ///
    /// # Errors
    /// What the driver answers, out of memory for one.
    pub fn new(on: &impl AsStream, n_elems: usize) -> GpuResult<Self> {
        let states = DeviceBuffer::zeroed(on, scratch_len(n_elems));
        Ok(Self { states: states.gpu_context("allocating scratch for a scan")? })
    }
}

/// `out[i] = x[0] + … + x[i - 1]` modulo 2³². `x: [n]`, `out: [n]`; queued, in one launch. The sums are
/// integers, so they are the same in every run.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length or the scratch is too small; what
/// the driver answers.
pub fn exclusive_into<S: AsStream>(
    on: &S,
    x: &impl DeviceRead<u32>,
    out: &mut impl DeviceWrite<u32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let n = x.raw().len;
    same_len("scan", n, out.raw_mut().len)?;
    let words = scratch_len(n);
    same_len("the scratch of a scan", words, words.min(scratch.states.len()))?;
    let mut states = scratch.states.slice_mut(..words);
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
    exclusive_into(on, x, &mut out, &mut Scratch::new(on, n)?)?;
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
