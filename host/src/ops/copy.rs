//! Copies by kernel: what coalesced access is worth.

use cuda_std::launch::{DeviceRead, DeviceWrite, Linear};
use kernels_gpu::grid::copy::{copy_coalesced, copy_strided as strided};

use super::same_len;
use crate::Gpu;
use crate::error::GpuResult;

const BLOCK: u32 = 256;
/// Enough blocks to fill any device; each thread steps on from there.
const MAX_BLOCKS: usize = 8 * 132;

/// Copies `x` to `out`, neighbouring threads on neighbouring elements.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn copy(gpu: &Gpu, x: &impl DeviceRead<f32>, out: &mut impl DeviceWrite<f32>) -> GpuResult<()> {
    let n = x.raw().len;
    same_len("copying an array", n, out.raw_mut().len)?;
    let blocks = n.div_ceil(BLOCK as usize).min(MAX_BLOCKS) as u32;
    copy_coalesced::launch(gpu, Linear::new(blocks, BLOCK), x, out)
}

/// Copies `x` to `out`, each thread a run of `per_thread` elements: slow on purpose.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn copy_strided(
    gpu: &Gpu,
    per_thread: u32,
    x: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = x.raw().len;
    same_len("copying an array", n, out.raw_mut().len)?;
    let threads = n.div_ceil(per_thread.max(1) as usize);
    let blocks = threads.div_ceil(BLOCK as usize) as u32;
    strided::launch(gpu, Linear::new(blocks, BLOCK), per_thread.max(1), x, out)
}
