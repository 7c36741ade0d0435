//! One allocation, and when it is given back.

use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::resource::kind::{self, ResourceKind};
use super::resource::{
    AllocationRequest, ContextPool, MemoryResource, StreamRef, allocate_or_reuse, allocate_ordered,
    free, free_ordered, out_of_memory, reclaiming,
};
use crate::deferred_frees::MemoryKind;
use crate::error::GpuResult;
use crate::host_callback::{defer_drop, in_host_callback};
use crate::stream::StreamInner;

/// The address of memory of no bytes: not null, aligned like all other memory, never touched.
pub(super) const DANGLING: u64 = 256;

/// Does not compile for a type that wants more alignment than memory has.
pub(crate) const fn check_alignment<T>() {
    assert!(align_of::<T>() as u64 <= DANGLING, "memory is aligned to 256 bytes");
}

/// Where the memory comes from, and goes back to.
#[derive(Clone, Debug)]
pub(super) enum Source<K: ResourceKind = kind::Device> {
    /// The driver, at once.
    Driver(MemoryKind),
    /// The driver, in the order of the home.
    StreamOrdered,
    /// A resource.
    Resource(Arc<dyn MemoryResource<Kind = K>>),
}

/// Memory of a resource, and the stream that orders its uses.
#[derive(Debug)]
pub(super) struct Allocation<K: ResourceKind = kind::Device> {
    home: Arc<StreamInner>,
    address: u64,
    bytes: usize,
    source: Source<K>,
}

// Nothing of it changes until it is dropped, so none is found half changed after a panic; a resource looks after itself.
impl<K: ResourceKind> UnwindSafe for Allocation<K> {}
impl<K: ResourceKind> RefUnwindSafe for Allocation<K> {}

impl<K: ResourceKind> Allocation<K> {
    /// Memory for `len` values of `T`, whose bytes are anything.
    #[track_caller]
    pub(super) fn new<T>(
        home: &Arc<StreamInner>,
        source: Source<K>,
        len: usize,
    ) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| out_of_memory(home.context(), usize::MAX))?;
        let address = if bytes == 0 { DANGLING } else { source.allocate(home, bytes)? };
        Ok(Self { home: home.clone(), address, bytes, source })
    }

    pub(super) fn home(&self) -> &Arc<StreamInner> {
        &self.home
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    /// Lets kernels of the device of that number reach the memory, if access to this device is
    /// enabled there. What does not come from a pool of the driver needs no more than that.
    pub(super) fn open_to(&self, peer: u32) -> GpuResult<()> {
        let context = self.home.context();
        match &self.source {
            Source::Resource(resource) => resource.open_to(peer),
            Source::StreamOrdered => ContextPool::of(context).open_to(context, peer),
            Source::Driver(_) => Ok(()),
        }
    }
}

impl<K: ResourceKind> Source<K> {
    #[track_caller]
    fn allocate(&self, home: &Arc<StreamInner>, bytes: usize) -> GpuResult<u64> {
        let context = home.context();
        match self {
            Self::Driver(kind) => allocate_or_reuse(home, *kind, bytes),
            Self::StreamOrdered => {
                let pool = ContextPool::of(context).get(context)?;
                reclaiming(context, || allocate_ordered(home, pool, bytes))
            }
            Self::Resource(resource) => {
                let (stream, caller) = (StreamRef::new(home), Location::caller());
                resource.allocate(&AllocationRequest { stream, bytes, caller })
            }
        }
    }

    /// # Safety
    /// The memory came from here for this home, with as many bytes, and is not used again; all its
    /// uses are ordered before the end of the home.
    unsafe fn free(&self, home: &Arc<StreamInner>, address: u64, bytes: usize) {
        match self {
            // SAFETY: the caller's promise.
            Self::Driver(kind) => unsafe { free(home, *kind, address, bytes) },
            // SAFETY: the caller's promise.
            Self::StreamOrdered => unsafe { free_ordered(home, address, bytes) },
            Self::Resource(resource) => {
                // SAFETY: the caller's promise.
                unsafe { resource.deallocate(StreamRef::new(home), address, bytes) }
            }
        }
    }
}

impl<K: ResourceKind> Drop for Allocation<K> {
    /// All uses are ordered before the home's end (see `stream`): whatever is ordered behind it, or
    /// waits for it, comes after the last use. Memory that no stream orders has no uses left.
    fn drop(&mut self) {
        if self.bytes > 0 && in_host_callback() {
            let Self { home, address, bytes, source } = &*self;
            let (home, source) = (home.clone(), source.clone());
            defer_drop(Box::new(Self { home, address: *address, bytes: *bytes, source }));
        } else if self.bytes > 0 {
            if K::IN_STREAM_ORDER {
                self.home.wait_for_unordered_work();
            }
            // SAFETY: the address is this allocation's own and is not used again.
            unsafe { self.source.free(&self.home, self.address, self.bytes) };
        }
    }
}
