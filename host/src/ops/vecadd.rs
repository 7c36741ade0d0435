//! Element-wise addition.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::elementwise::vecadd as kernel;

use super::same_len;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// `out = a + b`, all `[n]`. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths differ; errors of the driver.
pub fn vecadd(
    on: &impl AsStream,
    a: &impl DeviceRead<f32>,
    b: &impl DeviceRead<f32>,
    out: &mut impl DeviceWrite<f32>,
) -> GpuResult<()> {
    let n = a.len();
    same_len("adding two arrays", n, b.len())?;
    same_len("adding into an array", n, out.len())?;
    kernel::launch(on.as_stream(), LaunchConfig::for_num_elems(n), a, b, out)
}
