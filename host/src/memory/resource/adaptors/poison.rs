//! Fills memory with a pattern when it comes and when it goes.

use std::sync::Arc;

use super::hand_on;
use crate::error::GpuResult;
use crate::memory::resource::kind::sealed::Sealed;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};

/// Fills new memory with [`ALLOCATED`](Self::ALLOCATED) and freed memory with
/// [`FREED`](Self::FREED), in the stream's order, or at once if the memory is pinned: what is read before it is
/// written, or after its end, is then plain to see.
///
/// It is for GPUs, where nothing else looks. The emulator knows by itself which bytes were never
/// written, and takes these fillings for writes.
#[derive(Debug)]
pub struct PoisonAdaptor<R: ?Sized> {
    upstream: Arc<R>,
}

impl<R: ?Sized> PoisonAdaptor<R> {
    /// Each byte of new memory. As `f32` and `f64`, -3.0e-13 and -3.7e-103.
    pub const ALLOCATED: u8 = 0xaa;
    /// Each byte of freed memory. As `f32` and `f64`, -2.0e18 and -1.5e144.
    pub const FREED: u8 = 0xdd;

    /// Fills memory of `upstream`.
    pub fn new(upstream: Arc<R>) -> Arc<Self> {
        Arc::new(Self { upstream })
    }
}

// SAFETY: memory is the upstream's; it is filled while nobody else has it.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for PoisonAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let address = self.upstream.allocate(request)?;
        let AllocationRequest { stream, bytes, .. } = *request;
        let filled = stream.inner().context().call("cuMemsetD8Async", || {
            // SAFETY: the memory is new and has so many bytes; `call` makes the context current.
            unsafe { R::Kind::fill(stream, address, Self::ALLOCATED, bytes) }
        });
        if filled.is_err() {
            // SAFETY: it came from there just now, and nothing that is queued uses it.
            unsafe { self.upstream.deallocate(stream, address, bytes) };
        }
        filled.map(|()| address)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        stream.inner().context().release(|| {
            // SAFETY: the memory has so many bytes, and its uses are over where this runs; `release` makes the
            // context current.
            unsafe { R::Kind::fill(stream, address, Self::FREED, bytes) }
        });
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
    }

    hand_on!();
}
