//! How the driver rings: a callback on a stream that only waits.

use std::any::Any;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cust::sys;

use super::host_func::HostPanics;
use super::signal::{Signal, Waiting};
use crate::context::{Context, Handle};
use crate::driver_ext::cuStreamAddCallback;
use crate::error::GpuResult;
use crate::event::Event;
use crate::host_callback::{defer_drop, run_as_host_callback};

/// What a callback does with the driver's status, on a thread of the driver.
pub(super) trait Respond: Any + Send {
    fn respond(&mut self, status: u32);
}

/// Lets the driver call `response` once all work that `stream` has now is done, or has failed. The
/// response ends later, on a thread that may call the driver. It is leaked if the driver never calls.
///
/// # Safety
/// `stream` is a stream of `context` that lives.
unsafe fn add_callback<R: Respond>(
    context: &Context,
    stream: sys::CUstream,
    response: R,
) -> GpuResult<()> {
    let data = Box::into_raw(Box::new(response));
    let added = context.call_uncounted("cuStreamAddCallback", || {
        // SAFETY: the stream lives; `called::<R>` takes the box back, once.
        unsafe { cuStreamAddCallback(stream, called::<R>, data.cast(), 0) }
    });
    if added.is_err() {
        // SAFETY: the driver has refused, so nobody else has the box.
        drop(unsafe { Box::from_raw(data) });
    }
    added
}

/// The same for a response that rings `signal`: where the device is lost, that is rung in any case.
///
/// # Safety
/// As [`add_callback`].
pub(super) unsafe fn add_ringing<R: Respond>(
    context: &Context,
    stream: sys::CUstream,
    signal: &Arc<Signal>,
    response: R,
) -> GpuResult<()> {
    Waiting::of(context).begin(signal);
    // SAFETY: the caller's promise.
    let added = unsafe { add_callback(context, stream, response) };
    if added.is_err() {
        Waiting::of(context).end(signal);
    } else if context.lost().is_some() {
        // Lost meanwhile, perhaps by a thread that rang all before this signal was among them.
        Waiting::of(context).lose(HostPanics::of(context));
    }
    added
}

/// # Safety
/// `data` is the box of an `R`, which nobody else has.
unsafe extern "C" fn called<R: Respond>(_: sys::CUstream, status: u32, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let mut response = unsafe { Box::from_raw(data.cast::<R>()) };
    run_as_host_callback(|| response.respond(status));
    defer_drop(response);
}

/// Rings a signal.
struct Rope {
    signal: Arc<Signal>,
    context: Arc<Context>,
    /// What must live until then.
    _kept: Option<Box<dyn Any + Send>>,
}

impl Respond for Rope {
    fn respond(&mut self, status: u32) {
        Waiting::of(&self.context).end(&self.signal);
        self.signal.ring(status, HostPanics::of(&self.context));
    }
}

/// A stream that only waits for others and rings.
#[derive(Debug)]
pub(crate) struct Bell {
    context: Arc<Context>,
    handle: sys::CUstream,
}

// SAFETY: the driver's functions for streams may be called from any thread; each call binds the
// context.
unsafe impl Send for Bell {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for Bell {}

impl Bell {
    pub(crate) fn new(context: &Arc<Context>) -> GpuResult<Self> {
        const NON_BLOCKING: u32 = 1;
        let mut handle = ptr::null_mut();
        context.call_uncounted("cuStreamCreate", || {
            // SAFETY: `handle` is writable.
            unsafe { sys::cuStreamCreate(&mut handle, NON_BLOCKING) }
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// An event behind `event` that is this bell's own, and the number of its line.
    ///
    /// # Safety
    /// `event` lives and was recorded in this context.
    pub(crate) unsafe fn mark_after(&self, event: sys::CUevent) -> GpuResult<(Event, usize)> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(event) }?;
        let own = Event::untimed(&self.context)?;
        self.context.call_uncounted("cuEventRecord", || {
            // SAFETY: both live, and belong to one context.
            unsafe { sys::cuEventRecord(own.handle(), self.handle) }
        })?;
        Ok((own, self.handle.addr()))
    }

    /// # Safety
    /// `event` lives and was recorded in this context.
    unsafe fn wait_for(&self, event: sys::CUevent) -> GpuResult<()> {
        self.context.call_uncounted("cuStreamWaitEvent", || {
            // SAFETY: stream and event live; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(self.handle, event, 0) }
        })
    }

    /// Rings `signal` after `event`, with `kept` alive until then.
    ///
    /// # Safety
    /// `event` lives and was recorded in this context.
    pub(crate) unsafe fn ring_after(
        &self,
        event: sys::CUevent,
        signal: &Arc<Signal>,
        kept: Option<Box<dyn Any + Send>>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(event) }?;
        let rope = Rope { signal: signal.clone(), context: self.context.clone(), _kept: kept };
        // SAFETY: the stream lives.
        unsafe { add_ringing(&self.context, self.handle, signal, rope) }
    }
}

impl Drop for Bell {
    fn drop(&mut self) {
        let handle = Handle(self.handle);
        // SAFETY: the handle is this bell's own and is not used again; the driver lets what is queued
        // on it finish.
        self.context.release_or_defer(move || unsafe { sys::cuStreamDestroy_v2(handle.get()) });
    }
}
