//! CUDA events: points in a stream that can be waited for and timed.

use std::ptr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::sys::{self, event_flags};

use crate::completion::{Completion, Signal};
use crate::context::{Context, Handle};
use crate::error::GpuResult;
use crate::host_callback::in_host_callback;
use crate::panic::{Launches, Panics};
use crate::stream::StreamInner;

/// A CUDA event: a point in a stream. It is complete when all work that was enqueued before it is
/// done.
#[derive(Debug)]
pub struct Event {
    context: Arc<Context>,
    handle: sys::CUevent,
    /// What was launched before it.
    launches: Arc<Launches>,
    /// The stream that recorded it, and its number there; `None` for an event that streams use
    /// internally.
    recorded: Option<(Arc<StreamInner>, u64)>,
    /// The signal that futures wait for, once there is one.
    signal: Mutex<Option<Arc<Signal>>>,
}

// SAFETY: the driver's functions for events may be called from any thread; each call binds the
// context.
unsafe impl Send for Event {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for Event {}

impl Event {
    /// An event without timing, which is cheaper.
    pub(crate) fn untimed(context: &Arc<Context>) -> GpuResult<Self> {
        Self::new(context, event_flags::DISABLE_TIMING)
    }

    /// An event that keeps the time at which it completed.
    pub(crate) fn timed(context: &Arc<Context>) -> GpuResult<Self> {
        Self::new(context, event_flags::DEFAULT)
    }

    fn new(context: &Arc<Context>, flags: u32) -> GpuResult<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is writable.
        let create = || unsafe { sys::cuEventCreate(&mut handle, flags) };
        context.call_uncounted("cuEventCreate", create)?;
        let (context, launches, signal) = (context.clone(), Arc::default(), Mutex::default());
        Ok(Self { context, handle, launches, recorded: None, signal })
    }

    /// Notes what was launched before the event, and the stream that recorded it.
    pub(crate) fn set_recorded(
        &mut self,
        launches: &Launches,
        stream: &Arc<StreamInner>,
        number: u64,
    ) {
        self.launches.absorb(launches);
        self.recorded = Some((stream.clone(), number));
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// What was launched before the event.
    pub(crate) fn launches(&self) -> &Arc<Launches> {
        &self.launches
    }

    pub(crate) fn handle(&self) -> sys::CUevent {
        self.handle
    }

    /// Waits where an error could not be handled: in `drop`. Returns whether the event is complete;
    /// `false` where the driver must not be called.
    pub(crate) fn drain(&self) -> bool {
        // SAFETY: the event lives.
        let passed = self.context.release(|| unsafe { sys::cuEventSynchronize(self.handle) });
        passed || (self.context.lost().is_some() && !in_host_callback())
    }

    /// Like [`drain`](Self::drain), but waits no longer than until `end`.
    pub(crate) fn drain_until(&self, end: Instant) -> bool {
        // SAFETY: the event lives.
        let query = || unsafe { sys::cuEventQuery(self.handle) };
        while !in_host_callback() {
            match not_ready(self.context.call("cuEventQuery", query)) {
                Ok(true) => return true,
                Ok(false) if Instant::now() < end => thread::sleep(Duration::from_micros(50)),
                Ok(false) => return false,
                Err(_) => return self.context.lost().is_some(),
            }
        }
        false
    }

    /// Waits until the event is complete.
    ///
    /// # Errors
    /// The fault of any kernel that ran before it.
    pub fn synchronize(&self) -> GpuResult<()> {
        // SAFETY: the event lives.
        let wait = || unsafe { sys::cuEventSynchronize(self.handle) };
        self.context.call("cuEventSynchronize", wait)?;
        Panics::of(&self.context).check(&self.launches)
    }

    /// A future that is ready when the event is complete: see [`Completion`].
    pub fn completed(&self) -> Completion {
        let (stream, number) =
            self.recorded.as_ref().expect("a stream's own events are not given out");
        stream.completed_event(self, *number, &self.signal)
    }

    /// Whether the event is complete.
    ///
    /// # Errors
    /// The fault of any kernel that ran before it.
    pub fn is_complete(&self) -> GpuResult<bool> {
        let passed = self.query()?;
        if passed {
            Panics::of(&self.context).check(&self.launches)?;
        }
        Ok(passed)
    }

    /// Whether the event is complete; reports no panic.
    pub(crate) fn query(&self) -> GpuResult<bool> {
        // SAFETY: the event lives.
        let query = || unsafe { sys::cuEventQuery(self.handle) };
        not_ready(self.context.call_uncounted("cuEventQuery", query))
    }

    /// The time from `earlier` to this event on the device, in milliseconds. Both come from
    /// [`Stream::record_event`](crate::Stream::record_event); waits for both.
    ///
    /// # Errors
    /// The fault of any kernel that ran before either, or events of different devices.
    pub fn milliseconds_since(&self, earlier: &Event) -> GpuResult<f64> {
        earlier.synchronize()?;
        self.synchronize()?;
        let mut milliseconds = 0f32;
        self.context.call("cuEventElapsedTime", || {
            // SAFETY: both events live, and `milliseconds` is writable.
            unsafe { sys::cuEventElapsedTime(&mut milliseconds, earlier.handle, self.handle) }
        })?;
        Ok(f64::from(milliseconds))
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let handle = Handle(self.handle);
        // SAFETY: the handle is this event's own and is not used again; the driver lets waits that
        // are queued on it finish.
        self.context.release_or_defer(move || unsafe { sys::cuEventDestroy_v2(handle.get()) });
    }
}

/// Turns the driver's "not ready" from an error into `false`.
pub(crate) fn not_ready(result: GpuResult<()>) -> GpuResult<bool> {
    const NOT_READY: u32 = 600;
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.driver().is_some_and(|driver| driver.code() == NOT_READY) => Ok(false),
        Err(error) => Err(error),
    }
}
