//! Waits for all work on a device.

use std::sync::Arc;

use cuda_driver::sys;

use crate::capture;
use crate::completion::HostPanics;
use crate::context::Context;
use crate::deferred_frees::free_pending;
use crate::error::{GpuError, GpuResult, GraphError};
use crate::panic::Panics;
use crate::persistent::PersistentKernels;

/// Waits until all work on the device is done.
///
/// # Errors
/// The first panic or fault that no caller was told of.
pub(crate) fn synchronize(context: &Context) -> GpuResult<()> {
    wait(context)?;
    HostPanics::of(context).check_all()?;
    Panics::of(context).take_all().map_or(Ok(()), |panic| Err(panic.into()))
}

/// Like [`synchronize`], but leaves panics to the next wait for their streams.
pub(crate) fn wait(context: &Context) -> GpuResult<()> {
    let running = PersistentKernels::of(context).running();
    if running > 0 {
        return Err(GpuError::PersistentKernels { running });
    }
    const WAIT: &str = "cuCtxSynchronize";
    // SAFETY: `call` made the context current.
    let wait = || context.call(WAIT, || unsafe { sys::cuCtxSynchronize() });
    capture::device_wait(wait).ok_or(GraphError::NotCapturable { operation: WAIT })??;
    free_pending(context);
    Ok(())
}

/// Drops what kernels may still use, after all of them have run; leaks it where one does not end.
pub(crate) fn drop_after_all_work<T: Send + 'static>(context: &Arc<Context>, held: T) {
    if PersistentKernels::of(context).running() > 0 {
        std::mem::forget(held);
        return;
    }
    context.release_or_defer(move || {
        // SAFETY: `release_or_defer` made the context current.
        let Some(code) = capture::device_wait(|| unsafe { sys::cuCtxSynchronize() }) else {
            std::mem::forget(held);
            return sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        };
        drop(held);
        code
    });
}
