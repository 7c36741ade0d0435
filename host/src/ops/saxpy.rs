//! The update `y = alpha * x + y`.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::elementwise::saxpy as kernel;

use super::same_len;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// `y = alpha * x + y`, both `[n]`, each element rounded once (fused) on every device. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn saxpy(
    on: &impl AsStream,
    alpha: f32,
    x: &impl DeviceRead<f32>,
    y: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = x.len();
    same_len("updating an array", n, y.len())?;
    kernel::launch(on.as_stream(), LaunchConfig::for_num_elems(n), alpha, x, y)
}
