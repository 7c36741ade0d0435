//! Memory that host and device share by one address; the driver moves it to where it is used.
//!
//! The host sees it only behind a wait for all kernels that were given it, and no kernel can be
//! given it to write while the host looks at it, so the two cannot race.

use std::fmt;
use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, RawSlice};

use super::allocation::{Allocation, Source};
use super::resource::{UnifiedMemoryResource, kind};
use super::shapes::{argument, lengths, one_value, shapes};
use super::slice::{DeviceSlice, DeviceSliceMut, GridMut, PitchedMut, VolumeMut};
use crate::deferred_frees::MemoryKind;
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

/// An array of `T` that host and kernels use in place, in memory of the driver, or with `_in` of a pool or an allocator
/// of your own.
///
/// ```no_run
/// use ferrowarp::{Gpu, UnifiedBuffer};
///
/// let gpu = Gpu::new()?;
/// let mut buffer = UnifiedBuffer::<u32>::zeroed(&gpu, 4)?;
/// buffer.as_mut_slice()?[2] = 7;
/// assert_eq!(buffer.as_slice()?, [0, 0, 7, 0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[doc(alias = "UnifiedAllocator")]
pub struct UnifiedBuffer<T: Pod> {
    memory: Allocation<kind::Unified>,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> UnifiedBuffer<T> {
    /// A copy of `values`.
    ///
    /// # Errors
    /// [`OutOfMemory`](GpuError::OutOfMemory), or [`Unsupported`](GpuError::Unsupported) on a
    /// device that does not let host and kernels use such memory at the same time.
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        let mut buffer = Self::filled_later(on, values.len())?;
        // SAFETY: no kernel knows the memory yet, and it has room for `values`.
        unsafe { buffer.host_mut().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(buffer)
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        let mut buffer = Self::filled_later(on, len)?;
        // SAFETY: no kernel knows the memory yet, it has room for `len` elements, and zero is a
        // value of every `Pod` type.
        unsafe { buffer.host_mut().write_bytes(0, len) };
        Ok(buffer)
    }

    /// A copy of `values` in memory of a resource, to which it goes back when the buffer is dropped. Waits for the
    /// stream, whose work may still use the memory of an earlier owner; the drop waits for nothing, unless the resource
    /// does.
    ///
    /// # Errors
    /// What the resource answers, [`Unsupported`](GpuError::Unsupported) as for [`from_slice`](Self::from_slice), or
    /// the fault of a kernel before.
    #[track_caller]
    pub fn from_slice_in<R: UnifiedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        values: &[T],
    ) -> GpuResult<Self> {
        let mut buffer = Self::from_source(on, Source::Resource(memory.clone()), values.len())?;
        buffer.as_mut_slice()?.copy_from_slice(values);
        Ok(buffer)
    }

    /// `len` elements in memory of a resource, all set to zero in the order of the stream: waits for nothing.
    ///
    /// Memory that a pool hands out again keeps the advice of its earlier owner; see [`advise`](Self::advise).
    ///
    /// ```no_run
    /// use ferrowarp::memory::resource::{MemoryPool, StatisticsAdaptor};
    /// use ferrowarp::{Gpu, UnifiedBuffer};
    ///
    /// let gpu = Gpu::new()?;
    /// let memory = StatisticsAdaptor::new(MemoryPool::unified(&gpu));
    /// let scratch = UnifiedBuffer::<f32>::zeroed_in(&memory, &gpu, 1000)?;
    /// assert_eq!(memory.statistics().current_bytes, 4000);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`from_slice_in`](Self::from_slice_in).
    #[track_caller]
    pub fn zeroed_in<R: UnifiedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len: usize,
    ) -> GpuResult<Self> {
        let mut buffer = Self::from_source(on, Source::Resource(memory.clone()), len)?;
        buffer.as_device_slice_mut().clear()?;
        Ok(buffer)
    }

    /// Memory that no work uses. The caller fills it before other code sees it.
    fn filled_later(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        Self::from_source(on, Source::Driver(MemoryKind::Managed), len)
    }

    #[track_caller]
    fn from_source(
        on: &impl AsStream,
        source: Source<kind::Unified>,
        len: usize,
    ) -> GpuResult<Self> {
        let home = on.as_stream().inner();
        if !home.context().info().concurrent_managed_access {
            let what = "unified memory that host and kernels use at once: use a DeviceBuffer";
            return Err(GpuError::Unsupported { what });
        }
        let memory = Allocation::new::<T>(home, source, len)?;
        Ok(Self { memory, len, values: PhantomData })
    }

    pub(super) fn memory(&self) -> &Allocation<kind::Unified> {
        &self.memory
    }

    fn host(&self) -> *const T {
        self.memory.address() as *const T
    }

    fn host_mut(&mut self) -> *mut T {
        self.memory.address() as *mut T
    }

    lengths!();

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.memory.address())
    }

    /// The elements on the host, after all kernels that were given them.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn as_slice(&self) -> GpuResult<&[T]> {
        self.wait()?;
        // SAFETY: the address is the host's too and holds `len` values. Kernels that wrote them
        // are done, and none can be given them to write while `self` is borrowed.
        Ok(unsafe { slice::from_raw_parts(self.host(), self.len) })
    }

    /// The elements on the host, to be written, after all kernels that were given them.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn as_mut_slice(&mut self) -> GpuResult<&mut [T]> {
        self.wait()?;
        // SAFETY: as above; kernels that read them are done too, and none can be given them at all
        // while `self` is borrowed exclusively.
        Ok(unsafe { slice::from_raw_parts_mut(self.host_mut(), self.len) })
    }

    /// The whole array, to be read by kernels and copies.
    #[must_use]
    pub fn as_device_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: `self` is borrowed for as long as the slice, and holds `len` values.
        unsafe { DeviceSlice::new(self.memory.home(), self.memory.address(), self.len) }
    }

    /// The whole array, to be written by kernels and copies.
    #[must_use]
    pub fn as_device_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: `self` is borrowed exclusively for as long as the slice, and holds `len` values.
        unsafe { DeviceSliceMut::new(self.memory.home(), self.memory.address(), self.len) }
    }

    shapes!(as_device_slice_mut);

    /// All uses are ordered before the home's end (see `stream`).
    fn wait(&self) -> GpuResult<()> {
        if self.len * size_of::<T>() == 0 {
            return Ok(());
        }
        self.memory.home().synchronize()
    }
}

impl<T: Pod> fmt::Debug for UnifiedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnifiedBuffer({:#x}, {} elements)", self.memory.address(), self.len)
    }
}

argument!(UnifiedBuffer);

/// One value of `T` that host and kernels use in place.
pub struct UnifiedBox<T: Pod> {
    buffer: UnifiedBuffer<T>,
}

impl<T: Pod> UnifiedBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    /// As [`UnifiedBuffer::from_slice`].
    pub fn new(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        let buffer = UnifiedBuffer::from_slice(on, slice::from_ref(value))?;
        Ok(Self { buffer })
    }

    /// A value of zero bytes. Of an array, `get_mut` lends all elements after one wait:
    ///
    /// ```
    /// use ferrowarp::{Gpu, UnifiedBox};
    ///
    /// let mut data = UnifiedBox::<[f32; 1024]>::zeroed(&Gpu::new()?)?;
    /// let data = data.get_mut()?;
    /// data[0] = 1.0;
    /// data.iter_mut().for_each(|x| *x += 1.0);
    /// assert_eq!(data[..3], [2.0, 1.0, 1.0]);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// As [`UnifiedBuffer::zeroed`].
    pub fn zeroed(on: &impl AsStream) -> GpuResult<Self> {
        Ok(Self { buffer: UnifiedBuffer::zeroed(on, 1)? })
    }

    /// A copy of `value` in memory of a resource: see [`UnifiedBuffer::from_slice_in`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn new_in<R: UnifiedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        value: &T,
    ) -> GpuResult<Self> {
        Ok(Self { buffer: UnifiedBuffer::from_slice_in(memory, on, slice::from_ref(value))? })
    }

    /// A value of zero bytes in memory of a resource: see [`UnifiedBuffer::zeroed_in`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn zeroed_in<R: UnifiedMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
    ) -> GpuResult<Self> {
        Ok(Self { buffer: UnifiedBuffer::zeroed_in(memory, on, 1)? })
    }

    pub(super) fn buffer(&self) -> &UnifiedBuffer<T> {
        &self.buffer
    }
}

one_value!(UnifiedBox);
