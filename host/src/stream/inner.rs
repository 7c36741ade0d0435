//! The driver's stream, which buffers, events and futures share with the programs that hold it.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};

use cuda_driver::sys::{self, stream_flags::NON_BLOCKING};
use cuda_std::launch::{Home, LaunchConfig};

use super::events::EventLog;
use super::fork::Postponed;
use crate::capture;
use crate::completion::HostPanics;
use crate::context::{Context, Handle};
use crate::error::{GpuError, GpuResult};
use crate::event::{Event, not_ready};
use crate::foreign::ForeignOwner;
use crate::host_callback::in_host_callback;
use crate::panic::{Epoch, LaunchQueue, Launches, Panics};

/// The driver's stream. Buffers hold it, so it outlives them.
pub(crate) struct StreamInner {
    pub(super) context: Arc<Context>,
    pub(super) handle: sys::CUstream,
    /// Recorded whenever another stream has to wait for this one. One is enough: a wait takes the
    /// latest record at the moment that it is queued, and a later one only orders more.
    pub(super) order: Event,
    /// The launches whose panics its next wait reports.
    pub(super) launches: Arc<Launches>,
    /// Its events, and the signals for them.
    pub(super) events: Mutex<EventLog>,
    /// Whether work on other streams, which this one should wait for, may be unfinished.
    pub(super) has_unordered_work: AtomicBool,
    /// Whether code outside of this crate knows the handle, and may enqueue work that the crate
    /// does not see.
    pub(super) exported: AtomicBool,
    /// Uses of memory whose home this is that it has not been made to wait for.
    pub(super) postponed: Postponed,
    /// What the driver's stream belongs to, and ends with; `None` where it belongs to this one.
    owner: Option<Arc<dyn ForeignOwner>>,
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
        let order = Event::untimed(context)?;
        let mut handle = ptr::null_mut();
        context.call("cuStreamCreateWithPriority", || {
            // SAFETY: `handle` is writable.
            unsafe { sys::cuStreamCreateWithPriority(&mut handle, NON_BLOCKING, priority) }
        })?;
        Ok(Self::with_handle(context, handle, order, None))
    }

    /// A stream of other code, which it ends with `owner`.
    ///
    /// # Safety
    /// `handle` is a stream of `context` that lives as long as `owner`.
    pub(crate) unsafe fn of_owner(
        context: &Arc<Context>,
        handle: sys::CUstream,
        owner: Arc<dyn ForeignOwner>,
    ) -> GpuResult<Self> {
        let own = Self::with_handle(context, handle, Event::untimed(context)?, Some(owner));
        own.exported.store(true, Ordering::Release);
        Ok(own)
    }

    fn with_handle(
        context: &Arc<Context>,
        handle: sys::CUstream,
        order: Event,
        owner: Option<Arc<dyn ForeignOwner>>,
    ) -> Self {
        Self {
            context: context.clone(),
            handle,
            order,
            launches: Panics::of(context).new_launches(),
            events: Mutex::default(),
            has_unordered_work: AtomicBool::new(false),
            exported: AtomicBool::new(false),
            postponed: Postponed::default(),
            owner,
        }
    }

    /// The stream as buffers and programs hold it. From now on its launches know whether they are done.
    pub(super) fn into_shared(self) -> Arc<Self> {
        let own = Arc::new(self);
        let queue: Weak<dyn LaunchQueue> = Arc::<Self>::downgrade(&own);
        own.launches.set_queue(queue);
        own
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The driver's handle, to enqueue on the stream or to wait for it: uses that were postponed are in its order now.
    pub(crate) fn handle(&self) -> sys::CUstream {
        self.join_postponed();
        self.handle
    }

    /// The handle for code outside of this crate.
    pub(crate) fn export_handle(&self) -> sys::CUstream {
        self.exported.store(true, Ordering::Release);
        self.handle()
    }

    pub(super) fn is_exported(&self) -> bool {
        self.exported.load(Ordering::Acquire)
    }

    pub(crate) fn synchronize(&self) -> GpuResult<()> {
        let wait = || {
            // SAFETY: the stream lives.
            unsafe { sys::cuStreamSynchronize(self.handle()) }
        };
        let moment = self.launches.clock();
        self.wait_for_unordered_work();
        self.context.call("cuStreamSynchronize", wait)?;
        self.check_panics(moment)
    }

    /// Reports a panic of what was launched before `moment`, after a wait for it.
    pub(super) fn check_panics(&self, moment: u64) -> GpuResult<()> {
        let result = Panics::of(&self.context).check(&self.launches);
        self.launches.remove_until(moment);
        result.and_then(|()| HostPanics::of(&self.context).check(self.handle))
    }

    /// Notes a launch, whose panic will be the error of the next wait. The epoch in which it is noted.
    pub(crate) fn note_launch(&self, kernel: &'static str, config: &LaunchConfig) -> Epoch {
        self.launches.add(kernel, config)
    }

    /// The epoch of the launches that are made now.
    #[inline]
    pub(crate) fn launch_epoch(&self) -> Epoch {
        self.launches.epoch()
    }

    /// Records an event after the work that is enqueued now; none while the stream is captured,
    /// because the event would become part of the graph.
    pub(crate) fn record_event_unless_captured(&self) -> GpuResult<Option<Event>> {
        let mut status = sys::stream_capture_status::NONE;
        // SAFETY: `status` is writable, and the stream lives.
        let ask = || unsafe { sys::cuStreamIsCapturing(self.handle(), &mut status) };
        self.context.call("cuStreamIsCapturing", ask)?;
        if status != sys::stream_capture_status::NONE {
            return Ok(None);
        }
        let event = Event::untimed(&self.context)?;
        self.record_raw(&event).map(|()| Some(event))
    }

    /// Whether it has unfinished work. After a fault it has none.
    pub(crate) fn is_busy(&self) -> bool {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.handle()) };
        matches!(not_ready(self.context.call_uncounted("cuStreamQuery", query)), Ok(false))
    }

    /// Waits for the stream where an error could not be handled: in `drop`. Returns whether the
    /// wait succeeded.
    pub(crate) fn try_synchronize(&self) -> bool {
        // SAFETY: the stream lives.
        self.context.release(|| unsafe { sys::cuStreamSynchronize(self.handle()) })
    }

    /// Like [`try_synchronize`](Self::try_synchronize), but returns whether none of the stream's
    /// work still runs: a lost device has stopped.
    pub(crate) fn drain(&self) -> bool {
        self.try_synchronize() || (self.context.lost().is_some() && !in_host_callback())
    }

    /// Records an event without timing after the work that is enqueued now.
    pub(crate) fn record_untimed_event(self: &Arc<Self>) -> GpuResult<Event> {
        let mut event = Event::untimed(&self.context)?;
        let number = self.record_numbered(&event)?;
        event.set_recorded(&self.launches, self, number);
        Ok(event)
    }

    /// Records `event`, which then stands for the launches until now.
    pub(crate) fn record_into(&self, event: &Event) -> GpuResult<()> {
        event.launches().absorb(&self.launches);
        self.record_raw(event)
    }

    pub(super) fn record_raw(&self, event: &Event) -> GpuResult<()> {
        let record = || {
            // SAFETY: event and stream live and belong to one context.
            unsafe { sys::cuEventRecord(event.handle(), self.handle()) }
        };
        self.context.call("cuEventRecord", record)
    }

    pub(super) fn wait_event(&self, event: &Event) -> GpuResult<()> {
        let wait = || {
            // SAFETY: event and stream live; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(self.handle(), event.handle(), 0) }
        };
        self.context.call("cuStreamWaitEvent", wait)
    }

    /// Makes later work on this stream wait for the work that `other` has now; the next wait here
    /// reports its panics too.
    pub(crate) fn wait_stream(&self, other: &Self) -> GpuResult<()> {
        self.launches.absorb(&other.launches);
        self.wait_stream_for_order(other)
    }

    /// Like [`wait_stream`](Self::wait_stream), for order alone: this stream does not use the
    /// results, and does not report the panics.
    pub(crate) fn wait_stream_for_order(&self, other: &Self) -> GpuResult<()> {
        other.record_raw(&other.order)?;
        self.wait_event(&other.order)
    }

    /// Enqueues `work` on this stream, ordered with all other uses of the memory whose homes are
    /// `homes`.
    pub(crate) fn ordered(
        &self,
        homes: &[&StreamInner],
        work: impl FnOnce() -> GpuResult<()>,
    ) -> GpuResult<()> {
        if homes.iter().all(|home| home.handle == self.handle) {
            return work();
        }
        let foreign = self.other_streams(homes);
        foreign.iter().try_for_each(|home| self.wait_stream(home))?;
        work()?;
        self.make_homes_wait(&foreign)
    }

    /// Like [`ordered`](Self::ordered), for work that may be enqueued in part when it fails.
    pub(crate) fn ordered_whatever(
        &self,
        homes: &[&StreamInner],
        work: impl FnOnce() -> GpuResult<()>,
    ) -> GpuResult<()> {
        let foreign = self.other_streams(homes);
        foreign.iter().try_for_each(|home| self.wait_stream(home))?;
        let result = work();
        let joined = self.make_homes_wait(&foreign);
        result.and(joined)
    }

    /// Makes `homes` wait for the work that is enqueued here now.
    pub(super) fn make_homes_wait(&self, homes: &[&StreamInner]) -> GpuResult<()> {
        let joined = homes.iter().try_for_each(|home| home.wait_stream(self));
        // If the homes cannot be made to wait, this thread waits in their place.
        joined.inspect_err(|_| {
            if !self.try_synchronize() {
                homes
                    .iter()
                    .for_each(|home| home.has_unordered_work.store(true, Ordering::Release));
            }
        })
    }

    /// Waits for the whole device if there is work on it that this stream could not be made to wait
    /// for.
    pub(crate) fn wait_for_unordered_work(&self) {
        if self.has_unordered_work.load(Ordering::Acquire) {
            capture::device_wait(|| {
                // SAFETY: `release` made the context current.
                self.context.release(|| unsafe { sys::cuCtxSynchronize() })
            });
        }
    }

    /// The homes that are other streams than this one, each once.
    pub(super) fn other_streams<'a>(&self, homes: &[&'a StreamInner]) -> Vec<&'a StreamInner> {
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

impl LaunchQueue for StreamInner {
    /// This may run while an error is handled, so a fault that the driver returns here is left to the next call.
    fn is_done(&self) -> bool {
        let mut status = sys::stream_capture_status::NONE;
        // A query would break a capture.
        // SAFETY: `status` is writable, and the stream lives.
        let asked = || unsafe { sys::cuStreamIsCapturing(self.handle, &mut status) };
        self.context.release(asked)
            && status == sys::stream_capture_status::NONE
            // SAFETY: as above.
            && self.context.release(|| unsafe { sys::cuStreamQuery(self.handle) })
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        HostPanics::of(&self.context).forget(self.handle);
        if let Some(owner) = self.owner.take() {
            return self.context.release_or_defer(move || {
                drop(owner);
                sys::CUresult::CUDA_SUCCESS
            });
        }
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
    Err(match expected == found {
        true => GpuError::WrongContext { what, ordinal: found },
        false => GpuError::WrongDevice { what, expected, found },
    })
}

/// The stream behind an argument's home.
pub(crate) fn home_of(home: Home<'_>) -> Option<&StreamInner> {
    home.downcast_ref()
}
