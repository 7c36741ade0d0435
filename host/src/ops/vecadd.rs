//! Element-wise addition.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::grid::vecadd::vecadd as kernel;

use super::same_len;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// `out = a + b` for three arrays of one length.
///
/// # Errors
/// Lengths that differ; what the driver answers.
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
