//! The host's receiving end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use bytemuck::Pod;
use cuda_std::ring::{Telemetry, Turn};

use super::memory::Core;
use super::wait::Wait;
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
        let mut wait = Wait::default();
        loop {
            if let Some(message) = self.try_recv() {
                return Ok(Some(message));
            }
            if wait.begins() {
                self.core.control().empty_waits.fetch_add(1, Relaxed);
            }
            let closed = self.core.control().senders_closed.load(Acquire) != 0;
            // What was sent before the end is there by now, also before a panic.
            match wait.pause(&self.core.memory) {
                Ok(over) if over || closed => return Ok(self.try_recv()),
                Ok(_) if end.is_some_and(|end| Instant::now() >= end) => return Ok(self.try_recv()),
                Ok(_) => {}
                Err(error) => return self.try_recv().map_or(Err(error), |last| Ok(Some(last))),
            }
        }
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
