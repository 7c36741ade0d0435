//! Buffers that operations use for a while.

use std::sync::Arc;

use bytemuck::Pod;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::resource::{AllocationRequest, MemoryResource, StreamRef, kind};
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

/// A buffer at an address, whose memory stays when it is dropped.
///
/// # Safety
/// As much memory is there, aligned to 256 bytes, and is the buffer's alone; what has used it before is done, or ordered by the stream. Each element is
/// written before it is read.
pub(super) unsafe fn at<T: Pod>(
    address: u64,
    on: &impl AsStream,
    len: usize,
) -> DistResult<DeviceBuffer<T>> {
    // SAFETY: the caller's promise.
    Ok(unsafe { DeviceBuffer::uninitialized_in(&Arc::new(Place { address }), on, len) }?)
}

/// Memory that was allocated by somebody else.
#[derive(Debug)]
struct Place {
    address: u64,
}

// SAFETY: the promise of `at`, which makes one buffer of it.
unsafe impl MemoryResource for Place {
    type Kind = kind::Device;

    fn allocate(&self, _: &AllocationRequest<'_>) -> GpuResult<u64> {
        Ok(self.address)
    }

    unsafe fn deallocate(&self, _: StreamRef<'_>, _: u64, _: usize) {}
}
