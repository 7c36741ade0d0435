//! Futures that wait at the host's end of a ring.
//!
//! A kernel cannot wake a future, so the thread of the context that polls events for futures polls these rings too, and
//! only while futures wait. It looks at the ring and not at who has come: as many futures are woken as there are
//! messages or free slots, in the order in which they came. What a woken future does not use, because it was dropped,
//! is found again by the next look, and wakes the next future.

use std::collections::VecDeque;
use std::mem;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context as Task, Waker};
use std::time::{Duration, Instant};

use bytemuck::Pod;

use super::memory::Core;
use super::wait::{LOOK, WaitStrategy};
use crate::completion::{HostPanics, PendingSignals, PolledSource, wake_all};
use crate::lock::lock;

/// The shortest rest between two looks, and the longest.
const RESTS: [Duration; 2] = [Duration::from_micros(20), Duration::from_millis(1)];

/// No stream: the panic of a waker is reported by the next wait for the device.
const NO_STREAM: usize = 0;

/// The futures that wait for a ring.
#[derive(Debug, Default)]
pub(super) struct Waiters(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    /// In the order in which they came; the tickets ascend.
    waiting: VecDeque<(u64, Waker)>,
    next: u64,
    /// Whether the thread polls the ring.
    polled: bool,
}

impl Queue {
    /// The ticket of a future that waits, and its waker of before.
    fn enter(&mut self, ticket: Option<u64>, waker: Waker) -> (u64, Option<Waker>) {
        if let Some((ticket, index)) = ticket.and_then(|own| Some((own, self.index(own)?))) {
            return (ticket, Some(mem::replace(&mut self.waiting[index].1, waker)));
        }
        let ticket = self.next;
        self.next += 1;
        self.waiting.push_back((ticket, waker));
        (ticket, None)
    }

    fn leave(&mut self, ticket: u64) -> Option<Waker> {
        let index = self.index(ticket)?;
        self.waiting.remove(index).map(|(_, waker)| waker)
    }

    fn index(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |(own, _)| *own).ok()
    }

    /// Takes out the wakers of those who came first.
    fn take(&mut self, count: usize) -> Vec<Waker> {
        let count = count.min(self.waiting.len());
        self.waiting.drain(..count).map(|(_, waker)| waker).collect()
    }
}

/// A future's place among those that wait for a ring. Dropping it leaves the place.
pub(super) struct Place<'a, T: Pod> {
    core: &'a Arc<Core<T>>,
    ticket: Option<u64>,
}

impl<'a, T: Pod> Place<'a, T> {
    pub(super) fn new(core: &'a Arc<Core<T>>) -> Self {
        Self { core, ticket: None }
    }

    /// Waits to be woken: for the first time, or again.
    pub(super) fn wait(&mut self, task: &Task<'_>) {
        if self.ticket.is_none() {
            self.core.waits().fetch_add(1, Relaxed);
        }
        let mut queue = lock(&self.core.waiters.0);
        let (ticket, before) = queue.enter(self.ticket, task.waker().clone());
        let polled = mem::replace(&mut queue.polled, true);
        drop(queue);
        // Dropping a waker may run other code, which must not happen under the lock.
        drop(before);
        self.ticket = Some(ticket);
        let poller = PendingSignals::of(self.core.memory.context()).poller();
        if polled {
            poller.poll_now();
        } else if !poller.add_source(Box::new(RingSource::new(self.core))) {
            self.poll_without_a_thread();
        }
    }

    /// The system has no thread to poll the ring: the futures are polled again and again.
    fn poll_without_a_thread(&self) {
        let mut queue = lock(&self.core.waiters.0);
        queue.polled = false;
        let all = queue.take(usize::MAX);
        drop(queue);
        all.into_iter().for_each(Waker::wake);
    }

    /// Waits no more.
    pub(super) fn leave(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let left = lock(&self.core.waiters.0).leave(ticket);
            // As above.
            drop(left);
        }
    }
}

impl<T: Pod> Drop for Place<'_, T> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// A ring as the thread polls it.
struct RingSource<T: Pod> {
    /// Weak, so that polling does not keep a ring's memory that all others have dropped.
    core: Weak<Core<T>>,
    rest: Duration,
    /// How many futures had come at the last look.
    seen: u64,
    /// When the kernels were last looked at.
    looked: Instant,
    /// When the ring was last looked at.
    polled: Option<Instant>,
}

impl<T: Pod> RingSource<T> {
    fn new(core: &Arc<Core<T>>) -> Self {
        Self {
            core: Arc::downgrade(core),
            rest: RESTS[0],
            seen: 0,
            looked: Instant::now(),
            polled: None,
        }
    }

    /// How many futures wait, and whether one has come since the last look; `None` where none waits, and then the
    /// next one starts the polling again.
    fn waiting(&mut self, core: &Core<T>) -> Option<(usize, bool)> {
        let mut queue = lock(&core.waiters.0);
        queue.polled = !queue.waiting.is_empty();
        let news = mem::replace(&mut self.seen, queue.next) != queue.next;
        queue.polled.then_some((queue.waiting.len(), news))
    }

    /// Whether no future will get what it waits for: the ring is closed, or its kernels have ended or failed.
    fn is_over(&mut self, core: &Core<T>) -> bool {
        if core.is_closed() {
            return true;
        }
        if self.looked.elapsed() < LOOK {
            return false;
        }
        self.looked = Instant::now();
        !matches!(core.memory.is_over(), Ok(false))
    }

    /// The time until the next look, where it is too early for one: the thread also runs for other rings.
    fn early(&self, strategy: WaitStrategy) -> Option<Duration> {
        let WaitStrategy::Polled { interval } = strategy else { return None };
        interval.checked_sub(self.polled?.elapsed()).filter(|left| !left.is_zero())
    }

    fn next_rest(&mut self, strategy: WaitStrategy, news: bool) -> Duration {
        let [shortest, longest] = RESTS;
        self.rest = if news { shortest } else { (2 * self.rest).min(longest) };
        match strategy {
            WaitStrategy::Adaptive => self.rest,
            WaitStrategy::Polled { interval } => interval,
        }
    }
}

impl<T: Pod> PolledSource for RingSource<T> {
    fn poll(&mut self) -> Option<Duration> {
        let core = self.core.upgrade()?;
        let (waiting, news) = self.waiting(&core)?;
        if let Some(early) = self.early(core.strategy.get()) {
            return Some(early);
        }
        self.polled = Some(Instant::now());
        let count = match core.ready(waiting) {
            0 if self.is_over(&core) => waiting,
            ready => ready,
        };
        let woken = lock(&core.waiters.0).take(count);
        wake_all(woken, NO_STREAM, HostPanics::of(core.memory.context()));
        Some(self.next_rest(core.strategy.get(), news || count > 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enter(queue: &mut Queue, ticket: Option<u64>) -> u64 {
        queue.enter(ticket, Waker::noop().clone()).0
    }

    #[test]
    fn futures_are_woken_in_their_order_and_those_that_left_are_not() {
        let mut queue = Queue::default();
        let tickets = [(); 5].map(|()| enter(&mut queue, None));
        assert_eq!(tickets, [0, 1, 2, 3, 4]);
        // One that is polled again keeps its place.
        assert_eq!(enter(&mut queue, Some(1)), 1);
        assert!(queue.leave(2).is_some() && queue.leave(2).is_none());
        assert_eq!(queue.take(2).len(), 2);
        assert!(queue.leave(0).is_none() && queue.leave(1).is_none());
        // One that was woken in vain comes last.
        assert_eq!(enter(&mut queue, Some(1)), 5);
        let left: Vec<_> = queue.waiting.iter().map(|(ticket, _)| *ticket).collect();
        assert_eq!(left, [3, 4, 5]);
        assert_eq!((queue.take(usize::MAX).len(), queue.waiting.len()), (3, 0));
    }
}
