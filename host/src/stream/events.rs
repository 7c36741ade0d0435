//! The events of a stream, and the signals that are completed when the stream has come to one.
//!
//! The events of a stream complete in their order. So one callback stream serves all events that
//! are awaited in that order; an event that is awaited after a later one gets a callback stream of
//! its own, because its signal would be completed too late. If nothing was enqueued since the last
//! signal was made, that one is used again.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_driver::sys;

use super::StreamInner;
use crate::completion::{
    Awaited, CallbackStream, Completion, PendingSignals, PolledEvent, SUCCESS, Signal,
};
use crate::error::{DriverError, GpuError, GpuResult};
use crate::event::{Event, not_ready};
use crate::host_callback::keeping_deferred;
use crate::lock::lock;
use crate::panic::Panics;

/// The numbers of a stream's events, and its callback stream.
#[derive(Debug, Default)]
pub(super) struct EventLog {
    /// The number of the last event.
    last: u64,
    /// The last event that `callbacks` waits for.
    last_signalled: u64,
    callbacks: Option<CallbackStream>,
    /// The signal for the end of the stream, and [`Context::submissions`] before its event was
    /// recorded.
    ///
    /// [`Context::submissions`]: crate::context::Context::submissions
    end: Option<(u64, Arc<Signal>)>,
}

/// What must live until a signal is complete.
type Kept = Option<Box<dyn Any + Send>>;

impl StreamInner {
    /// Records `event`, and numbers it.
    pub(super) fn record_numbered(&self, event: &Event) -> GpuResult<u64> {
        keeping_deferred(|| {
            let mut events = self.events();
            self.record_raw(event)?;
            events.last += 1;
            Ok(events.last)
        })
    }

    /// A future for the end of all work that is enqueued now; `kept` lives until then.
    pub(crate) fn completed(self: &Arc<Self>, kept: Kept) -> Completion {
        // Read before the epoch begins: whoever launches in it without counting has counted a launch of the epoch, and so
        // after this.
        let work = self.context.submissions();
        let moment = self.launches.clock();
        let armed = keeping_deferred(|| self.end_signal(&mut self.events(), work, kept));
        Completion::new(self, armed, Awaited::Stream(moment))
    }

    /// The signal for the end of all work that is enqueued now. `work` are the context's submissions, read before the epoch
    /// of launches began in which the event is recorded.
    fn end_signal(&self, events: &mut EventLog, work: u64, kept: Kept) -> GpuResult<Arc<Signal>> {
        if kept.is_none()
            && let Some(signal) = self.unchanged_end_signal(events, work)
        {
            return Ok(signal);
        }
        let signal = self.signal_end(events, kept)?;
        events.end = Some((work, signal.clone()));
        Ok(signal)
    }

    /// The last signal, if no work was enqueued since. Code that has the driver's handle may have
    /// enqueued some.
    fn unchanged_end_signal(&self, events: &EventLog, work: u64) -> Option<Arc<Signal>> {
        let (before, signal) = events.end.as_ref()?;
        let is_same = *before == work && !self.is_exported() && !signal.has_failed();
        is_same.then(|| signal.clone())
    }

    fn signal_end(&self, events: &mut EventLog, kept: Kept) -> GpuResult<Arc<Signal>> {
        if PendingSignals::of(&self.context).may_add_callback() {
            self.record_uncounted(&self.order)?;
            events.last += 1;
            let last = events.last;
            return self.complete_after(events, last, &self.order, kept);
        }
        let event = Event::untimed(&self.context)?;
        self.record_uncounted(&event)?;
        events.last += 1;
        Ok(self.poll_event(event, self.handle.addr(), kept))
    }

    /// A signal that is completed when `event` is complete, by polling.
    fn poll_event(&self, event: Event, line: usize, kept: Kept) -> Arc<Signal> {
        let signal = Signal::of(self.handle);
        PendingSignals::of(&self.context).poller().add(PolledEvent::new(
            event,
            line,
            signal.clone(),
            kept,
        ));
        signal
    }

    /// A future for the work before `event`, which has that number; `kept_signal` keeps the event's signal
    /// once there is one.
    pub(crate) fn completed_event(
        self: &Arc<Self>,
        event: &Event,
        number: u64,
        kept_signal: &Mutex<Option<Arc<Signal>>>,
    ) -> Completion {
        let armed = keeping_deferred(|| {
            let mut events = self.events();
            let mut kept_signal = lock(kept_signal);
            let known = kept_signal.clone().filter(|signal| !signal.has_failed());
            let armed = match known {
                Some(signal) => Ok(signal),
                None => self.signal_event(&mut events, event, number),
            };
            *kept_signal = armed.as_ref().ok().cloned();
            armed
        });
        Completion::new(self, armed, Awaited::Event(event.launches().clone()))
    }

    fn signal_event(
        &self,
        events: &mut EventLog,
        event: &Event,
        number: u64,
    ) -> GpuResult<Arc<Signal>> {
        if number >= events.last_signalled {
            return self.complete_after(events, number, event, None);
        }
        let callbacks = CallbackStream::new(&self.context)?;
        self.complete_by(&callbacks, event, None)
    }

    fn complete_after(
        &self,
        events: &mut EventLog,
        number: u64,
        event: &Event,
        kept: Kept,
    ) -> GpuResult<Arc<Signal>> {
        if events.callbacks.is_none() {
            events.callbacks = Some(CallbackStream::new(&self.context)?);
        }
        let callbacks = events.callbacks.as_ref().expect("it was made above");
        let signal = self.complete_by(callbacks, event, kept)?;
        events.last_signalled = number;
        Ok(signal)
    }

    fn complete_by(
        &self,
        callbacks: &CallbackStream,
        event: &Event,
        kept: Kept,
    ) -> GpuResult<Arc<Signal>> {
        if PendingSignals::of(&self.context).may_add_callback() {
            let signal = Signal::of(self.handle);
            // SAFETY: the event lives and was recorded here.
            unsafe { callbacks.complete_after(event.handle(), &signal, kept) }?;
            return Ok(signal);
        }
        // SAFETY: as above.
        let (own, line) = unsafe { callbacks.record_after(event.handle()) }?;
        Ok(self.poll_event(own, line, kept))
    }

    /// Records an event that only a future waits for, so that it does not count as work.
    fn record_uncounted(&self, event: &Event) -> GpuResult<()> {
        self.context.call_uncounted("cuEventRecord", || {
            // SAFETY: event and stream live and belong to one context.
            unsafe { sys::cuEventRecord(event.handle(), self.handle()) }
        })
    }

    /// The result of a wait whose signal was completed with `status`.
    pub(crate) fn completion_result(&self, status: u32, of: &Awaited) -> GpuResult<()> {
        match of {
            _ if status != SUCCESS => Err(self.failure(status)),
            Awaited::Stream(moment) => self.check_panics(*moment),
            Awaited::Event(launches) => Panics::of(&self.context).check(launches),
        }
    }

    /// The fault behind `status`: a query of the stream returns it with its details.
    fn failure(&self, status: u32) -> GpuError {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.handle) };
        let asked = not_ready(self.context.call("cuStreamQuery", query));
        asked.err().unwrap_or_else(|| DriverError::new("cuStreamAddCallback", status).into())
    }

    /// The log, for [`keeping_deferred`]: the drop of what is deferred may ask this stream for a future.
    fn events(&self) -> MutexGuard<'_, EventLog> {
        lock(&self.events)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use kernels_gpu::elementwise::saxpy;

    use super::*;
    use crate::host_callback::defer_drop;
    use crate::{DeviceBuffer, Gpu, LaunchConfig};

    /// What is deferred may be dropped in a driver call that holds the log of a stream.
    #[test]
    fn the_drop_of_what_is_deferred_may_ask_for_a_future() {
        struct Asks(Arc<StreamInner>, mpsc::Sender<()>);
        impl Drop for Asks {
            fn drop(&mut self) {
                drop(self.0.completed(None));
                let _ = self.1.send(());
            }
        }
        let gpu = Gpu::new().unwrap();
        let stream = gpu.stream().inner();
        let (sender, dropped) = mpsc::channel();
        // In a thread, so that a deadlock is a failure.
        let own = stream.clone();
        std::thread::spawn(move || {
            defer_drop(Box::new(Asks(own.clone(), sender)));
            drop(own.completed(None));
            own.synchronize().unwrap();
        });
        let longest = std::time::Duration::from_secs(20);
        assert_eq!(dropped.recv_timeout(longest), Ok(()), "it deadlocks");
        gpu.synchronize().unwrap();
    }

    #[test]
    fn a_signal_serves_until_something_is_enqueued() {
        let gpu = Gpu::new().unwrap();
        let stream = gpu.stream().inner();
        let x = DeviceBuffer::from_slice(&gpu, &[1.0f32; 4]).unwrap();
        let mut y = DeviceBuffer::<f32>::zeroed(&gpu, 4).unwrap();
        let mut launch = |times: usize| {
            let all = LaunchConfig::for_num_elems(4);
            (0..times).for_each(|_| saxpy::launch(&gpu, all, 1.0, &x, &mut y).unwrap());
        };
        let signal = || {
            drop(stream.completed(None));
            stream.events().end.as_ref().unwrap().1.clone()
        };
        let mut last = signal();
        // The first launches of an epoch are counted, and the repeated ones are not.
        for times in [2, 1, 3, 1] {
            launch(times);
            let next = signal();
            assert!(!Arc::ptr_eq(&last, &next), "{times} launches");
            assert!(Arc::ptr_eq(&next, &signal()), "nothing after {times} launches");
            last = next;
        }
        gpu.synchronize().unwrap();
    }
}
