//! Futures beyond those that the driver rings for: a thread asks whether their work is done.
//!
//! A driver that owes too many callbacks lets whoever asks for one more wait. So only some futures get
//! one; the others put events into their streams, which a thread of this crate queries as long as there
//! are any. It rests between its rounds, longer and longer while nothing passes, and up to a millisecond;
//! a callback that comes wakes it, for where one future was waiting mostly others were too.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::host_func::HostPanics;
use super::signal::{LOST, SUCCESS, Signal};
use crate::event::Event;
use crate::lock::lock;

/// The shortest rest, and the longest.
const RESTS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// A future's work is done when `event` has passed.
pub(crate) struct Mark {
    event: Event,
    /// The stream that has the event. Of its marks the first one added passes first.
    line: usize,
    signal: Arc<Signal>,
    /// What must live until then.
    _kept: Option<Box<dyn Any + Send>>,
}

impl Mark {
    /// The signal will ring when `event`, which was recorded in the stream `line`, has passed.
    pub(crate) fn new(
        event: Event,
        line: usize,
        signal: Arc<Signal>,
        kept: Option<Box<dyn Any + Send>>,
    ) -> Self {
        Self { event, line, signal, _kept: kept }
    }

    fn ring(&self, status: u32) {
        self.signal.ring(status, HostPanics::of(self.event.context()));
    }
}

/// The marks of a context that nobody rings for.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    marks: Vec<Mark>,
    /// Whether the thread runs. It ends with the last mark.
    runs: bool,
    /// Whether marks may have passed just now.
    hurry: bool,
}

impl Watch {
    /// Rings `mark.signal` when its event has passed. Where the system has no thread for that, this call
    /// waits in its place.
    pub(crate) fn add(&self, mark: Mark) {
        let mut state = lock(&self.0.state);
        state.runs = state.runs || self.start();
        if state.runs {
            return state.marks.push(mark);
        }
        drop(state);
        mark.ring(if mark.event.settle() { SUCCESS } else { LOST });
    }

    fn start(&self) -> bool {
        let (named, own) =
            (thread::Builder::new().name("ferrowarp futures".to_owned()), self.clone());
        named.spawn(move || own.run()).is_ok()
    }

    /// A callback came: others may be due.
    pub(super) fn hurry(&self) {
        let mut state = lock(&self.0.state);
        if state.runs {
            state.hurry = true;
            self.0.changed.notify_one();
        }
    }

    fn run(&self) {
        let [mut rest, longest] = RESTS;
        while let Some(marks) = self.take() {
            let before = marks.len();
            let pending = round(marks);
            rest = if pending.len() < before { RESTS[0] } else { (2 * rest).min(longest) };
            self.put_back(pending, rest);
        }
    }

    /// All marks; none, and the thread must end, where there are none.
    fn take(&self) -> Option<Vec<Mark>> {
        let mut state = lock(&self.0.state);
        state.runs = !state.marks.is_empty();
        state.runs.then(|| std::mem::take(&mut state.marks))
    }

    /// Puts back what is pending, before what has come meanwhile, and rests.
    fn put_back(&self, mut pending: Vec<Mark>, rest: Duration) {
        let mut state = lock(&self.0.state);
        pending.append(&mut state.marks);
        state.marks = pending;
        let quiet = |state: &mut State| !state.hurry && !state.marks.is_empty();
        let waited = self.0.changed.wait_timeout_while(state, rest, quiet);
        waited.unwrap_or_else(PoisonError::into_inner).0.hurry = false;
    }
}

/// Rings for what has passed, and gives back the rest.
fn round(marks: Vec<Mark>) -> Vec<Mark> {
    let (mut pending, mut standing) = (Vec::new(), Vec::new());
    for mark in marks {
        if standing.contains(&mark.line) {
            pending.push(mark);
            continue;
        }
        match mark.event.query() {
            Ok(false) => {
                standing.push(mark.line);
                pending.push(mark);
            }
            Ok(true) => mark.ring(SUCCESS),
            Err(error) => mark.ring(error.driver().map_or(LOST, |driver| driver.code())),
        }
    }
    pending
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Watch({} marks)", lock(&self.0.state).marks.len())
    }
}
