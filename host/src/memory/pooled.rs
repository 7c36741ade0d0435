//! Bytes of a pool, without a type.

use std::fmt;
use std::sync::Arc;

use bytemuck::Pod;
use cuda_std::launch::DevicePtr;

use super::resource::{DeviceMemoryResource, MemoryPool, StreamRef};
use super::uninit::{UninitBuffer, UninitSlice};
use crate::error::GpuResult;
use crate::stream::AsStream;

/// Bytes of a [`MemoryPool`] or of another [resource](super::resource), without a type, to which they go back when this
/// is dropped. They begin at a multiple of 256, and hold what an earlier owner left.
///
/// Their uses are ordered by the stream that they were acquired on. A kernel that gets a [view](Self::view) may be launched
/// on any stream. One that gets the [address](Self::as_device_ptr) alone is launched on this stream, or on one that this
/// stream is made to wait for before the drop.
///
/// ```no_run
/// use ferrowarp::Gpu;
/// use ferrowarp::memory::resource::MemoryPool;
///
/// let gpu = Gpu::new()?;
/// let pool = MemoryPool::new(&gpu);
/// let mut scratch = pool.acquire(&gpu, 4096)?;
/// assert!(scratch.as_device_ptr().is_aligned_to(256));
/// let zeros = scratch.view::<f32>()?.clear()?; // 1024 floats, for as long as the borrow
/// assert_eq!(zeros.to_vec()?, [0.0; 1024]);
/// drop(scratch);
/// assert_eq!(pool.statistics().returns, 1);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
pub struct PooledBuffer {
    bytes: UninitBuffer<u8>,
}

impl MemoryPool {
    /// `len_bytes` bytes without a type: [`PooledBuffer::acquire`].
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn acquire(
        self: &Arc<Self>,
        on: &impl AsStream,
        len_bytes: usize,
    ) -> GpuResult<PooledBuffer> {
        PooledBuffer::acquire(self, on, len_bytes)
    }
}

impl PooledBuffer {
    /// `len_bytes` bytes from a resource, in the order of the stream. No bytes are no memory.
    ///
    /// # Errors
    /// What the resource returns.
    #[track_caller]
    pub fn acquire<R: DeviceMemoryResource + 'static>(
        memory: &Arc<R>,
        on: &impl AsStream,
        len_bytes: usize,
    ) -> GpuResult<Self> {
        Ok(Self { bytes: UninitBuffer::new_in(memory, on, len_bytes)? })
    }

    /// The size in bytes, as it was asked for.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The address, for a kernel that takes a pointer.
    #[must_use]
    pub fn as_device_ptr(&self) -> DevicePtr<u8> {
        self.bytes.as_device_ptr()
    }

    /// The stream that orders the uses of the bytes, and after which they go back.
    #[must_use]
    pub fn stream(&self) -> StreamRef<'_> {
        StreamRef::new(self.bytes.buffer().memory().home())
    }

    /// All bytes as elements of a type, to be written, for as long as the borrow.
    ///
    /// # Errors
    /// [`InvalidCast`](crate::GpuError::InvalidCast) if they are not a whole number of elements.
    pub fn view<T: Pod>(&mut self) -> GpuResult<UninitSlice<'_, T>> {
        self.bytes.as_uninit_slice().into_cast()
    }

    /// All bytes as elements of a type, which go back where these came from.
    ///
    /// # Errors
    /// As [`view`](Self::view); the bytes go back then.
    pub fn into_uninit<T: Pod>(self) -> GpuResult<UninitBuffer<T>> {
        self.bytes.into_cast()
    }
}

impl fmt::Debug for PooledBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.as_device_ptr().address();
        write!(f, "PooledBuffer({address:#x}, {} bytes)", self.len_bytes())
    }
}
