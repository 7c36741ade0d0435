//! Arrays on the device.

use std::fmt;
use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, DeviceWrite, RawSlice};

use super::allocation::{Allocation, Source};
use super::resource::DeviceMemoryResource;
use super::shapes::{lengths, shapes};
use super::slice::{DeviceSlice, DeviceSliceMut, GridMut, PitchedMut, VolumeMut, cast_len};
use crate::deferred_frees::MemoryKind;
use crate::error::GpuResult;
use crate::stream::{AsStream, StreamInner};

/// Allocated by `cuMemAlloc`.
const DEVICE: Source = Source::Driver(MemoryKind::Device);

/// An array of `T` in the device's memory. [`DeviceVec`](super::DeviceVec) is one that grows, and
/// [`UninitBuffer`](super::UninitBuffer) one that is not written yet.
///
/// | made by | allocates | when it is dropped |
/// |---|---|---|
/// | `zeroed`, `from_slice` | at once | waits for the stream that it was made on |
/// | `zeroed_async`, `from_slice_async` | in the order of the stream | freed in that order; waits for nothing |
/// | `zeroed_in`, `from_slice_in` | as the [resource](super::resource) does | as the resource does |
///
/// ```no_run
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let mut buffer = DeviceBuffer::from_slice(&gpu, &[1.0f32, 2.0, 3.0])?;
/// buffer.slice_mut(1..).copy_from_host(&[5.0, 6.0])?;
/// assert_eq!(buffer.to_vec()?, [1.0, 5.0, 6.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct DeviceBuffer<T: Pod> {
    memory: Allocation,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> DeviceBuffer<T> {
    /// A copy of `values`.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized(on, values.len())? };
        buffer.copy_from_host(values)?;
        Ok(buffer)
    }

    /// A copy of `values`, whose uses that stream orders.
    pub(crate) fn at_home(home: &Arc<StreamInner>, values: &[T]) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::from_source(home, DEVICE, values.len())? };
        buffer.copy_from_host(values)?;
        Ok(buffer)
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized(on, len)? };
        buffer.clear()?;
        Ok(buffer)
    }

    /// `len` elements of unknown content.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    ///
    /// # Safety
    /// Each element is written before it is read, on the host or by a kernel.
    pub unsafe fn uninitialized(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::from_source(on.as_stream().inner(), DEVICE, len) }
    }

    /// `len` elements, all of them zero, allocated and freed in the order of the stream: neither this
    /// nor the drop waits for anything.
    ///
    /// The memory comes from a pool of the driver that keeps what is freed until memory runs out;
    /// [`StreamOrderedMemory`](super::resource::StreamOrderedMemory) is such a pool of your own.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or [`Unsupported`](crate::GpuError::Unsupported)
    /// on a device without such pools.
    pub fn zeroed_async(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized_async(on, len)? };
        buffer.clear()?;
        Ok(buffer)
    }

    /// `len` elements of unknown content, allocated and freed in the order of the stream: see
    /// [`zeroed_async`](Self::zeroed_async).
    ///
    /// # Errors
    /// As [`zeroed_async`](Self::zeroed_async).
    ///
    /// # Safety
    /// Each element is written before it is read, on the host or by a kernel.
    pub unsafe fn uninitialized_async(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: the caller's promise.
        unsafe { Self::from_source(on.as_stream().inner(), Source::StreamOrdered, len) }
    }

    /// Another buffer with the same elements, on the same stream and in memory of the device's own, wherever
    /// this one's comes from. The copy is queued.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn try_clone(&self) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut copy = unsafe { Self::from_source(self.memory.home(), DEVICE, self.len)? };
        copy.copy_from_device(self)?;
        Ok(copy)
    }

    /// A copy of `values` in memory of a resource.
    ///
    /// # Errors
    /// What the resource answers, or the fault of a kernel before.
    #[track_caller]
    pub fn from_slice_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        values: &[T],
    ) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized_in(memory, on, values.len())? };
        buffer.copy_from_host(values)?;
        Ok(buffer)
    }

    /// `len` elements, all of them zero, in memory of a resource. The memory goes back there when the
    /// buffer is dropped.
    ///
    /// # Errors
    /// What the resource answers.
    #[track_caller]
    pub fn zeroed_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<Self> {
        // SAFETY: all elements are written next, or the buffer is dropped.
        let mut buffer = unsafe { Self::uninitialized_in(memory, on, len)? };
        buffer.clear()?;
        Ok(buffer)
    }

    /// `len` elements of unknown content in memory of a resource.
    ///
    /// # Errors
    /// What the resource answers.
    ///
    /// # Safety
    /// Each element is written before it is read, on the host or by a kernel.
    #[track_caller]
    pub unsafe fn uninitialized_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<Self> {
        let source = Source::Resource(memory.clone());
        // SAFETY: the caller's promise.
        unsafe { Self::from_source(on.as_stream().inner(), source, len) }
    }

    /// `len` elements of unknown content, whose uses that stream orders.
    ///
    /// # Safety
    /// Each element is written before it is read.
    #[track_caller]
    unsafe fn from_source(home: &Arc<StreamInner>, source: Source, len: usize) -> GpuResult<Self> {
        let memory = Allocation::new::<T>(home, source, len)?;
        // SAFETY: the caller's promise.
        Ok(unsafe { Self::of_memory(memory, len) })
    }

    /// The first `len` elements of memory that holds as many or more.
    ///
    /// # Safety
    /// Each element is written before it is read.
    pub(super) unsafe fn of_memory(memory: Allocation, len: usize) -> Self {
        Self { memory, len, values: PhantomData }
    }

    pub(super) fn memory(&self) -> &Allocation {
        &self.memory
    }

    pub(super) fn memory_mut(&mut self) -> &mut Allocation {
        &mut self.memory
    }

    /// # Safety
    /// The memory holds `len` elements or more, and each of them is written before it is read.
    pub(super) unsafe fn set_len(&mut self, len: usize) {
        self.len = len;
    }

    /// The same bytes as another type. They keep their home and go back where they come from.
    pub(super) fn into_cast<U: Pod>(self) -> GpuResult<DeviceBuffer<U>> {
        let len = cast_len::<T, U>(self.memory.address(), self.len)?;
        Ok(DeviceBuffer { memory: self.memory, len, values: PhantomData })
    }

    lengths!();

    /// The size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.memory.address())
    }

    /// The whole array, to be read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: `self` is borrowed for as long as the slice, and holds `len` values.
        unsafe { DeviceSlice::new(self.memory.home(), self.memory.address(), self.len) }
    }

    /// The whole array, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: `self` is borrowed exclusively for as long as the slice, and holds `len` values.
        unsafe { DeviceSliceMut::new(self.memory.home(), self.memory.address(), self.len) }
    }

    /// A part, to be read.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice(&self, range: impl RangeBounds<usize>) -> DeviceSlice<'_, T> {
        self.as_slice().slice(range)
    }

    /// A part, to be written.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> DeviceSliceMut<'_, T> {
        self.as_mut_slice().narrowed(range)
    }

    shapes!(as_mut_slice);

    /// Copies `source` to the device.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `source` has another length; the fault of
    /// a kernel before.
    pub fn copy_from_host(&mut self, source: &[T]) -> GpuResult<()> {
        self.as_mut_slice().copy_from_host(source)
    }

    /// Copies another array, or a part of one, on the device. Does not wait.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `source` has another length,
    /// [`WrongDevice`](crate::GpuError::WrongDevice) if it is on another device.
    pub fn copy_from_device<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> GpuResult<()> {
        self.as_mut_slice().copy_from_device(source)
    }

    /// Copies an array of another device, or of this one, in the order of both. Does not wait, and
    /// needs no access of one device to the other.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `source` has another length.
    pub fn copy_from_peer<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> GpuResult<()> {
        self.as_mut_slice().copy_from_peer(source)
    }

    /// Copies the elements to the host.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `destination` has another length; the
    /// fault of a kernel before.
    pub fn copy_to_host(&self, destination: &mut [T]) -> GpuResult<()> {
        self.as_slice().copy_to_host(destination)
    }

    /// The elements, copied to the host.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn to_vec(&self) -> GpuResult<Vec<T>> {
        self.as_slice().to_vec()
    }

    /// Fills the array with zeros. Does not wait.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn clear(&mut self) -> GpuResult<()> {
        self.as_mut_slice().clear()
    }
}

impl<T: Pod> fmt::Debug for DeviceBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.memory.address();
        write!(f, "DeviceBuffer({address:#x}, {} elements)", self.len)
    }
}

// SAFETY: the buffer holds `len` values; a kernel's uses are ordered with all later ones, the end
// of the memory included, through the home.
unsafe impl<T: Pod> DeviceRead<T> for DeviceBuffer<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

// SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for DeviceBuffer<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len()
    }
}
