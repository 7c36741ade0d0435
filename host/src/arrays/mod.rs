//! Arrays of the host, of the crates `ndarray` and `faer`, to and from device memory.

#[cfg(feature = "faer")]
mod faer;
#[cfg(feature = "ndarray")]
mod ndarray;

use bytemuck::Pod;

use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;

/// An error unless the shape has as many elements as the buffer.
fn check_shape<T: Pod>(buffer: &DeviceBuffer<T>, lens: &[usize]) -> GpuResult<()> {
    let expected = lens.iter().try_fold(1_usize, |product, len| product.checked_mul(*len));
    let (expected, found) = (expected.unwrap_or(usize::MAX), buffer.len());
    if expected == found {
        return Ok(());
    }
    Err(GpuError::SizeMismatch { operation: "copying a buffer to an array", expected, found })
}
