//! Operations as futures.

use std::fmt;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use super::lane::Streams;
use super::{Complete, DeviceOperation, Outcome, Place};
use crate::completion::Completion;
use crate::error::{GpuContext, GpuError, GpuResult};

/// An operation as a future: see [`DeviceOperation::async_on`].
#[must_use = "a future does nothing until it is awaited or polled"]
pub struct DeviceFuture<'s, O: DeviceOperation, S> {
    state: State<O>,
    on: &'s S,
    place: Place,
}

enum State<O: DeviceOperation> {
    /// Nothing is enqueued.
    Idle(O),
    Enqueued {
        outcome: O::Outcome,
        end: Completion,
    },
    /// The output was taken.
    Over,
}

impl<'s, O: DeviceOperation, S: Streams> DeviceFuture<'s, O, S> {
    #[track_caller]
    pub(super) fn new(operation: O, on: &'s S) -> Self {
        Self { state: State::Idle(operation), on, place: Location::caller() }
    }

    /// Enqueues the operation, if it is not.
    fn start(&mut self) -> GpuResult<(O::Outcome, Completion)> {
        match std::mem::replace(&mut self.state, State::Over) {
            State::Enqueued { outcome, end } => Ok((outcome, end)),
            State::Idle(operation) => self.on.with_lane(|lane| {
                let outcome = operation.enqueue(lane)?;
                Ok((outcome, lane.stream().completed()))
            }),
            State::Over => Err(GpuError::InvalidArgument {
                operation: "awaiting an operation",
                reason: "its output was taken before".to_owned(),
            }),
        }
    }
}

// The operation and its output are only moved.
impl<O: DeviceOperation, S> Unpin for DeviceFuture<'_, O, S> {}

impl<O: DeviceOperation, S: Streams> Future for DeviceFuture<'_, O, S> {
    type Output = GpuResult<O::Output>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        let (outcome, mut end) = match self.start() {
            Ok(started) => started,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let Poll::Ready(done) = Pin::new(&mut end).poll(task) else {
            self.state = State::Enqueued { outcome, end };
            return Poll::Pending;
        };
        let place = self.place;
        let done = done.with_gpu_context(|| format!("awaiting the operation run at {place}"));
        Poll::Ready(done.and_then(|()| outcome.take(&Complete(()))))
    }
}

impl<O: DeviceOperation, S> fmt::Debug for DeviceFuture<'_, O, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Idle(_) => "not enqueued",
            State::Enqueued { .. } => "enqueued",
            State::Over => "over",
        };
        write!(f, "DeviceFuture({state}, {})", self.place)
    }
}
