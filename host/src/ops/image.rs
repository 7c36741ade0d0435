//! Filters on images: one byte a pixel, row by row.

use cuda_std::launch::{DeviceRead, DeviceWrite, LaunchConfig};
use kernels_gpu::image::blur::{MAX_RADIUS, blur_columns, blur_rows};
use kernels_gpu::image::grayscale as grayscale_kernel;
use kernels_gpu::image::sobel as sobel_kernel;

pub use super::equalize::equalize;
use super::same_len;
use crate::Gpu;
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;

/// Largest blur, in pixels of standard deviation: three of it must fit in the kernel's halo.
pub const MAX_SIGMA: f32 = MAX_RADIUS as f32 / 3.0;

/// Grey levels of RGBA pixels (BT.601 luma; alpha is ignored), both `[n]`.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn grayscale(
    gpu: &Gpu,
    rgba: &impl DeviceRead<[u8; 4]>,
    out: &mut impl DeviceWrite<u8>,
) -> GpuResult<()> {
    let n = rgba.raw().len;
    same_len("turning an image grey", n, out.raw_mut().len)?;
    grayscale_kernel::launch(gpu, LaunchConfig::for_num_elems(n), rgba, out)
}

/// Radius in pixels at which a Gaussian of `sigma` pixels is cut off: three standard deviations, at least one.
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

/// Gaussian blur of `image: [height, width]` into `out`, with `0 < sigma <= MAX_SIGMA` pixels; edges are repeated.
///
/// # Errors
/// Lengths other than `width * height`; a `sigma` out of range; what the driver answers.
pub fn blur(
    gpu: &Gpu,
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
    same_len("blurring an image", width * height, image.raw().len)?;
    let weights = DeviceBuffer::from_slice(gpu, &weights(sigma))?;
    let mut rows = DeviceBuffer::<f32>::zeroed(gpu, width * height)?;

    let across = blur_rows::grid_for(width, height);
    blur_rows::launch(gpu, across, image, &weights, &mut rows.grid_mut(width, height)?)?;
    let down = blur_columns::grid_for(width, height);
    blur_columns::launch(gpu, down, &rows, &weights, &mut out.grid_mut(width, height)?)
}

/// Edges of `image: [height, width]` into `out`: `min(|gx| + |gy|, 255)` of Sobel's gradient; edges are repeated.
///
/// # Errors
/// Lengths other than `width * height`; what the driver answers.
pub fn sobel(
    gpu: &Gpu,
    image: &impl DeviceRead<u8>,
    out: &mut DeviceBuffer<u8>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len("finding the edges of an image", width * height, image.raw().len)?;
    let grid = sobel_kernel::grid_for(width, height);
    sobel_kernel::launch(gpu, grid, image, &mut out.grid_mut(width, height)?)
}
