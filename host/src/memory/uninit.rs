//! Device memory that is not written yet, in safe code.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceWrite, RawSlice};

use super::buffer::DeviceBuffer;
use super::resource::DeviceMemoryResource;
use super::slice::{DeviceSlice, DeviceSliceMut};
use crate::error::GpuResult;
use crate::stream::AsStream;

/// An array of `T` in the device's memory whose elements are not written yet: `Box<[MaybeUninit<T>]>` on the device.
///
/// Allocating it writes nothing, unlike [`DeviceBuffer::zeroed`]. Kernels write it wherever they write a
/// [`DeviceBuffer`], as `DisjointSlice<T>`; neither the host nor a kernel that takes `&[T]` reads it. It becomes a
/// [`DeviceBuffer`] by what proves that every element was written:
///
/// | by | the proof |
/// |---|---|
/// | [`copy_from_host`](Self::copy_from_host), [`copy_from_device`](Self::copy_from_device) | a copy of the whole length |
/// | [`clear`](Self::clear), [`fill`](Self::fill) | one value everywhere |
/// | [`assume_init`](Self::assume_init) | the caller's promise, for a kernel that fills it: `unsafe` |
///
/// ```no_run
/// use ferrowarp::{Gpu, LaunchConfig, UninitBuffer};
/// use kernels_gpu::elementwise::vecadd;
/// # use ferrowarp::DeviceBuffer;
///
/// let gpu = Gpu::new()?;
/// let one = UninitBuffer::new(&gpu, 3)?.fill(1.0f32)?;
/// let two = UninitBuffer::new(&gpu, 3)?.copy_from_host(&[2.0f32; 3])?;
/// let mut sum = UninitBuffer::new(&gpu, 3)?;
/// vecadd::launch(&gpu, LaunchConfig::for_num_elems(3), &one, &two, &mut sum)?;
/// // SAFETY: the kernel has written all three elements.
/// let sum = unsafe { sum.assume_init() };
/// assert_eq!(sum.to_vec()?, [3.0; 3]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// What was not written is not read:
///
/// ```compile_fail,E0599
/// # let gpu = ferrowarp::Gpu::new()?;
/// ferrowarp::UninitBuffer::<f32>::new(&gpu, 3)?.to_vec()?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// ```compile_fail,E0277
/// # let gpu = ferrowarp::Gpu::new()?;
/// # let mut sum = ferrowarp::DeviceBuffer::<f32>::zeroed(&gpu, 3)?;
/// let words = ferrowarp::UninitBuffer::<f32>::new(&gpu, 3)?;
/// sum.copy_from_device(&words)?;
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// A kernel that reads such an element through `&mut` before it writes it gets a value that no one chose. The
/// emulator's `init` check reports it.
#[doc(alias = "MaybeUninit")]
#[doc(alias = "uninitialized")]
pub struct UninitBuffer<T: Pod> {
    buffer: DeviceBuffer<T>,
}

impl<T: Pod> UninitBuffer<T> {
    /// Memory for `len` elements.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn new(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: this type lends the elements to what writes them alone, until they are written.
        Ok(Self { buffer: unsafe { DeviceBuffer::uninitialized(on, len)? } })
    }

    /// Memory for `len` elements, allocated and freed in the order of the stream: see
    /// [`DeviceBuffer::zeroed_async`].
    ///
    /// # Errors
    /// As there.
    pub fn new_async(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        // SAFETY: as in `new`.
        Ok(Self { buffer: unsafe { DeviceBuffer::uninitialized_async(on, len)? } })
    }

    /// Memory for `len` elements from a resource, to which it goes back.
    ///
    /// # Errors
    /// What the resource returns.
    #[track_caller]
    pub fn new_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<Self> {
        // SAFETY: as in `new`.
        Ok(Self { buffer: unsafe { DeviceBuffer::uninitialized_in(memory, on, len)? } })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    /// The size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.buffer.size_bytes()
    }

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        self.buffer.as_device_ptr()
    }

    pub(super) fn buffer(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }

    /// The memory, borrowed to be written.
    #[must_use]
    pub fn as_uninit_slice(&mut self) -> UninitSlice<'_, T> {
        UninitSlice { memory: self.buffer.as_mut_slice() }
    }

    /// Copies `source` to the device: all elements are written.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `source` has another length; the fault of a kernel before.
    /// The memory is freed then.
    pub fn copy_from_host(mut self, source: &[T]) -> GpuResult<DeviceBuffer<T>> {
        self.as_uninit_slice().copy_from_host(source)?;
        Ok(self.buffer)
    }

    /// Copies another array, or a part of one, on the device: all elements are written. Does not wait.
    ///
    /// # Errors
    /// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `source` has another length,
    /// [`WrongDevice`](crate::GpuError::WrongDevice) if it is on another device. The memory is freed then.
    pub fn copy_from_device<'s>(
        mut self,
        source: impl Into<DeviceSlice<'s, T>>,
    ) -> GpuResult<DeviceBuffer<T>> {
        self.as_uninit_slice().copy_from_device(source)?;
        Ok(self.buffer)
    }

    /// Writes zeros to all elements. Does not wait.
    ///
    /// # Errors
    /// A driver's refusal. The memory is freed then.
    pub fn clear(mut self) -> GpuResult<DeviceBuffer<T>> {
        self.as_uninit_slice().clear()?;
        Ok(self.buffer)
    }

    /// Writes `value`, of 1, 2 or 4 bytes, to all elements: see [`DeviceSliceMut::fill`]. Does not wait.
    ///
    /// # Errors
    /// As there. The memory is freed then.
    pub fn fill(mut self, value: T) -> GpuResult<DeviceBuffer<T>> {
        self.as_uninit_slice().fill(value)?;
        Ok(self.buffer)
    }

    /// The array, whose elements were written.
    ///
    /// # Safety
    /// Each element was written by work that was enqueued before: by a launch with this memory, or with a part of it, as an
    /// argument, or by other work that the memory's stream comes after.
    #[must_use]
    pub unsafe fn assume_init(self) -> DeviceBuffer<T> {
        self.buffer
    }

    /// The same bytes for elements of another type.
    ///
    /// # Errors
    /// [`InvalidCast`](crate::GpuError::InvalidCast) if the bytes are not a whole number of aligned `U`. The memory is
    /// freed then.
    pub fn into_cast<U: Pod>(self) -> GpuResult<UninitBuffer<U>> {
        Ok(UninitBuffer { buffer: self.buffer.into_cast()? })
    }
}

/// Device memory that is not written yet, borrowed: `&mut [MaybeUninit<T>]` on the device. See [`UninitBuffer`].
///
/// What writes all of it takes it and returns it as a [`DeviceSliceMut`].
pub struct UninitSlice<'a, T: Pod> {
    memory: DeviceSliceMut<'a, T>,
}

impl<'a, T: Pod> UninitSlice<'a, T> {
    /// Memory that is written before it is read through the slice.
    pub(super) fn new(memory: DeviceSliceMut<'a, T>) -> Self {
        Self { memory }
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&mut self) -> DevicePtr<T> {
        self.memory.as_device_ptr()
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside.
    #[must_use]
    pub fn slice_mut(&mut self, range: impl RangeBounds<usize>) -> UninitSlice<'_, T> {
        UninitSlice { memory: self.memory.slice_mut(range) }
    }

    /// Two parts: the elements before `middle`, and the others.
    ///
    /// # Panics
    /// If `middle` is greater than the length.
    #[must_use]
    pub fn split_at_mut(self, middle: usize) -> (Self, Self) {
        let (low, high) = self.memory.split_at_mut(middle);
        (Self { memory: low }, Self { memory: high })
    }

    /// Copies `source` to the device: all elements are written.
    ///
    /// # Errors
    /// As [`UninitBuffer::copy_from_host`].
    pub fn copy_from_host(mut self, source: &[T]) -> GpuResult<DeviceSliceMut<'a, T>> {
        self.memory.copy_from_host(source)?;
        Ok(self.memory)
    }

    /// Copies another array, or a part of one, on the device: all elements are written. Does not wait.
    ///
    /// # Errors
    /// As [`UninitBuffer::copy_from_device`].
    pub fn copy_from_device<'s>(
        mut self,
        source: impl Into<DeviceSlice<'s, T>>,
    ) -> GpuResult<DeviceSliceMut<'a, T>> {
        self.memory.copy_from_device(source)?;
        Ok(self.memory)
    }

    /// Writes zeros to all elements. Does not wait.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn clear(mut self) -> GpuResult<DeviceSliceMut<'a, T>> {
        self.memory.clear()?;
        Ok(self.memory)
    }

    /// Writes `value`, of 1, 2 or 4 bytes, to all elements: see [`DeviceSliceMut::fill`]. Does not wait.
    ///
    /// # Errors
    /// As there.
    pub fn fill(mut self, value: T) -> GpuResult<DeviceSliceMut<'a, T>> {
        self.memory.fill(value)?;
        Ok(self.memory)
    }

    /// The memory, whose elements were written.
    ///
    /// # Safety
    /// As for [`UninitBuffer::assume_init`].
    #[must_use]
    pub unsafe fn assume_init(self) -> DeviceSliceMut<'a, T> {
        self.memory
    }

    /// These bytes for elements of another type, for as long as the borrow.
    ///
    /// # Errors
    /// [`InvalidCast`](crate::GpuError::InvalidCast) if the bytes are not a whole number of aligned `U`.
    pub fn into_cast<U: Pod>(self) -> GpuResult<UninitSlice<'a, U>> {
        Ok(UninitSlice { memory: self.memory.into_cast()? })
    }
}

impl<T: Pod> fmt::Debug for UninitBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.as_device_ptr().address();
        write!(f, "UninitBuffer({address:#x}, {} elements)", self.len())
    }
}

impl<T: Pod> fmt::Debug for UninitSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.memory.as_slice().as_device_ptr().address();
        write!(f, "UninitSlice({address:#x}, {} elements)", self.len())
    }
}

// SAFETY: the memory is that of the slice, whose borrow is exclusive. Its values are initialised as far as a kernel can
// know:
// 1. A kernel can read through the view before it writes. What it reads is what the memory holds: the driver's memory
//    always holds some bytes, those of an earlier owner for instance, and they do not change by being read.
// 2. Every bit pattern is a value of a `Pod` type, so that each of these bytes is a part of some value.
// 3. To a compiler, memory is uninitialised if it sees the allocation and no write. It compiles the kernel without its
//    launch, and the host's code without the memory, which the host never dereferences: neither sees an allocation.
// So such a read yields an arbitrary value, not undefined behaviour; the emulator's `init` check reports it.
unsafe impl<T: Pod> DeviceWrite<T> for UninitSlice<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.memory.raw_mut()
    }

    fn len(&self) -> usize {
        self.len()
    }
}

// SAFETY: as for the slice of all elements.
unsafe impl<T: Pod> DeviceWrite<T> for UninitBuffer<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.buffer.raw_mut()
    }

    fn len(&self) -> usize {
        self.len()
    }
}
