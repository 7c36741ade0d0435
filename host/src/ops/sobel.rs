//! Edges of a grey image.

use cuda_std::launch::DeviceRead;
use kernels_gpu::image::sobel as kernel;

use super::same_len;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// The magnitude of Sobel's gradient of `image: [height, width]` bytes into `out`, of the same shape:
/// `min(|gx| + |gy|, 255)`. Pixels beyond an edge repeat the edge. Asynchronous.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) for lengths other than `width * height`; errors of the driver.
pub fn sobel(
    on: &impl AsStream,
    image: &impl DeviceRead<u8>,
    out: &mut DeviceBuffer<u8>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len("finding the edges of an image", width * height, image.len())?;
    let grid = kernel::grid_for(width, height);
    kernel::launch(on.as_stream(), grid, image, &mut out.grid_mut(width, height)?)
}
