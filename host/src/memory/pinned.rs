//! Page-locked host memory: the device's copy engines read and write it on their own.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;

use super::allocation::{Allocation, Source};
use super::pending::{PinnedSource, PinnedTarget};
use super::resource::{MemoryResource, PinnedHostMemory, PinnedMemoryResource, kind};
use super::write_combined::WriteCombined;
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;
#[cfg(feature = "dlpack")]
use crate::stream::StreamInner;

/// How page-locked memory is made.
///
/// ```no_run
/// use ferrowarp::{Gpu, PinnedOptions};
///
/// let gpu = Gpu::new()?;
/// let shared = PinnedOptions::new().portable(true).buffer::<f32>(&gpu, 1024)?;
/// let outgoing = PinnedOptions::new().write_combined::<f32>(&gpu, 1024)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PinnedOptions {
    portable: bool,
}

impl PinnedOptions {
    /// Page-locked for one device.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether the memory is page-locked for every device of the process.
    #[must_use]
    pub fn portable(self, portable: bool) -> Self {
        Self { portable }
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// [`OutOfPinnedMemory`](GpuError::OutOfPinnedMemory), or another answer of the driver.
    pub fn buffer<T: Pod>(self, on: &impl AsStream, len: usize) -> GpuResult<PinnedBuffer<T>> {
        Ok(PinnedBuffer { memory: HostAllocation::zeroed(on, Arc::new(self.memory()), len)? })
    }

    /// `len` elements, all of them zero, that the host only writes.
    ///
    /// # Errors
    /// As [`buffer`](Self::buffer).
    pub fn write_combined<T: Pod>(
        self,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<WriteCombined<T>> {
        let memory = Arc::new(self.memory().write_combined());
        Ok(WriteCombined::new(HostAllocation::zeroed(on, memory, len)?))
    }

    fn memory(self) -> PinnedHostMemory {
        PinnedHostMemory::new().portable(self.portable)
    }
}

/// Page-locked memory that holds `len` values, and the stream that it was allocated on.
#[derive(Debug)]
pub(super) struct HostAllocation<T> {
    memory: Allocation<kind::Pinned>,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> HostAllocation<T> {
    #[track_caller]
    fn zeroed(
        on: &impl AsStream,
        memory: Arc<dyn MemoryResource<Kind = kind::Pinned>>,
        len: usize,
    ) -> GpuResult<Self> {
        // SAFETY: zero is a value of every `Pod` type, and the memory has room for `len` of them.
        Self::filled(on, memory, len, |start| unsafe { start.write_bytes(0, len) })
    }

    /// `fill` writes `len` values.
    #[track_caller]
    fn filled(
        on: &impl AsStream,
        memory: Arc<dyn MemoryResource<Kind = kind::Pinned>>,
        len: usize,
        fill: impl FnOnce(*mut T),
    ) -> GpuResult<Self> {
        let (operation, most) = ("page-locking memory", isize::MAX as usize);
        if len.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > most) {
            return Err(GpuError::SizeMismatch { operation, expected: most, found: len });
        }
        let home = on.as_stream().inner();
        let memory = Allocation::new::<T>(home, Source::Resource(memory), len)?;
        let own = Self { memory, len, values: PhantomData };
        // The host may write at once, by the promise of the resource, and no other code has the address.
        fill(own.as_ptr());
        Ok(own)
    }
}

impl<T> HostAllocation<T> {
    pub(super) fn as_ptr(&self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.memory.address() as usize)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

/// An array of `T` in page-locked host memory: a plain slice for the host, and what copies that do
/// not wait read and write at the bus's full speed.
///
/// Page-locked memory cannot be swapped out, and locking it is slow, so take little of it and keep it, by yourself or in
/// a [pool](super::resource::MemoryPool::pinned).
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu, PinnedBuffer};
///
/// let gpu = Gpu::new()?;
/// let mut device = DeviceBuffer::<f32>::zeroed(&gpu, 3)?;
/// let mut pinned = PinnedBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
/// pinned[0] = 4.0;
/// let pending = device.copy_from_pinned_async(&gpu, pinned)?; // the copy has the buffer now
/// let pinned = pending.wait()?; // and gives it back
/// assert_eq!(device.copy_to_pinned_async(&gpu, pinned)?.wait()?[..], [4.0, 2.0, 3.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[doc(alias = "HostAllocator")]
pub struct PinnedBuffer<T: Pod> {
    memory: HostAllocation<T>,
}

impl<T: Pod> PinnedBuffer<T> {
    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        PinnedOptions::new().buffer(on, len)
    }

    /// A copy of `values`.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        Self::from_slice_in(&Arc::new(PinnedHostMemory::new()), on, values)
    }

    /// A copy of `values` in memory of a resource, to which it goes back when the buffer is dropped.
    ///
    /// # Errors
    /// What the resource answers.
    #[track_caller]
    pub fn from_slice_in<R: PinnedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        values: &[T],
    ) -> GpuResult<Self> {
        let (source, len) = (values.as_ptr(), values.len());
        // SAFETY: the memory is new, and has room for `len` values.
        let fill = |start: *mut T| unsafe { start.copy_from_nonoverlapping(source, len) };
        Ok(Self { memory: HostAllocation::filled(on, memory.clone(), len, fill)? })
    }

    /// `len` elements, all of them zero, in memory of a resource: a pool, a limit, an allocator of your own.
    ///
    /// ```no_run
    /// use ferrowarp::memory::resource::{LimitAdaptor, MemoryPool};
    /// use ferrowarp::{Gpu, PinnedBuffer};
    ///
    /// let gpu = Gpu::new()?;
    /// let memory = LimitAdaptor::new(MemoryPool::pinned(&gpu), 64 << 20);
    /// for _ in 0..1000 {
    ///     let _frame = PinnedBuffer::<f32>::zeroed_in(&memory, &gpu, 5000)?; // page-locked once
    /// }
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// What the resource answers.
    #[track_caller]
    pub fn zeroed_in<R: PinnedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<Self> {
        Ok(Self { memory: HostAllocation::zeroed(on, memory.clone(), len)? })
    }
}

#[cfg(feature = "dlpack")]
impl<T: Pod> PinnedBuffer<T> {
    /// The stream that it was made on.
    pub(crate) fn home(&self) -> &Arc<StreamInner> {
        self.memory.memory.home()
    }
}

impl<T: Pod> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: the memory holds `len` values and is borrowed with `self`; a copy that writes it
        // owns it.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.memory.len()) }
    }
}

impl<T: Pod> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, exclusively; a copy that reads it owns it, or an `Arc` of it.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.memory.len()) }
    }
}

impl<T: Pod> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBuffer({:p}, {} elements)", self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: the memory stays where it is until the buffer is dropped, holds `len` values, and only its
// owner reaches it.
unsafe impl<T: Pod> PinnedSource<T> for PinnedBuffer<T> {
    fn source(&self) -> *const [T] {
        std::ptr::slice_from_raw_parts(self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> PinnedTarget<T> for PinnedBuffer<T> {
    fn target(&mut self) -> *mut [T] {
        std::ptr::slice_from_raw_parts_mut(self.memory.as_ptr(), self.memory.len())
    }
}

// SAFETY: nobody writes the buffer while an `Arc` of it is shared.
unsafe impl<T: Pod> PinnedSource<T> for Arc<PinnedBuffer<T>> {
    fn source(&self) -> *const [T] {
        (**self).source()
    }
}

/// One value of `T` in page-locked host memory.
pub struct PinnedBox<T: Pod> {
    buffer: PinnedBuffer<T>,
}

impl<T: Pod> PinnedBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    /// As [`PinnedOptions::buffer`].
    pub fn new(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        Ok(Self { buffer: PinnedBuffer::from_slice(on, slice::from_ref(value))? })
    }

    /// A copy of `value` in memory of a resource.
    ///
    /// # Errors
    /// What the resource answers.
    #[track_caller]
    pub fn new_in<R: PinnedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        value: &T,
    ) -> GpuResult<Self> {
        Ok(Self { buffer: PinnedBuffer::from_slice_in(memory, on, slice::from_ref(value))? })
    }
}

impl<T: Pod> Deref for PinnedBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.buffer[0]
    }
}

impl<T: Pod> DerefMut for PinnedBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.buffer[0]
    }
}

impl<T: Pod> fmt::Debug for PinnedBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PinnedBox({:p})", self.buffer.memory.as_ptr())
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> PinnedSource<T> for PinnedBox<T> {
    fn source(&self) -> *const [T] {
        self.buffer.source()
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> PinnedTarget<T> for PinnedBox<T> {
    fn target(&mut self) -> *mut [T] {
        self.buffer.target()
    }
}
