//! Waiting without a thread: the end of a stream's work as a future, and functions that a stream calls
//! on the host.
//!
//! Any executor can await these futures, for they need nothing of it but a [`Waker`]. The driver rings
//! once for all that wait for the same moment: on a stream of its own that waits for the mark, so that no work
//! waits for the ring. A fault rings too, and so does whoever finds the device lost: no future waits for
//! ever.
//!
//! A driver has room for so many rings: on an H200 who asks for the hundredth behind work that does not end
//! waits for some of that work. So a context asks for 16 at most, and a thread of its own watches the other
//! moments; that thread lives as long as there are any. Functions of the host
//! ([`launch_host_func`](crate::Stream::launch_host_func)) are called by the driver alone, on one thread for
//! all streams of the process: one that waits keeps the others waiting, and so do some dozens that
//! are pending behind work which stands still: the next call that hands one in then waits too.
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

mod host_func;
mod ring;
mod signal;
mod watch;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context as Task, Poll, Wake, Waker};
use std::thread::{self, Thread};

pub use host_func::HostCall;
pub(crate) use host_func::{HostPanics, launch};
pub(crate) use ring::Bell;
pub(crate) use signal::{Listener, SUCCESS, Signal, Waiting};
pub(crate) use watch::Mark;

use crate::error::{GpuError, GpuResult};
use crate::panic::Launches;
use crate::stream::StreamInner;

/// The end of work on a stream: of all that was queued when
/// [`Stream::completed`](crate::Stream::completed) was called, or of what was queued before an
/// [`Event`](crate::Event).
///
/// It is on its way when it is made, polled or not. Dropping it is free of consequences.
#[derive(Debug)]
#[must_use = "nobody waits unless it is awaited"]
pub struct Completion {
    state: State,
}

#[derive(Debug)]
enum State {
    /// It could not be made.
    Failed(Option<GpuError>),
    Armed {
        listener: Listener,
        stream: Arc<StreamInner>,
        of: Of,
    },
}

/// Which launches the wait is for.
#[derive(Debug)]
pub(crate) enum Of {
    /// Those of the stream before this moment.
    Stream(u64),
    /// Those before an event.
    Event(Arc<Launches>),
}

impl Completion {
    pub(crate) fn new(stream: &Arc<StreamInner>, armed: GpuResult<Arc<Signal>>, of: Of) -> Self {
        let state = match armed {
            Ok(signal) => {
                State::Armed { listener: Listener::new(signal), stream: stream.clone(), of }
            }
            Err(error) => State::Failed(Some(error)),
        };
        Self { state }
    }

    /// Whether it could not be made, so that nothing rings.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(self.state, State::Failed(_))
    }
}

impl Future for Completion {
    type Output = GpuResult<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Failed(error) => Poll::Ready(error.take().map_or(Ok(()), Err)),
            State::Armed { listener, stream, of } => {
                listener.poll(task).map(|status| stream.after_ring(status, of))
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
