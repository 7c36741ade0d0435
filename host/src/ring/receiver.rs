//! The host's receiving end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

use bytemuck::Pod;
use cuda_std::ring::{Telemetry, Turn};

use super::futures::RecvFuture;
use super::memory::Core;
use super::wait::{Wait, WaitStrategy};
use crate::error::GpuResult;

/// Receives messages of kernels. When it is dropped, the ring is closed for kernels that send.
pub struct Receiver<T: Pod> {
    core: Arc<Core<T>>,
    /// A position before which all messages are known to have arrived.
    arrived: AtomicU64,
}

impl<T: Pod> Receiver<T> {
    pub(super) fn new(core: Arc<Core<T>>) -> Self {
        let arrived = AtomicU64::new(core.first);
        Self { core, arrived }
    }

    /// The next message, for which it waits. `None` once all kernels that were given the ring have
    /// ended, or have closed it, and all was received.
    ///
    /// # Errors
    /// The panic or fault of a kernel that has the ring, after what it sent before.
    pub fn recv(&self) -> GpuResult<Option<T>> {
        self.recv_until(None)
    }

    /// As [`recv`](Self::recv), for `most` at the longest; then it is `None` too.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_timeout(&self, most: Duration) -> GpuResult<Option<T>> {
        // What ends after all time does not end.
        self.recv_until(Instant::now().checked_add(most))
    }

    fn recv_until(&self, end: Option<Instant>) -> GpuResult<Option<T>> {
        let mut wait = self.wait_until(end);
        loop {
            if let Some(message) = self.try_recv() {
                return Ok(Some(message));
            }
            if wait.begins() {
                self.core.waits().fetch_add(1, Relaxed);
            }
            let closed = self.core.is_closed();
            if let Some(end) = self.end(closed, wait.pause(&self.core.memory)) {
                return end;
            }
            if wait.is_late() {
                return Ok(self.try_recv());
            }
        }
    }

    /// The next message as a future, which any executor can await. `None` once all kernels that were given the ring
    /// have ended, or have closed it, and all was received.
    ///
    /// No thread waits: one of the context looks at the rings that futures wait for, as their
    /// [`WaitStrategy`] says. Futures are woken in the order in which they came. A future takes a message out of the ring
    /// in the poll that returns it, so dropping one that has not returned loses none.
    ///
    /// ```no_run
    /// use ferrowarp::{GpuResult, Receiver, Sender};
    ///
    /// async fn echo(sender: &Sender<u32>, receiver: &Receiver<u32>) -> GpuResult<Option<u32>> {
    ///     sender.send_async(7).await?;
    ///     receiver.recv_async().await
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture::new(self)
    }

    /// The next message, or the end of all messages, if one or the other has come.
    pub(super) fn look(&self) -> Option<GpuResult<Option<T>>> {
        if let Some(message) = self.try_recv() {
            return Some(Ok(Some(message)));
        }
        let closed = self.core.is_closed();
        self.end(closed, self.core.memory.is_over())
    }

    /// The last message or the end, where the ring was closed, or its kernels are over or have failed: what they sent
    /// before is there by now.
    fn end(&self, closed: bool, over: GpuResult<bool>) -> Option<GpuResult<Option<T>>> {
        match over {
            Ok(over) => (over || closed).then(|| Ok(self.try_recv())),
            Err(error) => Some(self.try_recv().map_or(Err(error), |last| Ok(Some(last)))),
        }
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.core
    }

    pub(super) fn wait_until(&self, end: Option<Instant>) -> Wait {
        Wait::new(self.core.strategy.get(), end)
    }

    /// Sets how the host waits for messages of this ring, as a thread and in futures. Waits that have begun go on as
    /// they were.
    pub fn set_wait_strategy(&self, strategy: WaitStrategy) {
        self.core.strategy.set(strategy);
    }

    /// The next message, if one is there.
    #[must_use]
    pub fn try_recv(&self) -> Option<T> {
        let core = &*self.core;
        let mut hint = core.position.load(Relaxed);
        let position = core.slots.claim_message(&core.position, &mut hint)?;
        self.note(position);
        // SAFETY: claimed just now, when its turn had come.
        Some(unsafe { core.slots.take(position) })
    }

    /// Receives as many messages as are there and find room in `messages`, and waits for the first
    /// one. How many; 0 where `recv` returns `None`, or where there is no room.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_some(&self, messages: &mut [T]) -> GpuResult<usize> {
        let Some((first, rest)) = messages.split_first_mut() else { return Ok(0) };
        let Some(message) = self.recv()? else { return Ok(0) };
        *first = message;
        Ok(1 + self.try_recv_some(rest))
    }

    /// Receives as many messages as are there and find room in `messages`. How many.
    pub fn try_recv_some(&self, messages: &mut [T]) -> usize {
        let core = &*self.core;
        let claimed = core.slots.claim_messages(&core.position, messages.len() as u64);
        let Some((position, count)) = claimed else { return 0 };
        self.note(position);
        for (position, message) in (position..position + count).zip(messages) {
            // SAFETY: claimed just now, when their turns had come.
            *message = unsafe { core.slots.take(position) };
        }
        count as usize
    }

    /// Notes how many messages there are from `position` on, which is still there.
    fn note(&self, position: u64) {
        let (core, known) = (&self.core, self.arrived.load(Relaxed));
        let mut arrived = known.max(position);
        while core.slots.consumers_turn(arrived) == Turn::Now {
            arrived += 1;
        }
        if arrived > known {
            self.arrived.fetch_max(arrived, Relaxed);
        }
        core.note_level(arrived - position);
    }

    /// What the ring has done until now.
    ///
    /// # Errors
    /// The fault of a kernel.
    pub fn telemetry(&self) -> GpuResult<Telemetry> {
        self.core.telemetry()
    }
}

impl<T: Pod> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.core.control().receivers_closed.store(1, Release);
    }
}

impl<T: Pod> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.core;
        write!(f, "Receiver({} slots of {} bytes)", core.slots.capacity(), size_of::<T>())
    }
}
