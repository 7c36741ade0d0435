//! Launches with memory whose uses no stream orders: another library's, whose home is [`Unordered`].

use std::ptr;

use cuda_driver::sys;

use crate::capture;
use crate::error::{GpuResult, GraphError};
use crate::stream::StreamInner;

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
