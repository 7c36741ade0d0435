//! The marks in a stream, and the bell that rings when the stream has come to one.
//!
//! Marks of one stream pass in their order. So one bell serves all that are asked for in that order,
//! and a mark that is asked for behind a later one gets a bell of its own: else it would ring too late.

use std::any::Any;
use std::sync::{Arc, MutexGuard, PoisonError};

use cust::sys;

use super::StreamInner;
use crate::completion::{Bell, Completion, Of, SUCCESS, Signal};
use crate::error::{DriverError, GpuError, GpuResult};
use crate::event::{Event, not_ready};

/// Marks of a stream.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// The number of the last one.
    last: u64,
    /// The last one that the bell rings for.
    rung: u64,
    bell: Option<Bell>,
}

impl StreamInner {
    /// Records `event`, and numbers it.
    pub(super) fn mark(&self, event: &Event) -> GpuResult<u64> {
        let mut marks = self.marks();
        self.record(event)?;
        marks.last += 1;
        Ok(marks.last)
    }

    /// The end of all work that is queued now; `kept` lives until then.
    pub(crate) fn completed(self: &Arc<Self>, kept: Option<Box<dyn Any + Send>>) -> Completion {
        let moment = self.launches.now();
        let armed = self.arm(&mut self.marks(), kept);
        Completion::new(self, armed, Of::Stream(moment))
    }

    fn arm(&self, marks: &mut Marks, kept: Option<Box<dyn Any + Send>>) -> GpuResult<Arc<Signal>> {
        self.record(&self.order)?;
        marks.last += 1;
        let last = marks.last;
        self.ring_after(marks, last, &self.order, kept)
    }

    /// The end of the work before `event`, the mark of that number.
    pub(crate) fn completed_event(self: &Arc<Self>, event: &Event, number: u64) -> Completion {
        let mut marks = self.marks();
        let armed = if number >= marks.rung {
            self.ring_after(&mut marks, number, event, None)
        } else {
            // SAFETY: the event lives and was recorded here.
            Bell::new(&self.context)
                .and_then(|bell| unsafe { bell.ring_after(event.handle(), None) })
        };
        Completion::new(self, armed, Of::Event(event.launches().clone()))
    }

    fn ring_after(
        &self,
        marks: &mut Marks,
        number: u64,
        event: &Event,
        kept: Option<Box<dyn Any + Send>>,
    ) -> GpuResult<Arc<Signal>> {
        if marks.bell.is_none() {
            marks.bell = Some(Bell::new(&self.context)?);
        }
        let bell = marks.bell.as_ref().expect("it was made above");
        // SAFETY: the event lives and was recorded here.
        let signal = unsafe { bell.ring_after(event.handle(), kept) }?;
        marks.rung = number;
        Ok(signal)
    }

    /// What a wait brings whose bell was rung with `status`.
    pub(crate) fn after_ring(&self, status: u32, of: &Of) -> GpuResult<()> {
        match of {
            _ if status != SUCCESS => Err(self.failure(status)),
            Of::Stream(moment) => self.look_for_panics(*moment),
            Of::Event(launches) => self.context.panics().check(launches),
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
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
