//! Futures for the work of a stream, and host callbacks.
//!
//! Any executor can await these futures, because they need only a [`Waker`]. One driver callback
//! serves all futures that wait for the same point of a stream. It runs on a stream of its own that
//! waits for an event, so that no work waits for the callback. A fault calls back too, and a device
//! that is found lost completes all futures: none waits forever.
//!
//! A driver takes a limited number of pending callbacks: on an H200, adding the hundredth one after
//! work that does not end blocks until some of that work is done. So a context has at most 16
//! pending, and a thread polls the events of the other futures for as long as there are any. Host
//! callbacks ([`launch_host_func`](crate::Stream::launch_host_func)) are called by the driver
//! alone, on one thread for all streams of the process: a callback that waits delays all others,
//! and with some dozens of them pending after work that hangs, adding one more blocks.
//!
//! ```no_run
//! use ferrowarp::completion::block_on;
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let mut words = DeviceBuffer::<u32>::zeroed(&gpu, 1 << 20)?;
//! words.clear()?;
//! block_on(gpu.stream().completed())?;
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! [`Waker`]: std::task::Waker

mod callback;
mod host_func;
mod poll;
mod signal;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};

pub(crate) use callback::CallbackStream;
pub use host_func::HostCall;
pub(crate) use host_func::{HostPanics, launch};
pub(crate) use poll::{PolledEvent, PolledSource};
pub(crate) use signal::{Listener, PendingSignals, SUCCESS, Signal, wake_all};

use crate::error::{GpuError, GpuResult};
use crate::panic::Launches;
use crate::stream::StreamInner;

/// A future for the end of work on a stream: of all work that was enqueued when
/// [`Stream::completed`](crate::Stream::completed) was called, or before an
/// [`Event`](crate::Event).
///
/// The work does not depend on it: polling it is not needed, and dropping it has no effect.
#[derive(Debug)]
#[must_use = "nobody waits unless it is awaited"]
pub struct Completion {
    state: State,
}

#[derive(Debug)]
enum State {
    /// There was nothing to wait for.
    Done,
    /// It could not be made.
    Failed(Option<GpuError>),
    Armed {
        listener: Listener,
        stream: Arc<StreamInner>,
        of: Awaited,
    },
}

/// Which launches the wait is for.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// Those of the stream before this moment.
    Stream(u64),
    /// Those before an event.
    Event(Arc<Launches>),
}

impl Completion {
    pub(crate) fn new(
        stream: &Arc<StreamInner>,
        armed: GpuResult<Arc<Signal>>,
        of: Awaited,
    ) -> Self {
        let state = match armed {
            Ok(signal) => {
                State::Armed { listener: Listener::new(signal), stream: stream.clone(), of }
            }
            Err(error) => State::Failed(Some(error)),
        };
        Self { state }
    }

    /// One that is complete.
    pub(crate) fn done() -> Self {
        Self { state: State::Done }
    }

    /// Whether it could not be made, so that nothing will complete it.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }
}

impl Future for Completion {
    type Output = GpuResult<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Done => Poll::Ready(Ok(())),
            State::Failed(error) => Poll::Ready(error.take().map_or(Ok(()), Err)),
            State::Armed { listener, stream, of } => {
                listener.poll(task).map(|status| stream.completion_result(status, of))
            }
        }
    }
}

/// Runs a future on this thread until it is done, asleep between its wakes.
///
/// For programs without an executor, and for tests.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut task = Task::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut task) {
            Poll::Ready(value) => return value,
            // A wake between the poll and this line makes it return at once.
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The book's page, whose programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/async.md")]
struct Book;
