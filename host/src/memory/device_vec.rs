//! Arrays on the device that grow.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};

use super::allocation::Allocation;
use super::buffer::DeviceBuffer;
use super::slice::{DeviceSlice, DeviceSliceMut};
use super::uninit::UninitSlice;
use crate::error::{GpuError, GpuResult};
use crate::stream::AsStream;

/// An array of `T` in the device's memory that grows: what `Vec` is to a boxed slice, this is to a [`DeviceBuffer`].
///
/// It has memory for [`capacity`](Self::capacity) elements, of which the first `len` are there. Kernels and copies take
/// those: it is a kernel's argument, and derefs to a [`DeviceBuffer`] of them, with all of its methods.
///
/// From 2 MiB on it grows in place where the device has virtual memory (`cuMemAddressReserve`, `cuMemMap`): it reserves
/// addresses for as much memory as the device has, and maps memory at them as it grows, so that its elements stay where
/// they are and no work is waited for. A smaller one, one on a device without virtual memory, and one whose memory is
/// that of a [resource](super::resource), grows by new memory and a copy, both in the order of the stream; kernels that
/// were launched before still use the old memory, which is freed after them.
///
/// Growing takes at least twice the capacity, or what is needed where there is no memory for that. If there is none for
/// that either, the error leaves the vector as it was.
///
/// ```no_run
/// use ferrowarp::{DeviceVec, Gpu, LaunchConfig};
/// use kernels_gpu::elementwise::saxpy;
///
/// let gpu = Gpu::new()?;
/// let mut x = DeviceVec::with_capacity(&gpu, 1000)?;
/// x.copy_from_host(&[1.0f32, 2.0])?; // fills a part of the memory
/// x.extend_from_slice(&[3.0; 2000])?; // grows
/// let mut y = DeviceVec::from_slice(&gpu, &[0.5; 2002])?;
/// saxpy::launch(&gpu, LaunchConfig::for_num_elems(x.len()), 2.0, &x, &mut y)?;
/// y.truncate(3);
/// assert_eq!(y.to_vec()?, [2.5, 4.5, 6.5]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
#[doc(alias = "DeviceArray")]
pub struct DeviceVec<T: Pod> {
    buffer: DeviceBuffer<T>,
}

impl<T: Pod> DeviceVec<T> {
    /// No elements, and memory for `capacity` or more.
    ///
    /// # Errors
    /// [`OutOfMemory`](GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn with_capacity(on: &impl AsStream, capacity: usize) -> GpuResult<Self> {
        let memory = Allocation::growable::<T>(on.as_stream().inner(), capacity)?;
        // SAFETY: there is no element yet.
        Ok(Self { buffer: unsafe { DeviceBuffer::of_memory(memory, 0) } })
    }

    /// A copy of `values`.
    ///
    /// # Errors
    /// As [`with_capacity`](Self::with_capacity).
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        let mut vec = Self::with_capacity(on, values.len())?;
        vec.copy_from_host(values)?;
        Ok(vec)
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

    /// The number of elements for which there is memory; of a type without a size, `usize::MAX`.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.buffer.memory().bytes().checked_div(size_of::<T>()).unwrap_or(usize::MAX)
    }

    /// Makes room for `additional` more elements. Does not wait.
    ///
    /// # Errors
    /// [`OutOfMemory`](GpuError::OutOfMemory), a driver's refusal; a capture of a graph, in which no memory is
    /// allocated. The vector is then as before.
    #[doc(alias = "grow")]
    #[track_caller]
    pub fn reserve(&mut self, additional: usize) -> GpuResult<()> {
        let (capacity, needed) = (self.capacity(), self.len().saturating_add(additional));
        if needed <= capacity {
            return Ok(());
        }
        let twice = capacity.saturating_mul(2);
        match self.grow_to(needed.max(twice)) {
            Err(error) if is_out_of_memory(&error) && needed < twice => self.grow_to(needed),
            result => result,
        }
    }

    /// Makes the capacity `capacity` or more, which is more than now.
    #[track_caller]
    fn grow_to(&mut self, capacity: usize) -> GpuResult<()> {
        if self.buffer.memory_mut().grow_in_place::<T>(capacity)? {
            return Ok(());
        }
        let memory = self.buffer.memory().larger::<T>(capacity)?;
        // SAFETY: all elements are written next, or the memory is dropped.
        let mut larger = unsafe { DeviceBuffer::of_memory(memory, self.len()) };
        larger.copy_from_device(&self.buffer)?;
        // The copy and all earlier uses come before the end of the old memory, which its home orders.
        self.buffer = larger;
        Ok(())
    }

    /// The memory after the elements, for kernels and copies to write; [`set_len`](Self::set_len) makes elements of it.
    #[must_use]
    pub fn spare_capacity_mut(&mut self) -> UninitSlice<'_, T> {
        self.memory_after(self.len())
    }

    /// Makes the length `len`, without a write.
    ///
    /// # Safety
    /// `len` is not greater than the capacity, and each element up to there was written by work that was enqueued before.
    pub unsafe fn set_len(&mut self, len: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.buffer.set_len(len) };
    }

    /// Copies `source` to the device, in place of all elements: the length becomes that of `source`.
    ///
    /// # Errors
    /// [`CapacityExceeded`](GpuError::CapacityExceeded) if `source` is longer than the capacity, and nothing is copied;
    /// the fault of a kernel before. The length is then as before.
    #[doc(alias = "copy_from")]
    pub fn copy_from_host(&mut self, source: &[T]) -> GpuResult<()> {
        self.replace("copying from the host", source.len(), |all| all.copy_from_host(source))
    }

    /// Copies another array, or a part of one, on the device, in place of all elements: the length becomes that of
    /// `source`. Does not wait.
    ///
    /// # Errors
    /// [`CapacityExceeded`](GpuError::CapacityExceeded) if `source` is longer than the capacity,
    /// [`WrongDevice`](GpuError::WrongDevice) if it is on another device. The length is then as before.
    pub fn copy_from_device<'s>(&mut self, source: impl Into<DeviceSlice<'s, T>>) -> GpuResult<()> {
        let source = source.into();
        self.replace("copying on the device", source.len(), |all| all.copy_from_device(source))
    }

    /// Appends `values`, which are copied to the device. Grows if need be.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve), or the fault of a kernel before. The elements are then as before.
    #[doc(alias = "push_slice")]
    #[track_caller]
    pub fn extend_from_slice(&mut self, values: &[T]) -> GpuResult<()> {
        self.append(values.len(), |spare| spare.copy_from_host(values))
    }

    /// Appends the elements of another array, or of a part of one, on the device. Grows if need be. Does not wait.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve); [`WrongDevice`](GpuError::WrongDevice) if `source` is on another device. The
    /// elements are then as before.
    #[track_caller]
    pub fn extend_from_device<'s>(
        &mut self,
        source: impl Into<DeviceSlice<'s, T>>,
    ) -> GpuResult<()> {
        let source = source.into();
        self.append(source.len(), |spare| spare.copy_from_device(source))
    }

    /// Makes the length `len`: appends zeros, or removes elements at the end. Grows if need be. Does not wait.
    ///
    /// # Errors
    /// As [`reserve`](Self::reserve). The elements are then as before.
    #[track_caller]
    pub fn resize_zeroed(&mut self, len: usize) -> GpuResult<()> {
        self.append(len.saturating_sub(self.len()), |spare| spare.clear())?;
        self.truncate(len);
        Ok(())
    }

    /// Removes the elements from the `len`-th on. The capacity stays.
    pub fn truncate(&mut self, len: usize) {
        let len = self.len().min(len);
        // SAFETY: these elements are there.
        unsafe { self.set_len(len) };
    }

    /// Removes all elements. The capacity stays. (`as_mut_slice().clear()` makes them zeros.)
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Appends `n` elements, which `write` writes.
    #[track_caller]
    fn append(
        &mut self,
        n: usize,
        write: impl FnOnce(UninitSlice<'_, T>) -> GpuResult<DeviceSliceMut<'_, T>>,
    ) -> GpuResult<()> {
        self.reserve(n)?;
        self.write(self.len(), n, write)
    }

    /// Puts `n` elements, which `write` writes, in place of all.
    fn replace(
        &mut self,
        operation: &'static str,
        n: usize,
        write: impl FnOnce(UninitSlice<'_, T>) -> GpuResult<DeviceSliceMut<'_, T>>,
    ) -> GpuResult<()> {
        let capacity = self.capacity();
        if n > capacity {
            return Err(GpuError::CapacityExceeded { operation, capacity, found: n });
        }
        self.write(0, n, write)
    }

    /// Writes the `n` elements after the first `kept` ones by `write`, and makes them the last.
    fn write(
        &mut self,
        kept: usize,
        n: usize,
        write: impl FnOnce(UninitSlice<'_, T>) -> GpuResult<DeviceSliceMut<'_, T>>,
    ) -> GpuResult<()> {
        write(self.memory_after(kept).slice_mut(..n))?;
        // SAFETY: the slice was inside the memory, and `write` has returned it as written.
        unsafe { self.set_len(kept + n) };
        Ok(())
    }

    /// The memory after the first `kept` elements, which there are.
    fn memory_after(&mut self, kept: usize) -> UninitSlice<'_, T> {
        let memory = self.buffer.memory();
        let address = memory.address() + (kept * size_of::<T>()) as u64;
        // SAFETY: the memory holds `capacity` elements, and `self` is borrowed exclusively for as long as the slice.
        let all = unsafe { DeviceSliceMut::new(memory.home(), address, self.capacity() - kept) };
        UninitSlice::new(all)
    }
}

fn is_out_of_memory(error: &GpuError) -> bool {
    matches!(error.root(), GpuError::OutOfMemory { .. })
}

impl<T: Pod> Deref for DeviceVec<T> {
    type Target = DeviceBuffer<T>;

    fn deref(&self) -> &DeviceBuffer<T> {
        &self.buffer
    }
}

/// The capacity is that of the buffer's memory: a buffer that is put in place of this one brings its own.
impl<T: Pod> DerefMut for DeviceVec<T> {
    fn deref_mut(&mut self) -> &mut DeviceBuffer<T> {
        &mut self.buffer
    }
}

/// A vector of the buffer's elements, in its memory. One from a resource grows from there.
impl<T: Pod> From<DeviceBuffer<T>> for DeviceVec<T> {
    fn from(buffer: DeviceBuffer<T>) -> Self {
        Self { buffer }
    }
}

/// The elements. The memory for others stays with them.
impl<T: Pod> From<DeviceVec<T>> for DeviceBuffer<T> {
    fn from(vec: DeviceVec<T>) -> Self {
        vec.buffer
    }
}

impl<'a, T: Pod> From<&'a DeviceVec<T>> for DeviceSlice<'a, T> {
    fn from(vec: &'a DeviceVec<T>) -> Self {
        vec.as_slice()
    }
}

impl<T: Pod> fmt::Debug for DeviceVec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (address, capacity) = (self.as_device_ptr().address(), self.capacity());
        write!(f, "DeviceVec({address:#x}, {} of {capacity} elements)", self.len())
    }
}

// SAFETY: as for the buffer of its elements.
unsafe impl<T: Pod> DeviceRead<T> for DeviceVec<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.buffer.raw()
    }

    fn len(&self) -> usize {
        self.buffer.len()
    }
}

// SAFETY: as above.
unsafe impl<T: Pod> DeviceWrite<T> for DeviceVec<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.buffer.raw_mut()
    }

    fn len(&self) -> usize {
        self.buffer.len()
    }
}
