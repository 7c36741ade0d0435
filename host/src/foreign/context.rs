//! Contexts that other code has made.

use std::ffi::c_void;
use std::panic::{RefUnwindSafe, UnwindSafe};

use cuda_driver::{Backend, sys};

use crate::context::Context;
use crate::device::backend;
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::gpu::Gpu;
use crate::module::KernelModule;
use crate::shipped;
use crate::stream::Stream;

const OPENING: &str = "opening a context of other code";

impl Gpu {
    /// A context (`CUcontext`) that other code has made, with the kernels of this crate and a new stream: a primary context, or
    /// one of `cuCtxCreate`. Its memory and its streams can be used then, by [`DeviceBuffer::from_raw_parts`](crate::DeviceBuffer::from_raw_parts)
    /// and [`Stream::from_raw`]. [`load_module`](Self::load_module) has kernels of your own for it.
    ///
    /// `owner` ends the context where it is dropped, which is when neither this `Gpu` nor anything that was made on it is left:
    /// a value whose `Drop` calls `cuCtxDestroy`, or `cuDevicePrimaryCtxRelease` where the other code has retained a primary context. `()` is an owner
    /// for a context that the other side ends itself, later. Programs that use the runtime API, PyTorch, `cust` or cudarc have the
    /// device's primary context, which [`Gpu::new`] opens as well, without this function.
    ///
    /// Different contexts of a device share no memory: [`copy_from_peer`](crate::DeviceBuffer::copy_from_peer) copies between
    /// them, and any other use is an error. Their kernels take turns on the device.
    ///
    /// ```no_run
    /// use std::ptr;
    ///
    /// use cuda_driver::sys;
    /// use ferrowarp::{DeviceBuffer, Gpu};
    ///
    /// struct Destroyed(sys::CUcontext);
    ///
    /// // SAFETY: the driver's functions for contexts may be called from any thread.
    /// unsafe impl Send for Destroyed {}
    /// // SAFETY: nothing is done through a shared reference.
    /// unsafe impl Sync for Destroyed {}
    ///
    /// impl Drop for Destroyed {
    ///     fn drop(&mut self) {
    ///         // SAFETY: nothing uses the context any more.
    ///         unsafe { sys::cuCtxDestroy_v2(self.0) };
    ///     }
    /// }
    ///
    /// let mut context = ptr::null_mut();
    /// // SAFETY: the place is writable, and the context lives until its owner is dropped.
    /// let gpu = unsafe {
    ///     sys::cuInit(0);
    ///     sys::cuCtxCreate_v2(&mut context, 0, 0);
    ///     Gpu::from_context(context.cast(), Destroyed(context))?
    /// };
    /// let ones = DeviceBuffer::from_slice(&gpu, &[1.0f32; 100])?;
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// `owner` is dropped then.
    /// - [`InvalidArgument`](GpuError::InvalidArgument) for a null handle.
    /// - On the emulator, a handle that is not one of its live contexts, which no context of an NVIDIA driver in the same process is.
    /// - A driver's refusal.
    ///
    /// # Safety
    /// - `raw` is a context of the driver that this process uses, and exists until `owner` is dropped. A driver may crash if it is
    ///   given one that does not exist; the emulator returns an error.
    /// - No code resets the device until then, which would end the primary context.
    /// - `owner` may be dropped on any thread, with any context current.
    pub unsafe fn from_context(
        raw: *mut c_void,
        owner: impl Send + Sync + UnwindSafe + RefUnwindSafe + 'static,
    ) -> GpuResult<Self> {
        if raw.is_null() {
            let reason =
                "the handle is null, as cuCtxGetCurrent returns it where no context is current"
                    .to_owned();
            return Err(GpuError::InvalidArgument { operation: OPENING, reason });
        }
        // SAFETY: the caller's promise.
        let context = unsafe { Context::of_owner(raw.cast(), Box::new(owner)) };
        let context = context.with_gpu_context(explain_refusal)?;
        let module = KernelModule::new(&context, shipped::IMAGES);
        Ok(Self::of_stream(Stream::new(&context, &module)?))
    }

    /// The driver's handle of the context (`CUcontext`), for other code that uses it too. The context exists as long as the `Gpu`, or
    /// anything that was made on it.
    #[must_use]
    pub fn as_raw_context(&self) -> *mut c_void {
        let context: sys::CUcontext = self.stream().inner().context().raw();
        context.cast()
    }
}

/// What was being done, and what a program with two drivers has to know.
fn explain_refusal() -> String {
    match backend() {
        Ok(Backend::Emulator) => {
            format!("{OPENING} (on the emulator, which has no context of an NVIDIA driver)")
        }
        _ => OPENING.to_owned(),
    }
}
