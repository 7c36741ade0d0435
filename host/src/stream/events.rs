//! The marks in a stream, and the bell that rings when the stream has come to one.
//!
//! Marks of one stream pass in their order. So one bell serves all that are asked for in that order,
//! and a mark that is asked for behind a later one gets a bell of its own: else it would ring too late.
//! Who asks again before anybody has queued anything waits for the mark that is there.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use cust::sys;

use super::StreamInner;
use crate::completion::{Bell, Completion, Mark, Of, SUCCESS, Signal, Waiting};
use crate::error::{DriverError, GpuError, GpuResult};
use crate::event::{Event, not_ready};
use crate::lock::lock;
use crate::panic::Panics;

/// Marks of a stream.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The number of the last one.
    last: u64,
    /// The last one that the bell rings for.
    rung: u64,
    bell: Option<Bell>,
    /// What rings for the end of the stream, and [`Context::submissions`] when that was marked.
    ///
    /// [`Context::submissions`]: crate::context::Context::submissions
    end: Option<(u64, Arc<Signal>)>,
}

/// What must live until a bell has rung.
type Kept = Option<Box<dyn Any + Send>>;

impl StreamInner {
    /// Records `event`, and numbers it.
    pub(super) fn mark(&self, event: &Event) -> GpuResult<u64> {
        let mut marks = self.marks();
        self.record(event)?;
        marks.last += 1;
        Ok(marks.last)
    }

    /// The end of all work that is queued now; `kept` lives until then.
    pub(crate) fn completed(self: &Arc<Self>, kept: Kept) -> Completion {
        let moment = self.launches.now();
        let armed = self.end(&mut self.marks(), kept);
        Completion::new(self, armed, Of::Stream(moment))
    }

    /// What rings at the end of all work that is queued now.
    fn end(&self, marks: &mut Marks, kept: Kept) -> GpuResult<Arc<Signal>> {
        // Asked before the mark is made: what is queued meanwhile by others may be in front of it or not.
        let work = self.context.submissions();
        if kept.is_none()
            && let Some(signal) = self.same_end(marks, work)
        {
            return Ok(signal);
        }
        let signal = self.arm(marks, kept)?;
        marks.end = Some((work, signal.clone()));
        Ok(signal)
    }

    /// What rings at the end already, if nobody has queued anything since. Who has the driver's handle
    /// may have.
    fn same_end(&self, marks: &Marks, work: u64) -> Option<Arc<Signal>> {
        let (before, signal) = marks.end.as_ref()?;
        let is_same = *before == work && !self.is_known_outside() && !signal.has_failed();
        is_same.then(|| signal.clone())
    }

    fn arm(&self, marks: &mut Marks, kept: Kept) -> GpuResult<Arc<Signal>> {
        if Waiting::of(&self.context).may_ring() {
            self.put(&self.order)?;
            marks.last += 1;
            let last = marks.last;
            return self.ring_after(marks, last, &self.order, kept);
        }
        let event = Event::untimed(&self.context)?;
        self.put(&event)?;
        marks.last += 1;
        Ok(self.watch(event, self.handle.addr(), kept))
    }

    /// Rings when `event` has passed, without the driver's help.
    fn watch(&self, event: Event, line: usize, kept: Kept) -> Arc<Signal> {
        let signal = Signal::of(self.handle);
        Waiting::of(&self.context).watch().add(Mark::new(event, line, signal.clone(), kept));
        signal
    }

    /// The end of the work before `event`, the mark of that number; `ring` is what rings for it once
    /// somebody has asked.
    pub(crate) fn completed_event(
        self: &Arc<Self>,
        event: &Event,
        number: u64,
        ring: &Mutex<Option<Arc<Signal>>>,
    ) -> Completion {
        let mut marks = self.marks();
        let mut ring = lock(ring);
        let known = ring.clone().filter(|signal| !signal.has_failed());
        let armed = match known {
            Some(signal) => Ok(signal),
            None => self.arm_event(&mut marks, event, number),
        };
        *ring = armed.as_ref().ok().cloned();
        Completion::new(self, armed, Of::Event(event.launches().clone()))
    }

    fn arm_event(&self, marks: &mut Marks, event: &Event, number: u64) -> GpuResult<Arc<Signal>> {
        if number >= marks.rung {
            return self.ring_after(marks, number, event, None);
        }
        let bell = Bell::new(&self.context)?;
        self.ring_by(&bell, event, None)
    }

    fn ring_after(
        &self,
        marks: &mut Marks,
        number: u64,
        event: &Event,
        kept: Kept,
    ) -> GpuResult<Arc<Signal>> {
        if marks.bell.is_none() {
            marks.bell = Some(Bell::new(&self.context)?);
        }
        let bell = marks.bell.as_ref().expect("it was made above");
        let signal = self.ring_by(bell, event, kept)?;
        marks.rung = number;
        Ok(signal)
    }

    fn ring_by(&self, bell: &Bell, event: &Event, kept: Kept) -> GpuResult<Arc<Signal>> {
        if Waiting::of(&self.context).may_ring() {
            let signal = Signal::of(self.handle);
            // SAFETY: the event lives and was recorded here.
            unsafe { bell.ring_after(event.handle(), &signal, kept) }?;
            return Ok(signal);
        }
        // SAFETY: as above.
        let (own, line) = unsafe { bell.mark_after(event.handle()) }?;
        Ok(self.watch(own, line, kept))
    }

    /// Records an event that nobody but a future waits for.
    fn put(&self, event: &Event) -> GpuResult<()> {
        self.context.call_uncounted("cuEventRecord", || {
            // SAFETY: event and stream live and belong to one context.
            unsafe { sys::cuEventRecord(event.handle(), self.handle) }
        })
    }

    /// What a wait brings whose bell was rung with `status`.
    pub(crate) fn after_ring(&self, status: u32, of: &Of) -> GpuResult<()> {
        match of {
            _ if status != SUCCESS => Err(self.failure(status)),
            Of::Stream(moment) => self.look_for_panics(*moment),
            Of::Event(launches) => Panics::of(&self.context).check(launches),
        }
    }

    /// The fault behind `status`: the driver tells more to who asks it.
    fn failure(&self, status: u32) -> GpuError {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.handle) };
        let asked = not_ready(self.context.call("cuStreamQuery", query));
        asked.err().unwrap_or_else(|| DriverError::new("cuStreamAddCallback", status).into())
    }

    /// A panic while the lock is held leaves the marks whole, so poison is no reason to stop.
    fn marks(&self) -> MutexGuard<'_, Marks> {
        lock(&self.marks)
    }
}
