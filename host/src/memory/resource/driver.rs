//! The driver's own memory: allocated at once, or in a stream's order from a pool of the driver.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_driver::sys;

use super::{AllocationRequest, MemoryResource, StreamRef, kind};
use crate::context::{Context, ContextState, Slot};
use crate::deferred_frees::{self, Freed, MemoryKind, Usage};
use crate::device_sync;
use crate::error::{GpuError, GpuResult};
use crate::lock::lock;
use crate::stream::{AsStream, StreamInner};

/// `bytes` bytes, at once.
pub(in crate::memory) fn allocate(
    context: &Context,
    kind: MemoryKind,
    bytes: usize,
) -> GpuResult<u64> {
    let mut address = 0;
    let flags = sys::mem_attach::GLOBAL;
    let result = match kind {
        MemoryKind::Device => context.call("cuMemAlloc", || {
            // SAFETY: `address` is writable.
            unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }
        }),
        MemoryKind::Managed => context.call("cuMemAllocManaged", || {
            // SAFETY: `address` is writable.
            unsafe { sys::cuMemAllocManaged(&mut address, bytes, flags) }
        }),
    };
    counted(context, result.map(|()| address), bytes)
}

/// Gives back what [`allocate`] gave, after all work on `home`; later where a persistent kernel runs.
///
/// # Safety
/// The memory has as many bytes and is not used again; all its uses are ordered before the end of
/// `home`.
pub(in crate::memory) unsafe fn free(
    home: &Arc<StreamInner>,
    kind: MemoryKind,
    address: u64,
    bytes: usize,
) {
    let freed = Freed::Counted { kind, address, home: home.clone() };
    deferred_frees::free(home.context(), freed, bytes);
}

/// `bytes` bytes of a pool, from now on in the stream's order.
pub(in crate::memory) fn allocate_ordered(
    home: &StreamInner,
    pool: DriverPool,
    bytes: usize,
) -> GpuResult<u64> {
    let mut address = 0;
    let result = home.context().call("cuMemAllocFromPoolAsync", || {
        // SAFETY: `address` is writable, and pool and stream live and are of one device.
        unsafe { sys::cuMemAllocFromPoolAsync(&mut address, bytes, pool.0, home.handle()) }
    });
    counted(home.context(), result.map(|()| address), bytes)
}

/// Gives back what [`allocate_ordered`] gave, in the stream's order.
///
/// # Safety
/// As for [`free`].
pub(in crate::memory) unsafe fn free_ordered(home: &Arc<StreamInner>, address: u64, bytes: usize) {
    // SAFETY: the caller's promise: the stream's end is behind all uses.
    let free = || unsafe { sys::cuMemFreeAsync(address, home.handle()) };
    if home.context().release(free) {
        Usage::of(home.context()).remove(bytes);
    } else {
        // A driver that refuses to free in order has not freed; it may still free at once.
        // SAFETY: the caller's promise.
        unsafe { self::free(home, MemoryKind::Device, address, bytes) };
    }
}

/// Counts memory that was given, and tells how much there was if there was too little.
pub(in crate::memory) fn counted(
    context: &Context,
    result: GpuResult<u64>,
    bytes: usize,
) -> GpuResult<u64> {
    const OUT_OF_MEMORY: u32 = 2;
    match result {
        Ok(address) => {
            Usage::of(context).add(bytes);
            Ok(address)
        }
        Err(error) => match error.root() {
            GpuError::Driver(driver) if driver.code() == OUT_OF_MEMORY => {
                Err(out_of_memory(context, bytes))
            }
            _ => Err(error),
        },
    }
}

pub(in crate::memory) fn out_of_memory(context: &Context, requested: usize) -> GpuError {
    let (free, total) = context.memory_info().unwrap_or((0, context.info().total_memory_bytes));
    GpuError::OutOfMemory { requested, free, total, peak: Usage::of(context).peak() }
}

/// Allocates; if there is too little memory, once more after the context's own pool and the frees that
/// were put off have given back what they keep.
pub(in crate::memory) fn reclaiming(
    context: &Context,
    allocate: impl Fn() -> GpuResult<u64>,
) -> GpuResult<u64> {
    match allocate() {
        Err(GpuError::OutOfMemory { .. })
            if deferred_frees::free_pending(context) | ContextPool::of(context).trim(context) =>
        {
            allocate()
        }
        result => result,
    }
}

/// Allocates at once, if need be with what a persistent kernel keeps from going back to the driver.
pub(in crate::memory) fn allocate_or_reuse(
    home: &Arc<StreamInner>,
    kind: MemoryKind,
    bytes: usize,
) -> GpuResult<u64> {
    let context = home.context();
    match reclaiming(context, || allocate(context, kind, bytes)) {
        Err(error @ GpuError::OutOfMemory { .. }) => {
            deferred_frees::reuse(home, kind, bytes).ok_or(error)
        }
        result => result,
    }
}

/// A pool of the driver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DriverPool(sys::CUmemoryPool);

// SAFETY: the driver's functions for pools may be called from any thread; each call binds the
// context, and nothing behind the handle is touched without the driver.
unsafe impl Send for DriverPool {}
// SAFETY: as above.
unsafe impl Sync for DriverPool {}

impl DriverPool {
    /// A pool on the context's device that keeps up to `release_threshold` free bytes at each wait.
    fn new(context: &Context, release_threshold: u64) -> GpuResult<Self> {
        const NEEDED: GpuError = GpuError::Unsupported {
            what: "memory in a stream's order: use DeviceBuffer::zeroed, or a MemoryPool",
        };
        const NOT_SUPPORTED: u32 = 801;
        if !context.info().memory_pools {
            return Err(NEEDED);
        }
        let props = properties(context.info().ordinal);
        let mut handle = std::ptr::null_mut();
        let created = context.call("cuMemPoolCreate", || {
            // SAFETY: `handle` is writable, and the properties are complete.
            unsafe { sys::cuMemPoolCreate(&mut handle, &props) }
        });
        created.map_err(|error| match error.driver().map(|driver| driver.code()) {
            Some(NOT_SUPPORTED) => NEEDED,
            _ => error,
        })?;
        let pool = Self(handle);
        pool.set_release_threshold(context, release_threshold).inspect_err(|_| {
            pool.destroy(context);
        })?;
        Ok(pool)
    }

    /// Ends the pool. What was allocated lives on until it is freed.
    pub(crate) fn destroy(self, context: &Context) {
        // SAFETY: the pool is its owner's, who uses it no more.
        context.release(|| unsafe { sys::cuMemPoolDestroy(self.0) });
    }

    fn set_release_threshold(self, context: &Context, bytes: u64) -> GpuResult<()> {
        const THRESHOLD: i32 = sys::mempool_attribute::RELEASE_THRESHOLD;
        let mut bytes = bytes;
        let value = (&raw mut bytes).cast::<c_void>();
        context.call("cuMemPoolSetAttribute", || {
            // SAFETY: the pool lives, and this attribute is a number of 64 bits.
            unsafe { sys::cuMemPoolSetAttribute(self.0, THRESHOLD, value) }
        })
    }

    fn attribute(self, context: &Context, which: i32) -> GpuResult<u64> {
        let mut bytes = 0u64;
        let value = (&raw mut bytes).cast::<c_void>();
        context.call("cuMemPoolGetAttribute", || {
            // SAFETY: the pool lives, and the attributes of this file are numbers of 64 bits.
            unsafe { sys::cuMemPoolGetAttribute(self.0, which, value) }
        })?;
        Ok(bytes)
    }

    /// Waits for the device, so that what was freed is free, and gives all but `keep` bytes back. A panic stays
    /// for whoever waits for its stream.
    fn trim(self, context: &Context, keep_bytes: usize) -> GpuResult<()> {
        device_sync::wait(context)?;
        // SAFETY: the pool lives.
        context.call("cuMemPoolTrimTo", || unsafe { sys::cuMemPoolTrimTo(self.0, keep_bytes) })
    }

    fn open_to(self, context: &Context, peer: u32) -> GpuResult<()> {
        if peer == context.info().ordinal {
            return Ok(());
        }
        let access =
            sys::MemAccess { location: location(peer), flags: sys::mem_access::PROT_READWRITE };
        context.call("cuMemPoolSetAccess", || {
            // SAFETY: the pool lives, and there is one description.
            unsafe { sys::cuMemPoolSetAccess(self.0, &access, 1) }
        })
    }
}

fn location(ordinal: u32) -> sys::MemLocation {
    sys::MemLocation { kind: sys::mem_location_type::DEVICE, id: ordinal as i32 }
}

/// Of a pool of pinned memory of a device, for this process alone.
fn properties(ordinal: u32) -> sys::PoolProps {
    sys::PoolProps {
        kind: sys::mem_allocation_type::PINNED,
        handle_types: 0,
        location: location(ordinal),
        security: std::ptr::null_mut(),
        max_bytes: 0,
        usage: 0,
        reserved: [0; 54],
    }
}

/// The pool behind `DeviceBuffer::zeroed_async`: made at the first use, it keeps what is freed.
#[derive(Debug, Default)]
pub(crate) struct ContextPool(Mutex<Option<DriverPool>>);

impl ContextPool {
    /// That of `context`.
    pub(in crate::memory) fn of(context: &Context) -> &Self {
        context.state(Slot::StreamOrderedPool, Self::default)
    }

    pub(in crate::memory) fn get(&self, context: &Context) -> GpuResult<DriverPool> {
        let mut pool = self.lock();
        match *pool {
            Some(pool) => Ok(pool),
            None => Ok(*pool.insert(DriverPool::new(context, u64::MAX)?)),
        }
    }

    /// Gives what is kept back to the device. Whether anything may have come back.
    fn trim(&self, context: &Context) -> bool {
        let pool = *self.lock();
        pool.is_some_and(|pool| pool.trim(context, 0).is_ok())
    }

    /// Lets another device reach what comes from the pool.
    pub(in crate::memory) fn open_to(&self, context: &Context, peer: u32) -> GpuResult<()> {
        self.get(context)?.open_to(context, peer)
    }

    fn lock(&self) -> MutexGuard<'_, Option<DriverPool>> {
        lock(&self.0)
    }
}

impl ContextState for ContextPool {
    fn close(&self, context: &Context) {
        if let Some(pool) = self.lock().take() {
            pool.destroy(context);
        }
    }
}

/// `cuMemAlloc` and `cuMemFree`: memory of whatever device the stream is on. Freeing waits for the
/// stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct SynchronousMemory;

// SAFETY: the driver gives each byte to one owner, aligned to 256 bytes, and nobody has used it
// since all that used it was waited for.
unsafe impl MemoryResource for SynchronousMemory {
    type Kind = kind::Device;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        allocate_or_reuse(request.stream.inner(), MemoryKind::Device, request.bytes)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { free(stream.inner(), MemoryKind::Device, address, bytes) };
    }
}

/// A pool of the driver's own: memory is allocated and freed in the order of streams, and what is
/// freed is kept for later up to a threshold.
///
/// The driver finds out by itself which freed memory a stream may have, and lets it wait where
/// needed.
#[derive(Debug)]
pub struct StreamOrderedMemory {
    context: Arc<Context>,
    pool: DriverPool,
}

/// What a [`StreamOrderedMemory`] holds, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamOrderedUsage {
    /// Taken from the device now.
    pub reserved_bytes: u64,
    /// Taken from the device at most at one time.
    pub reserved_peak_bytes: u64,
    /// Handed out now, or freed by work that is still to run.
    pub used_bytes: u64,
    /// Handed out at most at one time.
    pub used_peak_bytes: u64,
}

impl StreamOrderedMemory {
    /// A pool on the device of `on`. Whenever a stream, an event or the device is waited for, it
    /// gives back what it keeps beyond `release_threshold_bytes`; with `u64::MAX` it keeps all
    /// until it is trimmed.
    ///
    /// # Errors
    /// [`Unsupported`](GpuError::Unsupported) on a device without such pools.
    pub fn new(on: &impl AsStream, release_threshold_bytes: u64) -> GpuResult<Arc<Self>> {
        let context = on.as_stream().inner().context().clone();
        let pool = DriverPool::new(&context, release_threshold_bytes)?;
        Ok(Arc::new(Self { context, pool }))
    }

    /// Changes what the pool keeps.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn set_release_threshold(&self, bytes: u64) -> GpuResult<()> {
        self.pool.set_release_threshold(&self.context, bytes)
    }

    /// Waits for the device, and gives all but `keep_bytes` of what is kept back to it.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn trim_to(&self, keep_bytes: usize) -> GpuResult<()> {
        self.pool.trim(&self.context, keep_bytes)
    }

    /// What the pool holds.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn usage(&self) -> GpuResult<StreamOrderedUsage> {
        use sys::mempool_attribute as A;
        let get = |attribute| self.pool.attribute(&self.context, attribute);
        Ok(StreamOrderedUsage {
            reserved_bytes: get(A::RESERVED_MEM_CURRENT)?,
            reserved_peak_bytes: get(A::RESERVED_MEM_HIGH)?,
            used_bytes: get(A::USED_MEM_CURRENT)?,
            used_peak_bytes: get(A::USED_MEM_HIGH)?,
        })
    }
}

// SAFETY: the driver gives each byte to one owner at a time, aligned to 256 bytes, in the order of
// the streams that it was freed and allocated on.
unsafe impl MemoryResource for StreamOrderedMemory {
    type Kind = kind::Device;

    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64> {
        let home = request.stream.inner();
        home.check_device(&self.context, "the stream")?;
        match allocate_ordered(home, self.pool, request.bytes) {
            Err(GpuError::OutOfMemory { .. }) if self.trim().is_ok() => {
                allocate_ordered(home, self.pool, request.bytes)
            }
            result => result,
        }
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { free_ordered(stream.inner(), address, bytes) };
    }

    fn trim(&self) -> GpuResult<()> {
        self.trim_to(0)
    }

    fn open_to(&self, peer: u32) -> GpuResult<()> {
        self.pool.open_to(&self.context, peer)
    }
}

impl Drop for StreamOrderedMemory {
    fn drop(&mut self) {
        let pool = self.pool;
        self.context.release_or_defer(move || {
            let DriverPool(handle) = { pool };
            // SAFETY: the pool is this owner's, who uses it no more.
            unsafe { sys::cuMemPoolDestroy(handle) }
        });
    }
}
