//! The host's sending end.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use bytemuck::Pod;
use cuda_std::ring::Telemetry;

use super::bridge::Copier;
use super::futures::SendFuture;
use super::memory::Core;
use super::wait::{Wait, WaitStrategy};
use crate::completion::Completion;
use crate::error::{GpuError, GpuResult};

const SENDING: &str = "sending to a ring";

/// Sends messages to kernels. A clone sends to the same ring; any number of threads may.
///
/// When the last one is dropped, the kernels receive what is left, and then `None`.
pub struct Sender<T: Pod> {
    end: Arc<End<T>>,
}

struct End<T: Pod> {
    core: Arc<Core<T>>,
    /// A position before which all messages are known to have been received.
    taken: AtomicU64,
}

impl<T: Pod> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self { end: self.end.clone() }
    }
}

impl<T: Pod> Sender<T> {
    pub(super) fn new(core: Arc<Core<T>>) -> Self {
        let taken = AtomicU64::new(core.first);
        Self { end: Arc::new(End { core, taken }) }
    }

    /// Sends `message`, and waits for a free slot where there is none.
    ///
    /// # Errors
    /// [`RingClosed`](GpuError::RingClosed) if the receiving end is closed; the panic or fault of a
    /// kernel that has the ring.
    pub fn send(&self, message: &T) -> GpuResult<()> {
        self.send_all(std::slice::from_ref(message))
    }

    /// Sends `message` if there is a free slot; whether it did.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn try_send(&self, message: &T) -> GpuResult<bool> {
        Ok(self.send_some(std::slice::from_ref(message))? == 1)
    }

    /// Sends all of `messages` in order, and waits for free slots where there are too few. Those of
    /// other threads may come between.
    ///
    /// # Errors
    /// As [`send`](Self::send); some of the messages may have been sent.
    pub fn send_all(&self, messages: &[T]) -> GpuResult<()> {
        let begin = || Wait::new(self.end.core.strategy.get(), None);
        let (mut left, mut wait) = (messages, begin());
        while !left.is_empty() {
            match self.send_some(left)? {
                0 => self.wait(&mut wait)?,
                sent => {
                    left = &left[sent..];
                    wait = begin();
                }
            }
        }
        Ok(())
    }

    fn wait(&self, wait: &mut Wait) -> GpuResult<()> {
        let core = &self.end.core;
        if wait.begins() {
            core.waits().fetch_add(1, Relaxed);
        }
        match wait.pause(&core.memory)? {
            true => Err(GpuError::RingClosed { operation: SENDING }),
            false => Ok(()),
        }
    }

    /// Sends `message` as a future, which any executor can await: it waits for a free slot where there is none.
    ///
    /// No thread waits; see [`Receiver::recv_async`](super::Receiver::recv_async). The message is sent in the poll that
    /// returns `Ok`: a future that is dropped before has sent nothing. The order of several futures is that of these
    /// polls.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_async(&self, message: T) -> SendFuture<'_, T> {
        SendFuture::new(self, message)
    }

    /// A future that is ready once all messages that were sent before this call are where the kernel polls: for
    /// [`Bridge::Copied`](super::Bridge::Copied) when their copies to the device's memory are done, for the other bridges
    /// at once. It does not wait until the kernel has taken them.
    ///
    /// # Errors
    /// The fault of the device.
    pub fn flush_to_device(&self) -> Completion {
        let copier = self.end.core.copier.as_ref();
        copier.map_or_else(Completion::done, |copier| copier.stream.completed())
    }

    /// Whether `message` was sent now.
    pub(super) fn look(&self, message: &T) -> GpuResult<bool> {
        if self.try_send(message)? {
            return Ok(true);
        }
        match self.end.core.memory.is_over()? {
            true => Err(GpuError::RingClosed { operation: SENDING }),
            false => Ok(false),
        }
    }

    pub(super) fn core(&self) -> &Arc<Core<T>> {
        &self.end.core
    }

    /// Sets how the host waits for free slots of this ring, as a thread and in futures. Waits that have begun go on as
    /// they were.
    pub fn set_wait_strategy(&self, strategy: WaitStrategy) {
        self.end.core.strategy.set(strategy);
    }

    /// Sends as many of `messages` as there are free slots for.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_some(&self, messages: &[T]) -> GpuResult<usize> {
        let core = &*self.end.core;
        if core.is_closed() {
            return Err(GpuError::RingClosed { operation: SENDING });
        }
        let wanted = messages.len() as u64;
        let Some((first, count)) = core.slots.claim_slots(&core.position, wanted) else {
            return Ok(0);
        };
        let messages = &messages[..count as usize];
        match &core.copier {
            None => (first..).zip(messages).for_each(|(position, message)| {
                // SAFETY: claimed just now, when its turn had come.
                unsafe { core.slots.put(position, *message) };
            }),
            // SAFETY: as above.
            Some(copier) => unsafe { self.copy(copier, first, messages) }.inspect_err(|_| {
                // A claimed message that is never sent blocks all later ones.
                core.memory.close();
            })?,
        }
        self.note(first + count);
        Ok(messages.len())
    }

    /// Copies messages to the device's slots, and lets the kernels know when they are there.
    ///
    /// # Safety
    /// The caller has claimed the positions, whose turns have come.
    unsafe fn copy(&self, copier: &Copier, first: u64, messages: &[T]) -> GpuResult<()> {
        let slots = &self.end.core.slots;
        for (position, message) in (first..).zip(messages) {
            // SAFETY: the slots here are where the messages are copied from; they are not used again
            // before the device has freed those there, so after the copies.
            unsafe { slots.put(position, *message) };
        }
        let last = first + messages.len() as u64;
        for part in parts(first..last, slots.capacity()) {
            let (index, count) = (slots.index(part.start), (part.end - part.start) as usize);
            // SAFETY: the slots were written above and lie side by side.
            unsafe { copier.messages(slots.value_ptr(part.start), index, count)? };
        }
        // SAFETY: the messages of these positions were copied before.
        unsafe { copier.announce((first..last).map(|position| (slots.index(position), position))) }
    }

    /// Notes how many messages are in the ring.
    fn note(&self, sent: u64) {
        let (core, known) = (&self.end.core, self.end.taken.load(Relaxed));
        let mut taken = known;
        while taken < sent && core.slots.is_taken(taken) {
            taken += 1;
        }
        if taken > known {
            self.end.taken.fetch_max(taken, Relaxed);
        }
        core.note_level(sent - taken.min(sent));
    }

    /// What the ring has done until now.
    ///
    /// # Errors
    /// The fault of a kernel.
    pub fn telemetry(&self) -> GpuResult<Telemetry> {
        self.end.core.telemetry()
    }
}

/// A range of positions as ranges whose slots lie side by side.
fn parts(range: Range<u64>, capacity: u64) -> impl Iterator<Item = Range<u64>> {
    let turn = range.start.next_multiple_of(capacity).max(range.start);
    let turn = if turn == range.start { range.end } else { turn.min(range.end) };
    [range.start..turn, turn..range.end].into_iter().filter(|part| !part.is_empty())
}

impl<T: Pod> Drop for End<T> {
    fn drop(&mut self) {
        self.core.memory.close_senders();
    }
}

impl<T: Pod> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let core = &self.end.core;
        write!(f, "Sender({} slots of {} bytes)", core.slots.capacity(), size_of::<T>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_divided_where_the_slots_begin_again() {
        let divided = |range, capacity, expected: &[(u64, u64)]| {
            let found: Vec<_> = parts(range, capacity).map(|part| (part.start, part.end)).collect();
            assert_eq!(found, expected);
        };
        divided(0..4, 4, &[(0, 4)]);
        divided(3..6, 4, &[(3, 4), (4, 6)]);
        divided(5..8, 4, &[(5, 8)]);
        divided(7..8, 1, &[(7, 8)]);
        divided(9..9, 4, &[]);
    }
}
