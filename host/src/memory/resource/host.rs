//! The driver's own memory that the host uses too: page-locked, and managed.

use std::ptr::{null_mut, with_exposed_provenance_mut};

use cuda_driver::sys;

use super::{
    AllocationRequest, MemoryResource, StreamRef, allocate_or_reuse, free as free_counted, kind,
};
use crate::context::{Context, Handle};
use crate::deferred_frees::{Freed, MemoryKind, free};
use crate::error::{GpuError, GpuResult};

/// `CU_MEMHOSTALLOC_PORTABLE`
const PORTABLE: u32 = 1;
/// `CU_MEMHOSTALLOC_WRITECOMBINED`
const WRITE_COMBINED: u32 = 4;

/// `cuMemHostAlloc` and `cuMemFreeHost`: page-locked memory of the host, for whatever device the stream is on. Both may
/// wait for the whole device; a [`MemoryPool`](super::MemoryPool) over it seldom calls them.
#[derive(Clone, Copy, Debug, Default)]
pub struct PinnedHostMemory {
    flags: u32,
}

impl PinnedHostMemory {
    /// Page-locked for one device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the memory is page-locked for every device of the process.
    #[must_use]
    pub fn portable(self, portable: bool) -> Self {
        let flags = self.flags & !PORTABLE | if portable { PORTABLE } else { 0 };
        Self { flags }
    }

    /// Past the caches: for an owner that only writes.
    pub(in crate::memory) fn write_combined(self) -> Self {
        Self { flags: self.flags | WRITE_COMBINED }
    }

    fn page_lock(self, context: &Context, bytes: usize) -> GpuResult<u64> {
        let mut address = null_mut();
        context.call("cuMemHostAlloc", || {
            // SAFETY: `address` is writable.
            unsafe { sys::cuMemHostAlloc(&mut address, bytes, self.flags) }
        })?;
        Ok(address.expose_provenance() as u64)
    }
}

// SAFETY: the driver gives each byte to one owner, page-locked and aligned to 256 bytes, and nothing uses what it gives.
unsafe impl MemoryResource for PinnedHostMemory {
    type Kind = kind::Pinned;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        const OUT_OF_MEMORY: u32 = 2;
        let locked = self.page_lock(request.stream.inner().context(), request.bytes);
        locked.map_err(|error| match error.driver().map(|driver| driver.code()) {
            Some(OUT_OF_MEMORY) => {
                GpuError::OutOfPinnedMemory { requested: request.bytes, free: None }
            }
            _ => error,
        })
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        let start = Handle(with_exposed_provenance_mut(address as usize));
        free(stream.inner().context(), Freed::Host(start), bytes);
    }
}

/// `cuMemAllocManaged` and `cuMemFree`: managed memory. Freeing waits for the stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct ManagedMemory;

// SAFETY: the driver gives each byte to one owner, managed and aligned to 256 bytes; before it was freed, all work that
// used it was waited for.
unsafe impl MemoryResource for ManagedMemory {
    type Kind = kind::Unified;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        allocate_or_reuse(request.stream.inner(), MemoryKind::Managed, request.bytes)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { free_counted(stream.inner(), MemoryKind::Managed, address, bytes) };
    }
}
