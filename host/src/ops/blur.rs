//! Gaussian blur of a grey image.

use cuda_std::launch::DeviceRead;
use kernels_gpu::image::blur::{MAX_RADIUS, blur_columns, blur_rows};

use super::same_len;
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// The largest standard deviation of a [`blur`], in pixels: three of them fit in the kernel's halo.
pub const MAX_SIGMA: f32 = MAX_RADIUS as f32 / 3.0;

/// The radius, in pixels, at which a Gaussian of `sigma` pixels is cut off: three standard deviations, at least one pixel.
#[must_use]
pub fn radius(sigma: f32) -> usize {
    ((3.0 * sigma).ceil() as usize).max(1)
}

/// Weights of a Gaussian of `sigma` pixels at distances `-radius ..= radius`, scaled to sum 1.
fn weights(sigma: f32) -> Vec<f32> {
    let (sigma, radius) = (f64::from(sigma), radius(sigma) as i32);
    let raw: Vec<f64> =
        (-radius..=radius).map(|d| (-f64::from(d * d) / (2.0 * sigma * sigma)).exp()).collect();
    let sum: f64 = raw.iter().sum();
    raw.iter().map(|weight| (weight / sum) as f32).collect()
}

/// Gaussian blur of `image: [height, width]` bytes into `out`, of the same shape, with a standard deviation of
/// `0 < sigma <= MAX_SIGMA` pixels.
///
/// A pass over the rows, then one over the columns; pixels beyond an edge repeat the edge. Asynchronous; allocates the
/// weights and an f32 image.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) for lengths other than `width * height`,
/// [`InvalidArgument`](GpuError::InvalidArgument) for a `sigma` out of range; errors of the driver.
pub fn blur(
    on: &impl AsStream,
    image: &impl DeviceRead<u8>,
    out: &mut DeviceBuffer<u8>,
    width: usize,
    height: usize,
    sigma: f32,
) -> GpuResult<()> {
    if !(sigma > 0.0 && sigma <= MAX_SIGMA) {
        return Err(GpuError::InvalidArgument {
            operation: "blurring an image",
            reason: format!(
                "sigma is {sigma}, and must be above 0 and at most {MAX_SIGMA:.2} pixels"
            ),
        });
    }
    same_len("blurring an image", width * height, image.len())?;
    let stream = on.as_stream();
    let weights = DeviceBuffer::from_slice(on, &weights(sigma))?;
    let mut rows = DeviceBuffer::<f32>::zeroed(on, width * height)?;

    let across = blur_rows::grid_for(width, height);
    blur_rows::launch(stream, across, image, &weights, &mut rows.grid_mut(width, height)?)?;
    let down = blur_columns::grid_for(width, height);
    blur_columns::launch(stream, down, &rows, &weights, &mut out.grid_mut(width, height)?)
}
