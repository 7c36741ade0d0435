//! Counts.

use std::sync::{Arc, Mutex, MutexGuard};

use super::hand_on;
use crate::error::GpuResult;
use crate::lock::lock;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};

/// Counts what goes through it.
#[derive(Debug)]
pub struct StatisticsAdaptor<R: ?Sized> {
    counts: Mutex<AllocationStatistics>,
    upstream: Arc<R>,
}

/// What went through a [`StatisticsAdaptor`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AllocationStatistics {
    /// Allocations.
    pub allocations: u64,
    /// Allocations that were refused.
    pub failures: u64,
    /// Allocations that came back.
    pub frees: u64,
    /// Bytes in use now.
    pub current_bytes: usize,
    /// Bytes in use at most at one time.
    pub peak_bytes: usize,
    /// Bytes of all allocations together.
    pub total_bytes: u64,
    /// Bytes of the largest allocation.
    pub largest_bytes: usize,
}

impl<R: MemoryResource + ?Sized> StatisticsAdaptor<R> {
    /// Counts what goes to `upstream`.
    pub fn new(upstream: Arc<R>) -> Arc<Self> {
        Arc::new(Self { counts: Mutex::default(), upstream })
    }

    /// The counts.
    #[must_use]
    pub fn statistics(&self) -> AllocationStatistics {
        *self.lock()
    }

    fn lock(&self) -> MutexGuard<'_, AllocationStatistics> {
        lock(&self.counts)
    }
}

impl AllocationStatistics {
    fn allocated(&mut self, bytes: usize) {
        self.allocations += 1;
        self.current_bytes += bytes;
        self.peak_bytes = self.peak_bytes.max(self.current_bytes);
        self.total_bytes += bytes as u64;
        self.largest_bytes = self.largest_bytes.max(bytes);
    }
}

// SAFETY: memory is the upstream's.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for StatisticsAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let result = self.upstream.allocate(request);
        let mut counts = self.lock();
        match &result {
            Ok(_) => counts.allocated(request.bytes),
            Err(_) => counts.failures += 1,
        }
        result
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        let mut counts = self.lock();
        counts.frees += 1;
        counts.current_bytes -= bytes;
        drop(counts);
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
    }

    hand_on!();
}
