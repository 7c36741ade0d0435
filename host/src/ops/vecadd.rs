//! Element-wise addition.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::elementwise::vecadd as kernel;

use super::same_len;
use crate::Gpu;
use crate::error::GpuResult;

/// `out = a + b` for three arrays of one length.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn vecadd(
    gpu: &Gpu,
    a: &impl DeviceRead<f32>,
    b: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = a.raw().len;
    same_len("adding two arrays", n, b.raw().len)?;
    same_len("adding into an array", n, out.raw_mut().len)?;
    kernel::launch(gpu, LaunchConfig::for_num_elems(n), a, b, out)
}
