//! One allocation, how it grows, and when it is given back.

use std::panic::{Location, RefUnwindSafe, UnwindSafe};
use std::sync::Arc;

use super::resource::kind::{self, ResourceKind};
use super::resource::{
    AllocationRequest, ContextPool, MemoryResource, StreamRef, allocate_or_reuse, allocate_ordered,
    counted, free, free_ordered, out_of_memory, reclaiming,
};
use crate::context::Context;
use crate::deferred_frees::{self, Freed, MemoryKind};
use crate::error::{GpuError, GpuResult};
use crate::host_callback::{defer_drop, in_host_callback};
use crate::stream::StreamInner;
use crate::virtual_memory::Reservation;

/// The address of memory of no bytes: not null, aligned like all other memory, never touched.
pub(super) const DANGLING: u64 = 256;

/// From this size on, memory that is to grow is mapped, in pages that are mostly as large as this. To copy what is
/// smaller costs less than a page.
const MAPPED_FROM_BYTES: usize = 2 << 20;

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
    /// Memory that is mapped at the front of reserved addresses, so that more can follow.
    Mapped(Reservation),
}

/// Memory of a resource, and the stream that orders its uses.
#[derive(Debug)]
pub(super) struct Allocation<K: ResourceKind = kind::Device> {
    home: Arc<StreamInner>,
    address: u64,
    bytes: usize,
    source: Source<K>,
}

// Nothing that can panic stands between its changes, so none is found half changed; a resource looks after itself.
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
        Self::of_bytes(home, source, bytes_of_values::<T>(home, len)?)
    }

    #[track_caller]
    fn of_bytes(home: &Arc<StreamInner>, source: Source<K>, bytes: usize) -> GpuResult<Self> {
        let address = if bytes == 0 { DANGLING } else { source.allocate(home, bytes)? };
        Ok(Self { home: home.clone(), address, bytes, source })
    }

    pub(super) fn home(&self) -> &Arc<StreamInner> {
        &self.home
    }

    pub(super) fn address(&self) -> u64 {
        self.address
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Lets kernels of the device of that number reach the memory, if access to this device is
    /// enabled there. What does not come from a pool of the driver needs no more than that.
    pub(super) fn open_to(&self, peer: u32) -> GpuResult<()> {
        let context = self.home.context();
        match &self.source {
            Source::Resource(resource) => resource.open_to(peer),
            Source::StreamOrdered => ContextPool::of(context).open_to(context, peer),
            Source::Mapped(range) => range.open_to(context, peer, self.bytes),
            Source::Driver(_) => Ok(()),
        }
    }
}

impl Allocation {
    /// Memory for `len` values of `T` or more, which is to grow: mapped if it is large and the device can do that, else
    /// in the order of the stream, else at once.
    #[track_caller]
    pub(super) fn growable<T>(home: &Arc<StreamInner>, len: usize) -> GpuResult<Self> {
        let bytes = bytes_of_values::<T>(home, len)?;
        if bytes >= MAPPED_FROM_BYTES
            && let Some(range) = Reservation::new(home.context())?
        {
            return Self::mapped(home, range, bytes);
        }
        match Self::new::<T>(home, Source::StreamOrdered, len) {
            Err(error) if matches!(error.root(), GpuError::Unsupported { .. }) => {
                Self::new::<T>(home, Source::Driver(MemoryKind::Device), len)
            }
            result => result,
        }
    }

    #[track_caller]
    fn mapped(home: &Arc<StreamInner>, range: Reservation, bytes: usize) -> GpuResult<Self> {
        let pages = range.whole_pages(bytes).ok_or_else(|| out_of_memory(home.context(), bytes));
        pages.and_then(|bytes| Self::of_bytes(home, Source::Mapped(range), bytes)).inspect_err(
            // SAFETY: nothing is mapped, and no other code has the range.
            |_| unsafe { range.free(home.context(), 0) },
        )
    }

    /// Makes room for `len` values of `T` at the same address. Returns `false` where this memory cannot grow.
    pub(super) fn grow_in_place<T>(&mut self, len: usize) -> GpuResult<bool> {
        let Source::Mapped(range) = self.source else { return Ok(false) };
        let (context, bytes) = (self.home.context(), bytes_of_values::<T>(&self.home, len)?);
        let end = range.whole_pages(bytes).ok_or_else(|| out_of_memory(context, bytes))?;
        if end > self.bytes {
            map(context, range, self.bytes, end)?;
            self.bytes = end;
        }
        Ok(true)
    }

    /// Other memory, for `len` values of `T`, from where this one comes.
    #[track_caller]
    pub(super) fn larger<T>(&self, len: usize) -> GpuResult<Self> {
        match &self.source {
            Source::Resource(_) => Self::new::<T>(&self.home, self.source.clone(), len),
            _ => Self::growable::<T>(&self.home, len),
        }
    }
}

/// How many bytes `len` values of `T` have; out of memory if they are more than can be addressed.
fn bytes_of_values<T>(home: &StreamInner, len: usize) -> GpuResult<usize> {
    const { check_alignment::<T>() };
    let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
    bytes.ok_or_else(|| out_of_memory(home.context(), usize::MAX))
}

/// Maps memory after the first `mapped` bytes, up to `end`, and counts it. Returns the first address of all.
fn map(context: &Context, range: Reservation, mapped: usize, end: usize) -> GpuResult<u64> {
    let map = || range.map(context, mapped, end).map(|()| range.address());
    reclaiming(context, || counted(context, map(), end - mapped))
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
            Self::Mapped(range) => map(context, *range, 0, bytes),
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
            Self::Mapped(range) => {
                let freed = Freed::Mapped { range: *range, home: home.clone() };
                deferred_frees::free(home.context(), freed, bytes);
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
