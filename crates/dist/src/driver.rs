//! Calls of the driver that the library has no safe function for.

use cuda_driver::sys;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::{Gpu, GpuError};

use crate::error::DistError;

/// The error of a call of the driver, if it returned one.
pub(crate) fn check(operation: &'static str, result: sys::CUresult) -> Result<(), DistError> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let detail = cuda_driver::take_detail().map(|detail| detail.text).unwrap_or_default();
    Err(DistError::Driver { operation, code: result.code(), detail_text: detail })
}

/// Whether the driver captures what is enqueued on the stream.
pub(crate) fn is_captured(stream: StreamRef<'_>) -> Result<bool, DistError> {
    let mut status = sys::stream_capture_status::NONE;
    // SAFETY: the stream lives as long as the reference, and `status` is writable.
    let asked = unsafe { sys::cuStreamIsCapturing(stream.as_raw().cast(), &mut status) };
    check("cuStreamIsCapturing", asked)?;
    Ok(status != sys::stream_capture_status::NONE)
}

/// Runs `work` with the device's context current.
pub(crate) fn in_context<R>(
    gpu: &Gpu,
    work: impl FnOnce() -> Result<R, DistError>,
) -> Result<R, DistError> {
    let mut result = None;
    // SAFETY: nothing is enqueued that others could see: what `work` uses are streams and memory of its own.
    let ran = unsafe {
        gpu.stream().foreign("making or ending a communicator", ForeignMemory::new(), |_| {
            result = Some(work());
            Ok(())
        })
    };
    match result {
        Some(result) => result,
        None => Err(ran.err().unwrap_or(GpuError::Unsupported { what: "a communicator" }).into()),
    }
}
