//! One value for every element.

use bytemuck::Pod;
use cuda_std::launch::{DeviceWrite, Grid1, RawSlice};
use kernels_gpu::elementwise::map::blocks;
use kernels_gpu::elementwise::memset::{fill as kernel, pattern};

use super::views::AsMut;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// Sets every element of `out: [n]` to `value`, of a type of 1, 2, 4, 8 or 16 bytes, or three times as many.
/// Asynchronous, in one launch of 16-byte stores.
///
/// A value of another size does not compile:
///
/// ```compile_fail
/// # let gpu = ferrowarp::Gpu::new()?;
/// let mut out = ferrowarp::DeviceBuffer::<[u8; 5]>::zeroed(&gpu, 3)?;
/// ferrowarp::ops::fill(&gpu, &[1u8; 5], &mut out)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// # Errors
/// Errors of the driver.
pub fn fill<T: Pod>(on: &impl AsStream, value: &T, out: &mut impl DeviceWrite<T>) -> GpuResult<()> {
    const {
        let size = size_of::<T>();
        assert!(
            size > 0 && 48 % size == 0,
            "`fill` takes values of 1, 2, 4, 8 or 16 bytes, or thrice that"
        );
    }
    let RawSlice { address, len, .. } = out.raw_mut();
    let Some(pattern) = pattern(bytemuck::bytes_of(value), address).filter(|_| len > 0) else {
        return Ok(());
    };
    let grid = Grid1::new(blocks(len * size_of::<T>(), 1, 1));
    kernel::launch(on.as_stream(), grid, pattern, &mut AsMut::new(out))
}
