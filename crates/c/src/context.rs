//! The calling thread's current context, which a call leaves as it found it.

use std::ptr;

use cuda_driver::sys::{self, CUcontext, CUresult};

use crate::error::Error;

/// The error of a driver call, if it returned one.
pub fn check(
    operation: &'static str,
    function: &'static str,
    result: CUresult,
) -> Result<(), Error> {
    if result == CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    let name = cuda_driver::error_name(result.0).and_then(|name| name.to_str().ok());
    let detail = cuda_driver::take_detail().map(|detail| detail.text);
    Err(Error::Driver { operation, function, name: name.unwrap_or("an unknown code"), detail })
}

/// Sets the current context back when it is dropped: the runtime API's current device is the one of the current context.
pub struct CurrentContext {
    before: CUcontext,
}

impl CurrentContext {
    /// What is current now.
    pub fn keep() -> Self {
        // Before the driver is chosen, no context is known, though the caller may have made one current by the driver itself. Without a
        // driver, what follows returns the error.
        let _ = ferrowarp::backend();
        let mut before = ptr::null_mut();
        // SAFETY: `before` is writable; after an error it is as it was.
        if unsafe { sys::cuCtxGetCurrent(&mut before) } != CUresult::CUDA_SUCCESS {
            cuda_driver::take_detail();
        }
        Self { before }
    }

    /// Makes `context` current.
    ///
    /// # Safety
    /// The context lives.
    pub unsafe fn enter(operation: &'static str, context: CUcontext) -> Result<Self, Error> {
        let kept = Self::keep();
        if kept.before != context {
            // SAFETY: the caller's promise.
            check(operation, "cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context) })?;
        }
        Ok(kept)
    }
}

impl Drop for CurrentContext {
    fn drop(&mut self) {
        let mut now = ptr::null_mut();
        // SAFETY: `now` is writable, and the context was current before: its owner keeps it, or destroyed it on its own.
        unsafe {
            if sys::cuCtxGetCurrent(&mut now) != CUresult::CUDA_SUCCESS
                || now != self.before && sys::cuCtxSetCurrent(self.before) != CUresult::CUDA_SUCCESS
            {
                cuda_driver::take_detail();
            }
        }
    }
}
