//! One value on the device.

use std::fmt;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, RawSlice};

use super::buffer::DeviceBuffer;
use crate::error::GpuResult;
use crate::stream::AsStream;

/// One value of `T` in the device's memory: a kernel's `&T`, or a slice of one element.
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

impl<T: Pod> fmt::Debug for DeviceBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBox({:#x})", self.as_device_ptr().address())
    }
}

// SAFETY: the buffer holds one value; the rest as for the buffer.
unsafe impl<T: Pod> DeviceReadOne<T> for DeviceBox<T> {
    fn raw_one(&self) -> RawSlice {
        self.buffer.raw()
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> DeviceRead<T> for DeviceBox<T> {
    fn raw(&self) -> RawSlice {
        self.buffer.raw()
    }

    fn len(&self) -> usize {
        1
    }
}

// SAFETY: as for the buffer.
unsafe impl<T: Pod> DeviceWrite<T> for DeviceBox<T> {
    fn raw_mut(&mut self) -> RawSlice {
        self.buffer.raw_mut()
    }

    fn len(&self) -> usize {
        1
    }
}
