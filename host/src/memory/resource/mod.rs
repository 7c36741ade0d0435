//! Sources of memory: one interface, and its implementations.
//!
//! A buffer made with `_in` gets its memory from a [`MemoryResource`] of its [`kind`] and gives it back there when it
//! is dropped:
//!
//! | kind | bound | for |
//! |---|---|---|
//! | [`kind::Device`] | [`DeviceMemoryResource`] | [`DeviceBuffer`](super::DeviceBuffer) |
//! | [`kind::Pinned`] | [`PinnedMemoryResource`] | [`PinnedBuffer`](super::PinnedBuffer), [`PinnedBox`](super::PinnedBox) |
//! | [`kind::Unified`] | [`UnifiedMemoryResource`] | [`UnifiedBuffer`](super::UnifiedBuffer), [`UnifiedBox`](super::UnifiedBox) |
//!
//! The first four are the driver's memory. The pool and the adaptors stand on a resource of any kind, and on one another:
//!
//! | resource | what it does |
//! |---|---|
//! | [`SynchronousMemory`] | `cuMemAlloc`, `cuMemFree` |
//! | [`StreamOrderedMemory`] | a pool of the driver's own |
//! | [`PinnedHostMemory`] | `cuMemHostAlloc`, `cuMemFreeHost` |
//! | [`ManagedMemory`] | `cuMemAllocManaged`, `cuMemFree` |
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
mod host;
pub mod kind;
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
pub use host::{ManagedMemory, PinnedHostMemory};
use kind::ResourceKind;
pub use pool::{MemoryPool, PoolStatistics};

/// A source of memory of one kind: an allocator of your own, the driver, or a pool or an adaptor over another resource.
///
/// # Safety
/// `allocate` returns the first address of at least as many bytes as are asked for, aligned to 256 bytes. They are the
/// caller's alone until `deallocate`. By the [`Kind`](Self::Kind) they are
/// - [`kind::Device`]: memory of the stream's device. Work that is queued on the stream from now on may use them, and
///   no work uses them that was queued by earlier owners.
/// - [`kind::Unified`]: managed memory, of which the same holds. The host may use them by the same address as soon as
///   the work is done that the stream has now.
/// - [`kind::Pinned`]: page-locked memory of the host, which it may use at once: no work uses them.
pub unsafe trait MemoryResource: fmt::Debug + Send + Sync {
    /// The kind of its memory.
    type Kind: ResourceKind;

    /// Memory, to be used in the order of the request's stream. Never asked for 0 bytes.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), for pinned memory
    /// [`OutOfPinnedMemory`](crate::GpuError::OutOfPinnedMemory), or another refusal of the driver.
    fn allocate(&self, request: &AllocationRequest<'_>) -> GpuResult<u64>;

    /// Takes memory back. It is called in `drop`, so it neither fails nor panics.
    ///
    /// # Safety
    /// The memory came from `allocate` of this resource, with as many bytes and of the same device,
    /// and is not used again. All work that uses it is queued on `stream`, or `stream` waits for it; work that uses
    /// pinned memory is over.
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

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident: $kind:ident;)*) => {$(
        $(#[$doc])*
        pub trait $name: MemoryResource<Kind = kind::$kind> {}

        impl<R: MemoryResource<Kind = kind::$kind> + ?Sized> $name for R {}
    )*};
}

kinds! {
    /// A [`MemoryResource`] of [`kind::Device`], which implements this trait by itself: a source of device memory.
    DeviceMemoryResource: Device;
    /// A [`MemoryResource`] of [`kind::Pinned`], which implements this trait by itself: a source of page-locked host
    /// memory.
    #[doc(alias = "HostAllocator")]
    PinnedMemoryResource: Pinned;
    /// A [`MemoryResource`] of [`kind::Unified`], which implements this trait by itself: a source of managed memory.
    #[doc(alias = "UnifiedAllocator")]
    UnifiedMemoryResource: Unified;
}

/// What is asked of a [`MemoryResource`].
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
