//! Buffers that operations use for a while.

use bytemuck::Pod;
use ferrowarp::{AsStream, DeviceBuffer};

use crate::error::DistResult;

/// A buffer that is allocated, and freed, in the order of the stream.
///
/// # Safety
/// Each element is written before it is read.
pub(super) unsafe fn unwritten<T: Pod>(
    on: &impl AsStream,
    len: usize,
) -> DistResult<DeviceBuffer<T>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { DeviceBuffer::uninitialized_async(on, len) }?)
}
