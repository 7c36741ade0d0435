//! Memory of `cust` as memory of this crate.

use std::ptr;

use bytemuck::Pod;
use cust::memory::{DeviceBuffer as Released, DeviceCopy};

use crate::error::GpuResult;
use crate::foreign::check_memory;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

impl<T: Pod + DeviceCopy> DeviceBuffer<T> {
    /// The memory of a buffer of `cust` as a buffer of this crate, which frees it as `cust` does, when the work is done that its stream
    /// has then. Nothing is copied. From now on its launches return at once, since its uses have a stream.
    ///
    /// The stream comes after all work that `cust` has enqueued on the context's default stream and on streams of its own, which are all
    /// ordered with that one.
    ///
    /// ```no_run
    /// use ferrowarp::{DeviceBuffer, Gpu, ops};
    ///
    /// let _context = cust::quick_init()?;
    /// let gpu = Gpu::new()?;
    /// let theirs = cust::memory::DeviceBuffer::from_slice(&[1.0f32, 2.0, 3.0])?;
    /// let x = DeviceBuffer::from_cust(&gpu, theirs)?;
    /// assert_eq!(ops::reduce::sum(&gpu, &x)?, 6.0);
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`WrongContext`](crate::GpuError::WrongContext) or [`WrongDevice`](crate::GpuError::WrongDevice) for memory of another context than that of `on`;
    /// a driver's refusal. The buffer is dropped then.
    pub fn from_cust(on: &impl AsStream, buffer: Released<T>) -> GpuResult<Self> {
        let (address, len) = (buffer.as_device_ptr().as_raw(), buffer.as_slice().len());
        let stream = on.as_stream();
        let bytes = len * size_of::<T>();
        check_memory(stream.inner().context(), "the buffer of cust", address, bytes)?;
        // SAFETY:
        // - The default stream exists, and what the buffer was written by comes before the event that is recorded there.
        // - The buffer holds as many elements of the context, is gone, and is freed with the owner: no safe code has it any more, but
        //   for `cust`'s slices, which have no lifetime (hole 2).
        unsafe {
            stream.wait_for_raw(ptr::null_mut())?;
            Self::from_raw_parts(stream, address, len, Owner(buffer))
        }
    }
}

/// Frees the memory where it is dropped.
struct Owner<T: DeviceCopy>(#[expect(dead_code, reason = "it is dropped")] Released<T>);

// SAFETY: it is only dropped, with the context current, by a function of the driver that any thread may call.
unsafe impl<T: DeviceCopy> Send for Owner<T> {}
