//! Grey levels of a colour image.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::image::grayscale as kernel;

use super::same_len;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// Grey levels `out: [n]` of RGBA pixels `rgba: [n]`: the luma of ITU-R BT.601; alpha is ignored. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; errors of the driver.
pub fn grayscale(
    on: &impl AsStream,
    rgba: &impl DeviceRead<[u8; 4]>,
    out: &mut impl DeviceWrite<u8>,
) -> GpuResult<()> {
    let n = rgba.len();
    same_len("turning an image grey", n, out.len())?;
    kernel::launch(on.as_stream(), LaunchConfig::for_num_elems(n), rgba, out)
}
