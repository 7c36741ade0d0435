//! Memory and streams that other code has made.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::{Arc, Mutex};

use bytemuck::Pod;
use cuda_driver::sys;

use crate::context::Context;
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::host_callback::{defer_drop, in_host_callback};
use crate::lock::lock;
use crate::memory::DeviceBuffer;
use crate::memory::resource::{AllocationRequest, MemoryResource, StreamRef, kind};
use crate::stream::{AsStream, Stream, StreamInner};
use crate::thread_state::may_call_driver;

/// A buffer begins at a multiple of this many bytes.
const ALIGN_BYTES: u64 = 256;

impl<T: Pod> DeviceBuffer<T> {
    /// Device memory that other code has allocated (PyTorch, cudarc, a C library), as a buffer: `len` elements at `address`. Nothing is
    /// copied.
    ///
    /// `owner` frees the memory where it is dropped: a tensor, an `Arc`, or a value whose `Drop` calls the other code. It is dropped when the
    /// work is done that the buffer's stream has when the buffer is dropped; in the first call of this crate after that, on any thread, with the
    /// device's context current, so that it may call the driver.
    /// `()` is an owner for memory that the other side frees itself, later.
    ///
    /// The stream of `on` orders the uses of the memory, as with every buffer. For work of the other code before and after see
    /// [`Stream::wait_for_raw`] and [`Stream::raw_waits`].
    ///
    /// ```no_run
    /// use cuda_driver::sys;
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// struct Freed(u64);
    ///
    /// impl Drop for Freed {
    ///     fn drop(&mut self) {
    ///         // SAFETY: nothing uses the memory any more.
    ///         unsafe { sys::cuMemFree_v2(self.0) };
    ///     }
    /// }
    ///
    /// let gpu = Gpu::new()?;
    /// let mut address = 0;
    /// // SAFETY: the place is writable; the memory holds 100 words, and only the buffer knows it.
    /// let words = unsafe {
    ///     sys::cuMemAlloc_v2(&mut address, 400);
    ///     DeviceBuffer::<u32>::from_raw_parts(&gpu, address, 100, Freed(address))?
    /// };
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for an address that is 0 or not a multiple of 256; `owner` is dropped then.
    ///
    /// # Safety
    /// - The memory is of the context of `on`, holds `len` values of `T`, and lives as long as `owner`.
    /// - Until `owner` is dropped, other code reads it only in work that the stream waits for, or that waits for the stream, and
    ///   writes it never while the buffer exists.
    /// - Work that has written it is done, or the stream [waits](Stream::wait_for_raw) for it before it uses the buffer.
    pub unsafe fn from_raw_parts(
        on: &impl AsStream,
        address: u64,
        len: usize,
        owner: impl Any + Send,
    ) -> GpuResult<Self> {
        let context = on.as_stream().inner().context().clone();
        let owner = Owner { owner: Some(Box::new(owner)), context };
        if len * size_of::<T>() > 0 && (address == 0 || !address.is_multiple_of(ALIGN_BYTES)) {
            return Err(GpuError::InvalidArgument {
                operation: "taking over device memory",
                reason: format!(
                    "it begins at {address:#x}, and a buffer at a multiple of {ALIGN_BYTES} bytes: copy it to a buffer of this crate"
                ),
            });
        }
        let memory = Arc::new(Adopted { address, owner: Mutex::new(Some(owner)) });
        // SAFETY: the caller's promise: the elements are there.
        unsafe { Self::uninitialized_in(&memory, on, len) }
    }
}

/// What frees memory of other code.
struct Owner {
    owner: Option<Box<dyn Any + Send>>,
    context: Arc<Context>,
}

impl Drop for Owner {
    /// In a callback of the driver, where the owner could not call it, that is left to the next call.
    fn drop(&mut self) {
        let Some(owner) = self.owner.take() else { return };
        if in_host_callback() {
            defer_drop(Box::new(Self { owner: Some(owner), context: self.context.clone() }));
            return;
        }
        // The owner is dropped in any case: without a context it may leak the memory.
        let _ = self.context.enter("freeing memory of other code");
        drop(owner);
    }
}

/// The memory of one buffer that other code has allocated.
struct Adopted {
    address: u64,
    owner: Mutex<Option<Owner>>,
}

impl fmt::Debug for Adopted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Adopted({:#x})", self.address)
    }
}

// SAFETY: made for one buffer by `from_raw_parts`, whose caller promises that as many bytes are at the address, that they are the
// buffer's, and that the stream waits for what has written them.
unsafe impl MemoryResource for Adopted {
    type Kind = kind::Device;

    fn allocate(&self, _: &AllocationRequest<'_>) -> GpuResult<u64> {
        Ok(self.address)
    }

    unsafe fn deallocate(&self, stream: StreamRef<'_>, _: u64, _: usize) {
        let returned = Returned { stream: stream.inner().clone(), owner: lock(&self.owner).take() };
        // A thread that captures cannot record where the stream is now.
        if !may_call_driver() {
            defer_drop(Box::new(returned));
        }
    }
}

/// An owner that gets its memory back when the stream has done all that it has at the drop of this.
struct Returned {
    stream: Arc<StreamInner>,
    owner: Option<Owner>,
}

impl Drop for Returned {
    fn drop(&mut self) {
        if let Some(owner) = self.owner.take() {
            // The owner lives until then, and nobody waits for it.
            drop(self.stream.completed(Some(Box::new(owner))));
        }
    }
}

impl Stream {
    /// A stream (`CUstream`) that other code has made, with the kernels of `gpu`: work is enqueued on it as on any stream, in one order
    /// with the other code's. Null is the context's default stream.
    ///
    /// `owner` ends the driver's stream where it is dropped, which is when neither this stream nor memory that was made on it is
    /// left. `()` is an owner for a stream that the other side destroys itself, later.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, Stream};
    /// # fn example(gpu: &Gpu, theirs: *mut std::ffi::c_void) -> ferrowarp::GpuResult<()> {
    /// // SAFETY: the other code destroys its stream after this function has returned.
    /// let stream = unsafe { Stream::from_raw(gpu, theirs, ())? };
    /// let zeros = DeviceBuffer::<f32>::zeroed_async(&stream, 1000)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongContext`](GpuError::WrongContext) for a stream of another context than the `Gpu`'s; a driver's refusal.
    ///
    /// # Safety
    /// `raw` is a stream that exists until `owner` is dropped.
    pub unsafe fn from_raw(
        gpu: &Gpu,
        raw: *mut c_void,
        owner: impl Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) -> GpuResult<Self> {
        let (context, handle) = (gpu.stream().inner().context(), raw.cast());
        let mut found = ptr::null_mut();
        context.call_uncounted("cuStreamGetCtx", || {
            // SAFETY: the stream lives, and `found` is writable.
            unsafe { sys::cuStreamGetCtx(handle, &mut found) }
        })?;
        if found != context.raw() {
            let ordinal = context.info().ordinal;
            return Err(GpuError::WrongContext { what: "the stream", ordinal });
        }
        // SAFETY: it is a stream of the context, and lives as long as what owns it.
        let inner = unsafe { StreamInner::of_owner(context, handle, Arc::new(owner))? };
        Ok(Self::of_inner(inner, gpu.stream().module()))
    }

    /// Makes work that is enqueued on this stream from now on wait for all that `raw`, a stream of other code, has now.
    ///
    /// # Errors
    /// A driver's refusal, for a stream of another context for one.
    ///
    /// # Safety
    /// `raw` is a stream (`CUstream`) that exists, of this stream's context.
    pub unsafe fn wait_for_raw(&self, raw: *mut c_void) -> GpuResult<()> {
        let (inner, raw) = (self.inner(), raw.cast());
        let event = Event::untimed(inner.context())?;
        let recorded = inner.context().call("cuEventRecord", || {
            // SAFETY: the event lives, and the stream by the caller's promise.
            unsafe { sys::cuEventRecord(event.handle(), raw) }
        });
        recorded.gpu_context("waiting for a stream of other code")?;
        self.wait_event(&event)
    }

    /// Makes work that other code enqueues on `raw`, its own stream, from now on wait for all that this stream has now.
    ///
    /// # Errors
    /// As [`wait_for_raw`](Self::wait_for_raw).
    ///
    /// # Safety
    /// As [`wait_for_raw`](Self::wait_for_raw).
    pub unsafe fn raw_waits(&self, raw: *mut c_void) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner().raw_waits(raw) }
    }
}

impl StreamInner {
    /// See [`Stream::raw_waits`].
    ///
    /// # Safety
    /// As there.
    pub(crate) unsafe fn raw_waits(&self, raw: *mut c_void) -> GpuResult<()> {
        let event = Event::untimed(self.context())?;
        self.record_into(&event)?;
        let waits = self.context().call("cuStreamWaitEvent", || {
            // SAFETY: the event lives, and the stream by the caller's promise; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(raw.cast(), event.handle(), 0) }
        });
        waits.gpu_context("letting a stream of other code wait")
    }
}
