//! The host's ends of rings as futures.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context as Task, Poll};

use bytemuck::Pod;

use super::receiver::Receiver;
use super::sender::Sender;
use super::waiters::Place;
use crate::error::GpuResult;

/// A future for the next message: see [`Receiver::recv_async`].
#[must_use = "no message is received unless it is awaited"]
pub struct RecvFuture<'a, T: Pod> {
    receiver: &'a Receiver<T>,
    place: Place<'a, T>,
}

impl<'a, T: Pod> RecvFuture<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Self {
        Self { receiver, place: Place::new(receiver.core()) }
    }
}

impl<T: Pod> Future for RecvFuture<'_, T> {
    type Output = GpuResult<Option<T>>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.receiver.look() {
            Some(end) => {
                self.place.leave();
                Poll::Ready(end)
            }
            None => {
                self.place.wait(task);
                Poll::Pending
            }
        }
    }
}

/// A future that sends a message: see [`Sender::send_async`].
#[must_use = "no message is sent unless it is awaited"]
pub struct SendFuture<'a, T: Pod> {
    sender: &'a Sender<T>,
    message: T,
    place: Place<'a, T>,
}

impl<'a, T: Pod> SendFuture<'a, T> {
    pub(super) fn new(sender: &'a Sender<T>, message: T) -> Self {
        Self { sender, message, place: Place::new(sender.core()) }
    }
}

/// Nothing points into it.
impl<T: Pod> Unpin for SendFuture<'_, T> {}

impl<T: Pod> Future for SendFuture<'_, T> {
    type Output = GpuResult<()>;

    fn poll(mut self: Pin<&mut Self>, task: &mut Task<'_>) -> Poll<Self::Output> {
        match self.sender.look(&self.message) {
            Ok(false) => {
                self.place.wait(task);
                Poll::Pending
            }
            sent => {
                self.place.leave();
                Poll::Ready(sent.map(drop))
            }
        }
    }
}

impl<T: Pod> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecvFuture({:?})", self.receiver)
    }
}

impl<T: Pod> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendFuture({:?})", self.sender)
    }
}
