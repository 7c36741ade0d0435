//! Refuses what goes beyond a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::hand_on;
use crate::error::GpuResult;
use crate::memory::resource::kind::sealed::Sealed;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};

/// Limits the bytes that are allocated at one time; more is out of memory.
#[derive(Debug)]
pub struct LimitAdaptor<R: ?Sized> {
    limit: usize,
    used: AtomicUsize,
    peak: AtomicUsize,
    upstream: Arc<R>,
}

impl<R: MemoryResource + ?Sized> LimitAdaptor<R> {
    /// At most `limit_bytes` at one time from `upstream`.
    pub fn new(upstream: Arc<R>, limit_bytes: usize) -> Arc<Self> {
        let (used, peak) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Self { limit: limit_bytes, used, peak, upstream })
    }

    /// Bytes in use now.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn reserve(&self, bytes: usize) -> GpuResult<()> {
        let within = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.limit);
        match self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, within) {
            Ok(before) => {
                self.peak.fetch_max(before + bytes, Ordering::Relaxed);
                Ok(())
            }
            Err(used) => {
                let (free, peak) = (self.limit - used, self.peak.load(Ordering::Relaxed));
                Err(R::Kind::beyond_limit(bytes, free, self.limit, peak))
            }
        }
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

// SAFETY: memory is the upstream's.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for LimitAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        self.reserve(request.bytes)?;
        self.upstream.allocate(request).inspect_err(|_| self.release(request.bytes))
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
        self.release(bytes);
    }

    hand_on!();
}
