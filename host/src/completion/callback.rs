//! Driver callbacks that complete signals, on streams that only wait for events.

use std::any::Any;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cuda_driver::sys::{self, stream_flags::NON_BLOCKING};

use super::host_func::HostPanics;
use super::signal::{PendingSignals, Signal};
use crate::context::{Context, Handle};
use crate::error::GpuResult;
use crate::event::Event;
use crate::host_callback::{defer_drop, run_as_host_callback};

/// What a callback does with the driver's status, on a thread of the driver.
pub(super) trait Callback: Any + Send {
    fn call(&mut self, status: u32);
}

/// Makes the driver call `response` once all work that is enqueued on `stream` now is done or has
/// failed. The response is dropped later, on a thread that may call the driver. It leaks if the
/// driver never calls.
///
/// # Safety
/// `stream` is a stream of `context` that lives.
unsafe fn add_callback<R: Callback>(
    context: &Context,
    stream: sys::CUstream,
    response: R,
) -> GpuResult<()> {
    let data = Box::into_raw(Box::new(response));
    let added = context.call_uncounted("cuStreamAddCallback", || {
        // SAFETY: the stream lives; `called::<R>` takes the box back, once.
        unsafe { sys::cuStreamAddCallback(stream, Some(called::<R>), data.cast(), 0) }
    });
    if added.is_err() {
        // SAFETY: the driver has refused, so nobody else has the box.
        drop(unsafe { Box::from_raw(data) });
    }
    added
}

/// Like [`add_callback`], for a response that completes `signal`: if the device is lost, the signal
/// is completed in any case.
///
/// # Safety
/// As [`add_callback`].
pub(super) unsafe fn add_signal_callback<R: Callback>(
    context: &Context,
    stream: sys::CUstream,
    signal: &Arc<Signal>,
    response: R,
) -> GpuResult<()> {
    PendingSignals::of(context).callback_added(signal);
    // SAFETY: the caller's promise.
    let added = unsafe { add_callback(context, stream, response) };
    if added.is_err() {
        PendingSignals::of(context).callback_done(signal);
    } else if context.lost().is_some() {
        // The device was lost meanwhile, perhaps on a thread that completed all signals before this
        // one was added.
        PendingSignals::of(context).fail_all(HostPanics::of(context));
    }
    added
}

/// # Safety
/// `data` is the box of an `R`, which no other code has.
unsafe extern "C" fn called<R: Callback>(_: sys::CUstream, status: i32, data: *mut c_void) {
    // SAFETY: the caller's promise.
    let mut response = unsafe { Box::from_raw(data.cast::<R>()) };
    run_as_host_callback(|| response.call(status.cast_unsigned()));
    defer_drop(response);
}

/// Completes a signal.
struct CompleteSignal {
    signal: Arc<Signal>,
    context: Arc<Context>,
    /// What must live until then.
    _kept: Option<Box<dyn Any + Send>>,
}

impl Callback for CompleteSignal {
    fn call(&mut self, status: u32) {
        PendingSignals::of(&self.context).callback_done(&self.signal);
        self.signal.complete(status, HostPanics::of(&self.context));
    }
}

/// A stream that only waits for events and calls back after them, so that no work waits for a
/// callback.
#[derive(Debug)]
pub(crate) struct CallbackStream {
    context: Arc<Context>,
    handle: sys::CUstream,
}

// SAFETY: the driver's functions for streams may be called from any thread; each call binds the
// context.
unsafe impl Send for CallbackStream {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for CallbackStream {}

impl CallbackStream {
    pub(crate) fn new(context: &Arc<Context>) -> GpuResult<Self> {
        let mut handle = ptr::null_mut();
        context.call_uncounted("cuStreamCreate", || {
            // SAFETY: `handle` is writable.
            unsafe { sys::cuStreamCreate(&mut handle, NON_BLOCKING) }
        })?;
        Ok(Self { context: context.clone(), handle })
    }

    /// Records an event of this stream after `event`; returns it with the stream's identity.
    ///
    /// # Safety
    /// `event` lives and was recorded in this context.
    pub(crate) unsafe fn record_after(&self, event: sys::CUevent) -> GpuResult<(Event, usize)> {
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

    /// Completes `signal` after `event`, with `kept` alive until then.
    ///
    /// # Safety
    /// `event` lives and was recorded in this context.
    pub(crate) unsafe fn complete_after(
        &self,
        event: sys::CUevent,
        signal: &Arc<Signal>,
        kept: Option<Box<dyn Any + Send>>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.wait_for(event) }?;
        let response =
            CompleteSignal { signal: signal.clone(), context: self.context.clone(), _kept: kept };
        // SAFETY: the stream lives.
        unsafe { add_signal_callback(&self.context, self.handle, signal, response) }
    }
}

impl Drop for CallbackStream {
    fn drop(&mut self) {
        let handle = Handle(self.handle);
        // SAFETY: the handle is this bell's own and is not used again; the driver lets what is queued
        // on it finish.
        self.context.release_or_defer(move || unsafe { sys::cuStreamDestroy_v2(handle.get()) });
    }
}
