//! Histogram equalisation of a grey image.

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, LaunchConfig};
use kernels_gpu::histogram::BINS;
use kernels_gpu::image::equalize::{equalize_apply, equalize_table};

use super::{histogram, same_len};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Spreads the grey levels of `image: [n]` evenly over the 256 values of `out: [n]`, by the levels' cumulative
/// histogram; `n < 2^32`. Asynchronous; allocates the histogram and a table of 256 bytes.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if the lengths differ; errors of the driver.
pub fn equalize(
    on: &impl AsStream,
    image: &impl DeviceRead<u8>,
    out: &mut impl DeviceWrite<u8>,
) -> GpuResult<()> {
    let n = image.len();
    same_len("equalising an image", n, out.len())?;
    let stream = on.as_stream();
    let bins = histogram(on, image)?;
    let mut table = DeviceBuffer::<u8>::zeroed(on, BINS)?;
    equalize_table::launch(stream, Grid1::new(1), &bins, &mut table)?;
    equalize_apply::launch(stream, LaunchConfig::for_num_elems(n), image, &table, out)
}
