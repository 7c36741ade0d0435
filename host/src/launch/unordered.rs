//! Launches with memory whose uses no stream orders: another library's, whose home is [`Unordered`].

use std::ffi::c_void;
use std::ptr;

use cuda_driver::sys::{self, pointer_attribute};
use cuda_std::launch::MemoryArg;

use crate::capture;
use crate::context::Context;
use crate::error::{GpuError, GpuResult, GraphError};
use crate::stream::StreamInner;

/// Checks that another library's memory belongs to `context`.
pub(super) fn check_context(context: &Context, memory: &MemoryArg<'_>) -> GpuResult<()> {
    if memory.bytes == 0 {
        return Ok(());
    }
    let mut owner: sys::CUcontext = ptr::null_mut();
    let mut ordinal = 0i32;
    // A pool's memory belongs to a device, and to no context.
    read(context, pointer_attribute::CONTEXT, memory.address, (&raw mut owner).cast())?;
    read(context, pointer_attribute::DEVICE_ORDINAL, memory.address, (&raw mut ordinal).cast())?;
    let expected = context.info().ordinal;
    if owner == context.raw() || (owner.is_null() && ordinal.cast_unsigned() == expected) {
        return Ok(());
    }
    let found = ordinal.cast_unsigned();
    if found != expected {
        return Err(GpuError::WrongDevice { what: "an argument", expected, found });
    }
    let what =
        "memory of a context that is not the device's primary one, which `cust::quick_init` opens";
    Err(GpuError::Unsupported { what })
}

fn read(context: &Context, attribute: i32, address: u64, value: *mut c_void) -> GpuResult<()> {
    context.call_uncounted("cuPointerGetAttribute", || {
        // SAFETY: the value has room for the attribute; the address is not followed.
        unsafe { sys::cuPointerGetAttribute(value, attribute, address) }
    })
}

/// Runs `launch` on `stream` after the work of the context's default stream, and waits for the kernel.
pub(super) fn launch_and_wait(
    stream: &StreamInner,
    launch: impl FnOnce() -> GpuResult<()>,
) -> GpuResult<()> {
    const WAIT: &str = "cuStreamSynchronize";
    let context = stream.context();
    // SAFETY: the null handle is the default stream of the context, which `call` made current.
    let wait = || context.call(WAIT, || unsafe { sys::cuStreamSynchronize(ptr::null_mut()) });
    capture::device_wait(wait).ok_or(GraphError::NotCapturable { operation: WAIT })??;
    let launched = launch();
    // Also after an error: the kernel may have been enqueued before it.
    stream.synchronize().and(launched)
}
