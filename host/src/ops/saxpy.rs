//! The update `y = alpha * x + y`.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::elementwise::saxpy as kernel;

use super::same_len;
use crate::Gpu;
use crate::error::GpuResult;

/// `y = alpha * x + y` for two arrays of one length; one rounding an element (fused) on every device.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn saxpy(
    gpu: &Gpu,
    alpha: f32,
    x: &impl DeviceRead<f32>,
    y: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = x.raw().len;
    same_len("updating an array", n, y.raw_mut().len)?;
    kernel::launch(gpu, LaunchConfig::for_num_elems(n), alpha, x, y)
}
