//! Histogram equalisation of a grey image.

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, LaunchConfig};
use kernels_gpu::histogram::BINS;
use kernels_gpu::image::equalize::{equalize_apply, equalize_table};

use super::{histogram, same_len};
use crate::Gpu;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;

/// `out` becomes `image` with its grey levels spread evenly; both `[n]` bytes, `n < 2^32`.
///
/// # Errors
/// Lengths that differ; what the driver answers.
pub fn equalize(
    gpu: &Gpu,
    image: &impl DeviceRead<u8>,
    out: &mut impl DeviceWrite<u8>,
) -> GpuResult<()> {
    let n = image.raw().len;
    same_len("equalising an image", n, out.raw_mut().len)?;
    let bins = histogram(gpu, image)?;
    let mut table = DeviceBuffer::<u8>::zeroed(gpu, BINS)?;
    equalize_table::launch(gpu, Grid1::new(1), &bins, &mut table)?;
    equalize_apply::launch(gpu, LaunchConfig::for_num_elems(n), image, &table, out)
}
