//! Memory of other code, lent without an owner.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};

use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceSlice, DeviceSliceMut};
use crate::stream::{AsStream, StreamInner};

/// Device memory that other code keeps, as an array for as long as the other code lends it: a part of a tensor, an argument of a
/// function that a C program calls. Nothing is copied, and nothing is freed where this value is dropped.
///
/// An array may begin wherever its element type may. [`DeviceBuffer::from_raw_parts`](crate::DeviceBuffer::from_raw_parts) takes memory over, with
/// what frees it.
///
/// ```no_run
/// use ferrowarp::{GpuResult, LentBuffer, Stream, ops};
///
/// /// Sums `len` floats at `address`, which the other side's work on its own stream writes.
/// ///
/// /// # Safety
/// /// The memory holds them, and `theirs` is a stream of the device's context.
/// unsafe fn sum(stream: &Stream, address: u64, len: usize, theirs: *mut std::ffi::c_void) -> GpuResult<f32> {
///     // SAFETY: the caller's promise; the sum is complete, and the memory not used any more, where it is returned.
///     let values = unsafe {
///         stream.wait_for_raw(theirs)?;
///         LentBuffer::<f32>::new(stream, address, len)?
///     };
///     ops::reduce::sum(stream, &values)
/// }
/// ```
pub struct LentBuffer<'a, T: Pod> {
    home: Arc<StreamInner>,
    address: u64,
    len: usize,
    memory: PhantomData<&'a mut [T]>,
}

/// Where an array without elements begins: at a multiple of any type's alignment.
const DANGLING: u64 = 256;

impl<'a, T: Pod> LentBuffer<'a, T> {
    /// `len` elements at `address`, whose uses the stream of `on` orders.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for an address that is 0 or not a multiple of the elements' alignment, and for more
    /// elements than can be addressed. An array without elements may be anywhere.
    ///
    /// # Safety
    /// For `'a`, and until the stream has done what was enqueued on it in that time:
    /// - The elements are memory of the context of `on`, and hold values, unless they are written first.
    /// - Other code writes them only in work that the stream waits for, or that waits for the stream, and so it reads them, unless this
    ///   value is only read too.
    pub unsafe fn new(on: &impl AsStream, address: u64, len: usize) -> GpuResult<Self> {
        let (home, memory) = (on.as_stream().inner().clone(), PhantomData);
        if len == 0 {
            return Ok(Self { home, address: DANGLING, len, memory });
        }
        let refused =
            |reason| GpuError::InvalidArgument { operation: "borrowing device memory", reason };
        if address == 0 || !address.is_multiple_of(align_of::<T>() as u64) {
            let align = align_of::<T>();
            let reason = format!(
                "it begins at {address:#x}, and its elements at a multiple of {align} bytes"
            );
            return Err(refused(reason));
        }
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        if bytes.and_then(|bytes| address.checked_add(bytes as u64)).is_none() {
            let (size, reason) = (size_of::<T>(), "more than can be addressed");
            return Err(refused(format!(
                "{len} elements of {size} bytes at {address:#x} are {reason}"
            )));
        }
        Ok(Self { home, address, len, memory })
    }

    /// The number of elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The elements, to be read.
    #[must_use]
    pub fn as_slice(&self) -> DeviceSlice<'_, T> {
        // SAFETY: the promise of `new`; `self` is borrowed for as long as the slice.
        unsafe { DeviceSlice::new(&self.home, self.address, self.len) }
    }

    /// The elements, to be written.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: the promise of `new`; `self` is borrowed exclusively for as long as the slice.
        unsafe { DeviceSliceMut::new(&self.home, self.address, self.len) }
    }
}

impl<'s, T: Pod> From<&'s LentBuffer<'_, T>> for DeviceSlice<'s, T> {
    fn from(lent: &'s LentBuffer<'_, T>) -> Self {
        lent.as_slice()
    }
}

impl<'s, T: Pod> From<&'s mut LentBuffer<'_, T>> for DeviceSliceMut<'s, T> {
    fn from(lent: &'s mut LentBuffer<'_, T>) -> Self {
        lent.as_mut_slice()
    }
}

// SAFETY: the promise of `new`: the values are there, and a kernel's uses are ordered with all later ones through the home.
unsafe impl<T: Pod> DeviceRead<T> for LentBuffer<'_, T> {
    fn raw(&self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above, and the borrow is exclusive; `Pod` takes every bit pattern.
unsafe impl<T: Pod> DeviceWrite<T> for LentBuffer<'_, T> {
    fn raw_mut(&mut self) -> RawSlice<'_> {
        self.as_slice().raw_slice()
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl<T: Pod> Drop for LentBuffer<'_, T> {
    /// What the stream could not be made to wait for ends before the other code has the memory back.
    fn drop(&mut self) {
        self.home.wait_for_unordered_work();
    }
}

impl<T: Pod> fmt::Debug for LentBuffer<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentBuffer({:#x}, {} elements)", self.address, self.len)
    }
}
