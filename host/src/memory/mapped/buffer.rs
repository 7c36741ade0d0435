//! Arrays in the host's memory that kernels use in place, in the order of streams.

use std::fmt;
use std::marker::PhantomData;
use std::slice;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, DeviceReadOne, DeviceWrite, RawSlice};

use crate::error::{GpuError, GpuResult};
use crate::memory::allocation::{DANGLING, check_alignment};
use crate::memory::shapes::{argument, lengths, one_value};
use crate::memory::slice::{DeviceSlice, DeviceSliceMut};
use crate::shared_memory::{Block, SharedLocation};
use crate::stream::{AsStream, StreamInner};

/// An array of `T` in pinned memory of the host, which kernels use in place.
///
/// The host sees it behind a wait for all kernels that were given it, and no kernel can be given it
/// to write while the host looks at it, so the two cannot race; [`MappedAtomics`](super::MappedAtomics)
/// are for both at once.
///
/// ```no_run
/// use ferrowarp::{Gpu, MappedBuffer, ops};
///
/// let gpu = Gpu::new()?;
/// let mut x = MappedBuffer::<f32>::zeroed(&gpu, 1000)?;
/// let mut y = MappedBuffer::from_slice(&gpu, &[1.0; 1000])?;
/// x.as_mut_slice()?.fill(3.0);
/// ops::saxpy(&gpu, 2.0, &x, &mut y)?;
/// assert_eq!(y.as_slice()?, [7.0; 1000]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct MappedBuffer<T: Pod> {
    home: Arc<StreamInner>,
    /// None where there are no bytes.
    block: Option<Block>,
    len: usize,
    values: PhantomData<T>,
}

impl<T: Pod> MappedBuffer<T> {
    /// A copy of `values`.
    ///
    /// # Errors
    /// What the driver answers, as where no memory can be pinned.
    pub fn from_slice(on: &impl AsStream, values: &[T]) -> GpuResult<Self> {
        let mut buffer = Self::zeroed(on, values.len())?;
        // SAFETY: no kernel knows the memory yet, and it has room for `values`.
        unsafe { buffer.host_mut().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(buffer)
    }

    /// `len` elements, all of them zero.
    ///
    /// # Errors
    /// As [`from_slice`](Self::from_slice).
    pub fn zeroed(on: &impl AsStream, len: usize) -> GpuResult<Self> {
        const { check_alignment::<T>() };
        let home = on.as_stream().inner();
        let bytes = len.checked_mul(size_of::<T>()).filter(|bytes| *bytes <= isize::MAX as usize);
        let bytes = bytes.ok_or_else(|| GpuError::InvalidArgument {
            operation: "mapping memory",
            reason: format!("{len} elements are more bytes than there are addresses"),
        })?;
        let block = match bytes {
            0 => None,
            _ => Some(Block::zeroed(home.context(), SharedLocation::Mapped, bytes)?),
        };
        Ok(Self { home: home.clone(), block, len, values: PhantomData })
    }

    fn host(&self) -> *const T {
        let address = |block: &Block| block.host().as_ptr().cast_const().cast();
        self.block.as_ref().map_or(DANGLING as *const T, address)
    }

    fn host_mut(&mut self) -> *mut T {
        self.host().cast_mut()
    }

    fn address(&self) -> u64 {
        self.block.as_ref().map_or(DANGLING, Block::device)
    }

    lengths!();

    /// The address on the device, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<T> {
        DevicePtr::from_raw(self.address())
    }

    /// The elements on the host, after all kernels that were given them.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn as_slice(&self) -> GpuResult<&[T]> {
        self.wait()?;
        // SAFETY: the block holds `len` values. Kernels that wrote them are done, and none can be
        // given them to write while `self` is borrowed.
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
        unsafe { DeviceSlice::new(&self.home, self.address(), self.len) }
    }

    /// The whole array, to be written by kernels and copies.
    #[must_use]
    pub fn as_device_slice_mut(&mut self) -> DeviceSliceMut<'_, T> {
        // SAFETY: `self` is borrowed exclusively for as long as the slice, and holds `len` values.
        unsafe { DeviceSliceMut::new(&self.home, self.address(), self.len) }
    }

    /// All uses are ordered before the home's end (see `stream`).
    fn wait(&self) -> GpuResult<()> {
        self.block.as_ref().map_or(Ok(()), |_| self.home.synchronize())
    }
}

impl<T: Pod> Drop for MappedBuffer<T> {
    fn drop(&mut self) {
        if let Some(block) = self.block.take()
            && !self.home.drain()
        {
            // A kernel may use it still, so it is never given back.
            std::mem::forget(block);
        }
    }
}

impl<T: Pod> fmt::Debug for MappedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MappedBuffer({:#x}, {} elements)", self.address(), self.len)
    }
}

argument!(MappedBuffer);

/// One value of `T` in pinned memory of the host, which kernels use in place.
pub struct MappedBox<T: Pod> {
    buffer: MappedBuffer<T>,
}

impl<T: Pod> MappedBox<T> {
    /// A copy of `value`.
    ///
    /// # Errors
    /// As [`MappedBuffer::from_slice`].
    pub fn new(on: &impl AsStream, value: &T) -> GpuResult<Self> {
        Ok(Self { buffer: MappedBuffer::from_slice(on, slice::from_ref(value))? })
    }
}

one_value!(MappedBox);
