//! Histogram of bytes.

use cuda_std::launch::{DeviceRead, Grid1};
use kernels_gpu::grid::histogram::{BINS, BLOCK, MAX_BLOCKS, histogram as kernel};

use crate::Gpu;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;

/// How often each of the 256 values occurs in `bytes: [n]`, `n < 2^32`: a buffer of 256 counts.
///
/// # Errors
/// What the driver answers.
pub fn histogram(gpu: &Gpu, bytes: &impl DeviceRead<u8>) -> GpuResult<DeviceBuffer<u32>> {
    let mut bins = DeviceBuffer::zeroed(gpu, BINS)?;
    let blocks = bytes.raw().len.div_ceil(BLOCK as usize).min(MAX_BLOCKS as usize);
    kernel::launch(gpu, Grid1::new(blocks as u32), bytes, &mut bins)?;
    Ok(bins)
}
