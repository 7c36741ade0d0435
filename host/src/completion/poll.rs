//! Futures that have no driver callback: a thread polls whether what they wait for is there.
//!
//! A driver with too many pending callbacks blocks the caller that adds one more. So only some
//! futures get a callback; the others record events, which a thread of this crate queries as long
//! as there are any. It sleeps between its rounds, longer and longer while no event completes, up
//! to a millisecond; a callback wakes it, because where one future was waiting there are mostly
//! others.
//!
//! The thread also polls what no driver calls back for: the rings that futures wait for, each a
//! [`PolledSource`], which says how long the thread may sleep.

use std::any::Any;
use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::host_func::HostPanics;
use super::signal::{LOST, SUCCESS, Signal};
use crate::event::Event;
use crate::lock::lock;

/// The shortest sleep between two rounds, and the longest.
const RESTS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// An event whose completion completes a signal.
pub(crate) struct PolledEvent {
    event: Event,
    /// The stream that recorded the event. Its events complete in the order in which they are
    /// added.
    stream: usize,
    signal: Arc<Signal>,
    /// What must live until then.
    _kept: Option<Box<dyn Any + Send>>,
}

impl PolledEvent {
    /// `signal` is to be completed when `event`, which was recorded on the stream `stream`, is
    /// complete.
    pub(crate) fn new(
        event: Event,
        stream: usize,
        signal: Arc<Signal>,
        kept: Option<Box<dyn Any + Send>>,
    ) -> Self {
        Self { event, stream, signal, _kept: kept }
    }

    fn complete(&self, status: u32) {
        self.signal.complete(status, HostPanics::of(self.event.context()));
    }
}

/// What futures wait for beside events.
pub(crate) trait PolledSource: Send {
    /// Wakes the futures whose wait is over. How long the thread may sleep before it polls again;
    /// `None` if no future waits, and then it polls no more.
    fn poll(&mut self) -> Option<Duration>;
}

type Sources = Vec<Box<dyn PolledSource>>;

/// The events and other sources of a context that are polled.
#[derive(Clone, Default)]
pub(crate) struct Poller(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: Vec<PolledEvent>,
    sources: Sources,
    /// Whether the thread runs. It ends with the last event and the last source.
    runs: bool,
    /// Whether events may have completed just now, so that the next round should not wait.
    poll_now: bool,
}

impl Poller {
    /// Completes the signal when the event is complete. If the system has no thread for that, this
    /// call waits instead.
    pub(crate) fn add(&self, polled: PolledEvent) {
        let mut state = lock(&self.0.state);
        state.runs = state.runs || self.start();
        if state.runs {
            return state.events.push(polled);
        }
        drop(state);
        polled.complete(if polled.event.drain() { SUCCESS } else { LOST });
    }

    /// Polls the source from now on. Whether there is a thread for that.
    pub(crate) fn add_source(&self, source: Box<dyn PolledSource>) -> bool {
        let mut state = lock(&self.0.state);
        state.runs = state.runs || self.start();
        if state.runs {
            state.sources.push(source);
        }
        let runs = state.runs;
        drop(state);
        self.poll_now();
        runs
    }

    fn start(&self) -> bool {
        let (named, own) =
            (thread::Builder::new().name("ferrowarp futures".to_owned()), self.clone());
        named.spawn(move || own.run()).is_ok()
    }

    /// Polls without a rest: a callback came, so other events may be complete too, or another future
    /// waits for a source.
    pub(crate) fn poll_now(&self) {
        let mut state = lock(&self.0.state);
        if state.runs {
            state.poll_now = true;
            self.0.changed.notify_one();
        }
    }

    fn run(&self) {
        let [mut rest, longest] = RESTS;
        while let Some((events, sources)) = self.take() {
            let before = events.len();
            let pending = round(events);
            rest = if pending.len() < before { RESTS[0] } else { (2 * rest).min(longest) };
            let (sources, soonest) = poll_all(sources);
            self.put_back(pending, sources, rest.min(soonest));
        }
    }

    /// All events and sources; `None` where there are none, and then the thread must end.
    fn take(&self) -> Option<(Vec<PolledEvent>, Sources)> {
        let mut state = lock(&self.0.state);
        state.runs = !state.is_empty();
        state.runs.then(|| (mem::take(&mut state.events), mem::take(&mut state.sources)))
    }

    /// Puts back what is pending, in front of what was added meanwhile, and sleeps.
    fn put_back(&self, mut pending: Vec<PolledEvent>, mut sources: Sources, rest: Duration) {
        let mut state = lock(&self.0.state);
        pending.append(&mut state.events);
        sources.append(&mut state.sources);
        (state.events, state.sources) = (pending, sources);
        let quiet = |state: &mut State| !state.poll_now && !state.is_empty();
        let waited = self.0.changed.wait_timeout_while(state, rest, quiet);
        waited.unwrap_or_else(PoisonError::into_inner).0.poll_now = false;
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.sources.is_empty()
    }
}

/// Polls each source; returns those that futures still wait for, and how long the thread may rest.
fn poll_all(sources: Sources) -> (Sources, Duration) {
    let mut soonest = Duration::MAX;
    let polled = sources.into_iter().filter_map(|mut source| {
        soonest = source.poll()?.min(soonest);
        Some(source)
    });
    (polled.collect(), soonest)
}

/// Completes the signals of the complete events, and returns the other events.
fn round(events: Vec<PolledEvent>) -> Vec<PolledEvent> {
    let (mut pending, mut standing) = (Vec::new(), Vec::new());
    for polled in events {
        if standing.contains(&polled.stream) {
            pending.push(polled);
            continue;
        }
        match polled.event.query() {
            Ok(false) => {
                standing.push(polled.stream);
                pending.push(polled);
            }
            Ok(true) => polled.complete(SUCCESS),
            Err(error) => polled.complete(error.driver().map_or(LOST, |driver| driver.code())),
        }
    }
    pending
}

impl fmt::Debug for Poller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = lock(&self.0.state);
        write!(f, "Poller({} events, {} sources)", state.events.len(), state.sources.len())
    }
}
