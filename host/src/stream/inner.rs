//! The driver's stream, which buffers, events and futures share with the programs that hold it.

use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cuda_std::launch::LaunchConfig;
use cust::sys;

use super::events::Marks;
use crate::capture;
use crate::completion::HostPanics;
use crate::context::{Context, Handle};
use crate::error::{GpuError, GpuResult};
use crate::event::{Event, not_ready};
use crate::host_callback::in_host_callback;
use crate::panic::{Launches, Panics};

/// The driver's stream. Buffers hold it, so it outlives them.
pub(crate) struct StreamInner {
    pub(super) context: Arc<Context>,
    pub(super) handle: sys::CUstream,
    /// Recorded whenever another stream has to wait for this one. One is enough: a wait takes the
    /// latest record at the moment that it is queued, and a later one only orders more.
    pub(super) order: Event,
    /// What its next wait is for.
    pub(super) launches: Arc<Launches>,
    /// Its events, and who rings for them.
    pub(super) marks: Mutex<Marks>,
    /// Whether work on other streams, which this one should wait for, may be unfinished.
    pub(super) strays: AtomicBool,
    /// Whether others than this crate know the handle, and may queue what it does not see.
    pub(super) outside: AtomicBool,
}

// SAFETY: the driver's functions for streams may be called from any thread; each call binds the
// context.
unsafe impl Send for StreamInner {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for StreamInner {}

impl fmt::Debug for StreamInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:p} on GPU {})", self.handle, self.context.info().ordinal)
    }
}

impl StreamInner {
    pub(super) fn new(context: &Arc<Context>, priority: i32) -> GpuResult<Self> {
        // cust 0.3.2 strips this flag, so all its streams wait for each other at every copy.
        const NON_BLOCKING: u32 = 1;
        let order = Event::untimed(context)?;
        let mut handle = ptr::null_mut();
        context.call("cuStreamCreateWithPriority", || {
            // SAFETY: `handle` is writable.
            unsafe { sys::cuStreamCreateWithPriority(&mut handle, NON_BLOCKING, priority) }
        })?;
        let launches = Panics::of(context).new_launches();
        let (context, marks) = (context.clone(), Mutex::default());
        let (strays, outside) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { context, handle, order, launches, marks, strays, outside })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// The handle for somebody else.
    pub(crate) fn give_handle(&self) -> sys::CUstream {
        self.outside.store(true, Ordering::Release);
        self.handle
    }

    pub(super) fn is_known_outside(&self) -> bool {
        self.outside.load(Ordering::Acquire)
    }

    pub(crate) fn synchronize(&self) -> GpuResult<()> {
        let wait = || {
            // SAFETY: the stream lives.
            unsafe { sys::cuStreamSynchronize(self.handle) }
        };
        let moment = self.launches.now();
        self.catch_strays();
        self.context.call("cuStreamSynchronize", wait)?;
        self.look_for_panics(moment)
    }

    /// The panic of what was launched before `moment`, after a wait for it.
    pub(super) fn look_for_panics(&self, moment: u64) -> GpuResult<()> {
        let result = Panics::of(&self.context).check(&self.launches);
        self.launches.done(moment);
        result.and_then(|()| HostPanics::of(&self.context).check(self.handle))
    }

    /// Notes a launch, whose panic is an error of the next wait.
    pub(crate) fn launches(&self, kernel: &'static str, config: &LaunchConfig) {
        self.launches.add(kernel, config, Panics::of(&self.context).serial());
    }

    /// A mark behind the work that is queued now; none while the stream is captured, since the
    /// mark would then become a part of the graph.
    pub(crate) fn end_unless_captured(&self) -> GpuResult<Option<Event>> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: `status` is writable, and the stream lives.
        let ask = || unsafe { sys::cuStreamIsCapturing(self.handle, &mut status) };
        self.context.call("cuStreamIsCapturing", ask)?;
        if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Ok(None);
        }
        let event = Event::untimed(&self.context)?;
        self.record(&event).map(|()| Some(event))
    }

    /// Whether it has work that is not done; not where a fault has ended it.
    pub(crate) fn is_busy(&self) -> bool {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.handle) };
        matches!(not_ready(self.context.call_uncounted("cuStreamQuery", query)), Ok(false))
    }

    /// Waits for the stream where an error could not be handled: in `drop`. Whether it succeeded.
    pub(crate) fn settle(&self) -> bool {
        // SAFETY: the stream lives.
        self.context.release(|| unsafe { sys::cuStreamSynchronize(self.handle) })
    }

    /// The same, but whether nothing of the stream's work is under way: a lost device has stopped.
    pub(crate) fn is_over(&self) -> bool {
        self.settle() || (self.context.lost().is_some() && !in_host_callback())
    }

    /// A mark behind the work that is queued now, for order alone.
    pub(crate) fn mark_end(self: &Arc<Self>) -> GpuResult<Event> {
        let mut event = Event::untimed(&self.context)?;
        let number = self.mark(&event)?;
        event.follows(&self.launches, self, number);
        Ok(event)
    }

    /// Lets `event` follow what is queued now.
    pub(crate) fn record_behind(&self, event: &Event) -> GpuResult<()> {
        event.launches().absorb(&self.launches);
        self.record(event)
    }

    pub(super) fn record(&self, event: &Event) -> GpuResult<()> {
        let record = || {
            // SAFETY: event and stream live and belong to one context.
            unsafe { sys::cuEventRecord(event.handle(), self.handle) }
        };
        self.context.call("cuEventRecord", record)
    }

    pub(super) fn wait_for(&self, event: &Event) -> GpuResult<()> {
        let wait = || {
            // SAFETY: event and stream live; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(self.handle, event.handle(), 0) }
        };
        self.context.call("cuStreamWaitEvent", wait)
    }

    /// Lets later work on this stream wait for the work that `other` has now.
    pub(super) fn wait_for_stream(&self, other: &Self) -> GpuResult<()> {
        self.launches.absorb(&other.launches);
        self.order_after(other)
    }

    /// The same where the results of that work are nobody's business here, nor its panics.
    pub(crate) fn order_after(&self, other: &Self) -> GpuResult<()> {
        other.record(&other.order)?;
        self.wait_for(&other.order)
    }

    /// Queues `work` on this stream, ordered with all other uses of what lives on `homes`.
    pub(crate) fn ordered(
        &self,
        homes: &[&StreamInner],
        work: impl FnOnce() -> GpuResult<()>,
    ) -> GpuResult<()> {
        let foreign = self.foreign(homes);
        foreign.iter().try_for_each(|home| self.wait_for_stream(home))?;
        work()?;
        self.give_back(&foreign)
    }

    /// Lets `homes` wait for the work that is queued here now.
    pub(super) fn give_back(&self, homes: &[&StreamInner]) -> GpuResult<()> {
        let joined = homes.iter().try_for_each(|home| home.wait_for_stream(self));
        // If the homes cannot be made to wait, this thread waits in their place.
        joined.inspect_err(|_| {
            if !self.settle() {
                homes.iter().for_each(|home| home.strays.store(true, Ordering::Release));
            }
        })
    }

    /// Waits for the whole device if work is on it that the stream should have waited for and could
    /// not be made to.
    pub(crate) fn catch_strays(&self) {
        if self.strays.load(Ordering::Acquire) {
            capture::device_wait(|| {
                // SAFETY: `release` made the context current.
                self.context.release(|| unsafe { sys::cuCtxSynchronize() })
            });
        }
    }

    /// The homes that are other streams than this one, each once.
    pub(super) fn foreign<'a>(&self, homes: &[&'a StreamInner]) -> Vec<&'a StreamInner> {
        let mut foreign: Vec<&StreamInner> = Vec::new();
        for &home in homes {
            if home.handle != self.handle && foreign.iter().all(|f| f.handle != home.handle) {
                foreign.push(home);
            }
        }
        foreign
    }

    /// Checks that memory whose home this is can be used on a stream of `context`.
    pub(crate) fn check_device(&self, context: &Context, what: &'static str) -> GpuResult<()> {
        check_same(context, &self.context, what)
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        HostPanics::of(&self.context).forget(self.handle);
        let handle = Handle(self.handle);
        // SAFETY: the handle is this stream's own and is not used again; the driver lets the work
        // that is queued on it finish.
        self.context.release_or_defer(move || unsafe { sys::cuStreamDestroy_v2(handle.get()) });
    }
}

/// Checks that what lives in the context `there` can be used in the context `here`.
pub(crate) fn check_same(here: &Context, there: &Context, what: &'static str) -> GpuResult<()> {
    if there.is(here) {
        return Ok(());
    }
    let (expected, found) = (here.info().ordinal, there.info().ordinal);
    Err(GpuError::WrongDevice { what, expected, found })
}

/// The stream behind an argument's home.
pub(crate) fn home_of(home: &Arc<dyn Any + Send + Sync>) -> Option<&StreamInner> {
    (**home).downcast_ref()
}
