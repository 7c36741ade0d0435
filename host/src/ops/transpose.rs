//! Transpose of a matrix.

use cuda_std::launch::{DeviceRead, Grid2, LaunchConfig};
use kernels_gpu::grid::transpose::{TILE, transpose_naive as naive, transpose_tiled};

use super::same_len;
use crate::Gpu;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;

/// `out: [width, height]` becomes the transpose of the row-major `input: [height, width]`.
///
/// # Errors
/// Lengths other than `width * height`; what the driver answers.
pub fn transpose(
    gpu: &Gpu,
    input: &impl DeviceRead<f32>,
    out: &mut DeviceBuffer<f32>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len("transposing a matrix", width * height, input.raw().len)?;
    let grid = (height.div_ceil(TILE) as u32, width.div_ceil(TILE) as u32);
    transpose_tiled::launch(
        gpu,
        Grid2::new(grid.0, grid.1),
        input,
        &mut out.grid_mut(height, width)?,
    )
}

/// As [`transpose`], without shared memory: slow on purpose.
///
/// # Errors
/// Lengths other than `width * height`; what the driver answers.
pub fn transpose_naive(
    gpu: &Gpu,
    input: &impl DeviceRead<f32>,
    out: &mut DeviceBuffer<f32>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len("transposing a matrix", width * height, input.raw().len)?;
    let config = LaunchConfig::for_grid(height, width);
    naive::launch(gpu, config, input, &mut out.grid_mut(height, width)?)
}
