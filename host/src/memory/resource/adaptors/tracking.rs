//! Tracks live allocations and their callers.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::{Arc, Mutex, MutexGuard};

use super::hand_on;
use crate::error::GpuResult;
use crate::lock::lock;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef};

/// Remembers where in the program each live allocation was made.
#[derive(Debug)]
pub struct TrackingAdaptor<R: ?Sized> {
    live: Mutex<BTreeMap<u64, TrackedAllocation>>,
    upstream: Arc<R>,
}

/// A live allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackedAllocation {
    /// Its first address.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
    /// The line that made it.
    pub caller: &'static Location<'static>,
}

impl fmt::Display for TrackedAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x} from {}", self.bytes, self.address, self.caller)
    }
}

impl<R: MemoryResource + ?Sized> TrackingAdaptor<R> {
    /// Remembers what is allocated from `upstream` through it.
    pub fn new(upstream: Arc<R>) -> Arc<Self> {
        Arc::new(Self { live: Mutex::default(), upstream })
    }

    /// What is live, by address.
    #[must_use]
    pub fn live(&self) -> Vec<TrackedAllocation> {
        self.lock().values().copied().collect()
    }

    /// The live allocation that `address` lies in.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<TrackedAllocation> {
        let live = self.lock();
        let (_, last) = live.range(..=address).next_back()?;
        (address - last.address < last.bytes as u64).then_some(*last)
    }

    /// What is live, a line each.
    #[must_use]
    pub fn report(&self) -> String {
        self.live().iter().map(|allocation| format!("{allocation}\n")).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, TrackedAllocation>> {
        lock(&self.live)
    }
}

// SAFETY: memory is the upstream's.
unsafe impl<R: MemoryResource + ?Sized> MemoryResource for TrackingAdaptor<R> {
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let address = self.upstream.allocate(request)?;
        let (bytes, caller) = (request.bytes, request.caller);
        self.lock().insert(address, TrackedAllocation { address, bytes, caller });
        Ok(address)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // Before the upstream frees it: after that the address may be another thread's already.
        self.lock().remove(&address);
        // SAFETY: the caller's promise.
        unsafe { self.upstream.deallocate(stream, address, bytes) };
    }

    hand_on!();
}
