//! Sources of device memory: one interface, and its implementations.
//!
//! A buffer made with `_in` gets its memory from a [`DeviceMemoryResource`] and gives it back there
//! when it is dropped. Resources stand on one another:
//!
//! | resource | what it does |
//! |---|---|
//! | [`SynchronousMemory`] | `cuMemAlloc`, `cuMemFree` |
//! | [`StreamOrderedMemory`] | a pool of the driver's own |
//! | [`MemoryPool`] | keeps freed blocks of another resource; under 200 ns |
//! | [`StatisticsAdaptor`] | counts |
//! | [`TrackingAdaptor`] | remembers which line of the program has which memory |
//! | [`LimitAdaptor`] | refuses more than a given number of bytes |
//! | [`FailureAdaptor`] | fails the n-th allocation: for tests |
//! | [`LogAdaptor`] | writes a log that can be replayed |
//! | [`PoisonAdaptor`] | fills new and freed memory with a pattern |
//!
//! ```no_run
//! use ferrowarp::memory::resource::{MemoryPool, TrackingAdaptor};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let pool = MemoryPool::new(&gpu);
//! let memory = TrackingAdaptor::new(pool.clone());
//! let buffer = DeviceBuffer::<f32>::zeroed_in(&memory, &gpu, 1000)?;
//! print!("{}", memory.report()); // 4000 bytes at 0x7f… from src/main.rs:…
//! drop(buffer);
//! assert_eq!(pool.statistics().returns, 1);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

mod adaptors;
mod driver;
mod pool;

use std::ffi::c_void;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use crate::error::GpuResult;
use crate::stream::{AsStream, StreamInner};

pub use crate::deferred_frees::DeferredFrees;
pub use adaptors::{
    AllocationLog, AllocationStatistics, FailureAdaptor, LimitAdaptor, LogAdaptor, LogSyntaxError,
    PoisonAdaptor, StatisticsAdaptor, TrackedAllocation, TrackingAdaptor,
};
pub(super) use driver::{
    ContextPool, allocate_or_reuse, allocate_ordered, counted, free, free_ordered, out_of_memory,
    reclaiming,
};
pub use driver::{StreamOrderedMemory, StreamOrderedUsage, SynchronousMemory};
pub use pool::{MemoryPool, PoolStatistics};

/// A source of device memory, in the order of streams.
///
/// # Safety
/// `allocate` returns the first address of at least as many bytes of memory of the stream's device,
/// aligned to 256 bytes. They are the caller's alone until `deallocate`: work that is queued on the
/// stream from now on may use them, and no work uses them that was queued by earlier owners.
pub unsafe trait DeviceMemoryResource: fmt::Debug + Send + Sync {
    /// Memory, to be used in the order of the request's stream. Never asked for 0 bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or another refusal of the driver.
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64>;

    /// Takes memory back. It is called in `drop`, so it neither fails nor panics.
    ///
    /// # Safety
    /// The memory came from `allocate` of this resource, with as many bytes and of the same device,
    /// and is not used again. All work that uses it is queued on `stream`, or `stream` waits for it.
    unsafe fn deallocate(&self, stream: StreamRef<'_>, address: u64, bytes: usize);

    /// Gives what is kept for later back to the device.
    ///
    /// # Errors
    /// The fault of a kernel before.
    fn trim(&self) -> GpuResult<()> {
        Ok(())
    }

    /// Lets the device of that number reach the memory, once access between the devices is enabled.
    ///
    /// # Errors
    /// A driver's refusal.
    fn open_to(&self, _peer: u32) -> GpuResult<()> {
        Ok(())
    }
}

/// What is asked of a [`DeviceMemoryResource`].
#[derive(Clone, Copy, Debug)]
pub struct AllocationRequest<'a> {
    /// The stream that orders the uses of the memory.
    pub stream: StreamRef<'a>,
    /// How many bytes, above 0.
    pub bytes: usize,
    /// The caller.
    pub caller: &'static Location<'static>,
}

/// A stream, as the sources of memory know it.
#[derive(Clone, Copy, Debug)]
pub struct StreamRef<'a>(&'a Arc<StreamInner>);

impl<'a> StreamRef<'a> {
    pub(crate) fn new(inner: &'a Arc<StreamInner>) -> Self {
        Self(inner)
    }

    pub(crate) fn inner(&self) -> &'a Arc<StreamInner> {
        self.0
    }

    /// The stream of `on`.
    pub fn of(on: &'a impl AsStream) -> Self {
        Self(on.as_stream().inner())
    }

    /// The driver's handle: it identifies the stream.
    #[must_use]
    pub fn as_raw(&self) -> *mut c_void {
        self.0.export_handle().cast()
    }

    /// The number of the stream's device.
    #[must_use]
    pub fn device(&self) -> u32 {
        self.0.context().info().ordinal
    }
}
