//! Fails on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::hand_on;
use crate::error::GpuResult;
use crate::memory::resource::kind::sealed::Sealed;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};

/// Answers one allocation with out of memory: for tests of what a program does then.
#[derive(Debug)]
pub struct FailureAdaptor<R: ?Sized> {
    /// Allocations until the one that fails; it stays at `NEVER` afterwards.
    left: AtomicU64,
    upstream: Arc<R>,
}

const NEVER: u64 = u64::MAX;

impl<R: MemoryResource + ?Sized> FailureAdaptor<R> {
    /// Fails no allocation of `upstream` yet.
    pub fn new(upstream: Arc<R>) -> Arc<Self> {
        Arc::new(Self { left: AtomicU64::new(NEVER), upstream })
    }

    /// Lets `n` more allocations through and fails the next one, once.
    pub fn fail_after(&self, n: u64) {
        self.left.store(n, Ordering::Relaxed);
    }

    /// Whether the allocation that shall fail is still to come.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        self.left.load(Ordering::Relaxed) != NEVER
    }

    /// Counts an allocation; whether it is the one.
    fn is_due(&self) -> bool {
        let next = |left: u64| match left {
            NEVER => None,
            left => Some(left.wrapping_sub(1)),
        };
        self.left.try_update(Ordering::Relaxed, Ordering::Relaxed, next) == Ok(0)
    }
}

// SAFETY: memory is the upstream's.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for FailureAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        if self.is_due() {
            return Err(R::Kind::exhausted(request.stream, request.bytes));
        }
        self.upstream.allocate(request)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
    }

    hand_on!();
}
