//! One value on the device.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, RawSlice};

use super::buffer::DeviceBuffer;
use super::resource::DeviceMemoryResource;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// One value of `T` in the device's memory: a kernel's `&T`, or a slice of one element.
///
/// The value can be an array: a `DeviceBox<[f32; 16]>` is a kernel's `&[f32; 16]`, whose length the compiler knows on
/// both sides. `bytemuck` has arrays of up to 32 elements as plain data, some larger ones, and all with its feature
/// `min_const_generics`. Memory and lifetime are as those of a [`DeviceBuffer`] made by the method of like name:
///
/// | made by | allocates | when it is dropped |
/// |---|---|---|
/// | `new`, `zeroed` | at once | waits for the stream that it was made on |
/// | `new_async`, `zeroed_async` | in the order of the stream | freed in that order; waits for nothing |
/// | `new_in`, `zeroed_in` | as the [resource](super::resource) does, a pool for one | as the resource does |
///
/// ```no_run
/// use ferrowarp::memory::resource::MemoryPool;
/// use ferrowarp::{DeviceBox, Gpu};
///
/// let gpu = Gpu::new()?;
/// let weights = DeviceBox::new_async(&gpu, &[0.25f32, 0.5, 0.25])?; // waits for nothing
/// let counts = DeviceBox::<[u32; 64]>::zeroed_in(&MemoryPool::new(&gpu), &gpu)?;
/// assert_eq!((weights.get()?[1], counts.get()?[63]), (0.5, 0));
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct DeviceBox<T: Pod> {
    buffer: DeviceBuffer<T>,
}

impl<T: Pod> DeviceBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn new(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        let buffer = DeviceBuffer::from_slice(on, std::slice::from_ref(value))?;
        Ok(Self { buffer })
    }

    /// A value of zeros.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::GpuError::OutOfMemory), or the fault of a kernel before.
    pub fn zeroed(on: &impl AsStream) -> GpuResult<Self> {
        Ok(Self { buffer: DeviceBuffer::zeroed(on, 1)? })
    }

    /// A value of zeros, allocated and freed in the order of the stream: see [`DeviceBuffer::zeroed_async`].
    ///
    /// # Errors
    /// As there.
    pub fn zeroed_async(on: &impl AsStream) -> GpuResult<Self> {
        Ok(Self { buffer: DeviceBuffer::zeroed_async(on, 1)? })
    }

    /// A copy of `value` in memory of a resource, to which it goes back.
    ///
    /// # Errors
    /// What the resource returns, or the fault of a kernel before.
    #[track_caller]
    pub fn new_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        value: &T,
    ) -> GpuResult<Self> {
        let buffer = DeviceBuffer::from_slice_in(memory, on, std::slice::from_ref(value))?;
        Ok(Self { buffer })
    }

    /// A value of zeros in memory of a resource, to which it goes back.
    ///
    /// # Errors
    /// What the resource returns.
    #[track_caller]
    pub fn zeroed_in<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
    ) -> GpuResult<Self> {
        Ok(Self { buffer: DeviceBuffer::zeroed_in(memory, on, 1)? })
    }

    /// The value, copied to the host.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn get(&self) -> GpuResult<T> {
        let mut value = T::zeroed();
        self.buffer.copy_to_host(std::slice::from_mut(&mut value))?;
        Ok(value)
    }

    /// Copies `value` to the device.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn set(&mut self, value: &T) -> GpuResult<()> {
        self.buffer.copy_from_host(std::slice::from_ref(value))
    }

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        self.buffer.as_device_ptr()
    }
}

impl<T: Pod + Send + Sync> DeviceBox<T> {
    /// A copy of `value`, allocated, written and freed in the order of the stream: neither this nor the drop waits. See
    /// [`DeviceBuffer::from_slice_async`].
    ///
    /// # Errors
    /// As there.
    pub fn new_async(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        let buffer = DeviceBuffer::from_slice_async(on, std::slice::from_ref(value))?;
        Ok(Self { buffer })
    }
}

impl<T: Pod> fmt::Debug for DeviceBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBox({:#x})", self.as_device_ptr().address())
    }
}

// SAFETY: the buffer holds one value; the rest as for the buffer.
unsafe impl<T: Pod> DeviceReadOne<T> for DeviceBox<T> {
    fn raw_one(&self) -> RawSlice<'_> {
        self.buffer.raw()
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> DeviceRead<T> for DeviceBox<T> {
    fn raw(&self) -> RawSlice<'_> {
        self.buffer.raw()
    }

    fn len(&self) -> usize {
        1
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> DeviceWrite<T> for DeviceBox<T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.buffer.raw_mut()
    }

    fn len(&self) -> usize {
        1
    }
}
