//! Signals: completion flags that futures wait for, and the pending ones of a context.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context as Task, Poll, Waker};

use cuda_driver::sys;

use super::host_func::{HostPanic, HostPanics};
use super::poll::Poller;
use crate::context::{Context, ContextState, Slot};
use crate::lock::lock;

/// The status of work that is done.
pub(crate) const SUCCESS: u32 = 0;
/// A status that no driver returns: the device was found lost.
pub(crate) const LOST: u32 = u32::MAX;

/// What futures wait for: completed once, for all that wait for the same point of a stream.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    /// The stream whose work it is for.
    stream: usize,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Wakers),
    /// With the driver's status.
    Done(u32),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(Wakers::default())
    }
}

/// The wakers of the waiting futures, each in a slot of its own.
#[derive(Debug, Default)]
struct Wakers {
    slots: Vec<Option<Waker>>,
    free: Vec<usize>,
}

impl Wakers {
    /// Adds a waker; returns its slot.
    fn add(&mut self, waker: Waker) -> usize {
        let slot = self.free.pop().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[slot] = Some(waker);
        slot
    }
}

impl Signal {
    /// A signal for work of `stream`.
    pub(crate) fn of(stream: sys::CUstream) -> Arc<Self> {
        Arc::new(Self { stream: stream.addr(), state: Mutex::default() })
    }

    /// Wakes all waiting futures; the first status stays. A waker's panic is caught here, because
    /// the caller is the driver, or a thread that others wait for; `panics` keeps it for the next
    /// wait for the stream.
    pub(crate) fn complete(&self, status: u32, panics: &HostPanics) {
        let mut state = lock(&self.state);
        let State::Waiting(wakers) = &mut *state else { return };
        let wakers = std::mem::take(&mut wakers.slots);
        *state = State::Done(status);
        drop(state);
        wake_all(wakers.into_iter().flatten(), self.stream, panics);
    }

    /// Whether it was completed with a failure: a later future needs a new signal.
    pub(crate) fn has_failed(&self) -> bool {
        matches!(*lock(&self.state), State::Done(status) if status != SUCCESS)
    }
}

/// Wakes futures. A waker's panic is kept for the next wait for `stream`.
pub(crate) fn wake_all(
    wakers: impl IntoIterator<Item = Waker>,
    stream: usize,
    panics: &HostPanics,
) {
    for waker in wakers {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| waker.wake())) {
            panics.add(stream, HostPanic::of_waker(payload));
        }
    }
}

/// One future's registration with a signal.
#[derive(Debug)]
pub(crate) struct Listener {
    signal: Arc<Signal>,
    /// The slot of its waker.
    slot: Option<usize>,
}

impl Listener {
    pub(crate) fn new(signal: Arc<Signal>) -> Self {
        Self { signal, slot: None }
    }

    /// The status, or registers to be woken when it is there.
    pub(crate) fn poll(&mut self, task: &mut Task<'_>) -> Poll<u32> {
        match (&mut *lock(&self.signal.state), self.slot) {
            (State::Done(status), _) => return Poll::Ready(*status),
            (State::Waiting(wakers), None) => self.slot = Some(wakers.add(task.waker().clone())),
            (State::Waiting(wakers), Some(slot)) => match &mut wakers.slots[slot] {
                Some(waker) => waker.clone_from(task.waker()),
                empty => *empty = Some(task.waker().clone()),
            },
        }
        Poll::Pending
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let left = match &mut *lock(&self.signal.state) {
            State::Waiting(wakers) => {
                wakers.free.push(slot);
                wakers.slots[slot].take()
            }
            State::Done(_) => None,
        };
        // Dropping a waker may run other code, which must not happen under the lock.
        drop(left);
    }
}

/// The signals of a context that are not complete: when the device is found lost they are
/// completed, in case the driver does not call back.
#[derive(Debug, Default)]
pub(crate) struct PendingSignals {
    signals: Mutex<HashMap<usize, Arc<Signal>>>,
    /// Pending driver callbacks.
    callbacks: AtomicUsize,
    poller: Poller,
}

impl PendingSignals {
    /// Those of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::Signals, Self::default)
    }

    /// Whether the driver takes one more callback without blocking the caller, however long the
    /// work before it takes. On an H200 it does so for 19, and not for 101.
    pub(crate) fn may_add_callback(&self) -> bool {
        const MOST: usize = 16;
        self.callbacks.load(Ordering::Relaxed) < MOST
    }

    /// A callback is being added.
    pub(super) fn callback_added(&self, signal: &Arc<Signal>) {
        self.callbacks.fetch_add(1, Ordering::Relaxed);
        self.add(signal);
    }

    /// A callback came, or never will.
    pub(super) fn callback_done(&self, signal: &Arc<Signal>) {
        self.callbacks.fetch_sub(1, Ordering::Relaxed);
        self.remove(signal);
        self.poller.poll_now();
    }

    /// The events that are polled.
    pub(crate) fn poller(&self) -> &Poller {
        &self.poller
    }

    pub(crate) fn add(&self, signal: &Arc<Signal>) {
        lock(&self.signals).insert(key(signal), signal.clone());
    }

    pub(crate) fn remove(&self, signal: &Arc<Signal>) {
        lock(&self.signals).remove(&key(signal));
    }

    /// Completes all signals as failed: no callback will come any more.
    pub(crate) fn fail_all(&self, panics: &HostPanics) {
        let all = std::mem::take(&mut *lock(&self.signals));
        all.into_values().for_each(|signal| signal.complete(LOST, panics));
    }
}

impl ContextState for PendingSignals {
    fn device_lost(&self, context: &Context) {
        self.fail_all(HostPanics::of(context));
    }
}

/// The key of a signal: no other living signal has it.
fn key(signal: &Arc<Signal>) -> usize {
    Arc::as_ptr(signal).addr()
}

#[cfg(test)]
mod tests {
    use std::ptr::without_provenance_mut;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn listener(signal: &Arc<Signal>) -> Listener {
        Listener::new(signal.clone())
    }

    fn poll(listener: &mut Listener) -> Poll<u32> {
        listener.poll(&mut Task::from_waker(Waker::noop()))
    }

    #[test]
    fn the_last_waker_is_woken_once_and_the_first_status_stays() {
        let (early, late) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let signal = Arc::new(Signal::default());
        let mut own = listener(&signal);
        for count in [&early, &late] {
            let waker = Waker::from(count.clone());
            assert!(own.poll(&mut Task::from_waker(&waker)).is_pending());
        }
        signal.complete(7, &HostPanics::default());
        signal.complete(SUCCESS, &HostPanics::default());
        let woken = [early, late].map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!((woken, poll(&mut own)), ([0, 1], Poll::Ready(7)));
        assert!(signal.has_failed());
    }

    #[test]
    fn all_who_wait_are_woken_but_those_who_have_gone() {
        let counts: Vec<_> = (0..4).map(|_| Arc::new(Count::default())).collect();
        let signal = Arc::new(Signal::default());
        let mut all: Vec<_> = counts.iter().map(|_| listener(&signal)).collect();
        for (own, count) in all.iter_mut().zip(&counts) {
            let waker = Waker::from(count.clone());
            assert!(own.poll(&mut Task::from_waker(&waker)).is_pending());
        }
        drop(all.remove(1));
        // Takes the slot of the one that was dropped.
        let mut last = listener(&signal);
        assert!(poll(&mut last).is_pending() && Arc::strong_count(&counts[1]) == 1);
        signal.complete(SUCCESS, &HostPanics::default());
        let woken: Vec<_> = counts.iter().map(|count| count.0.load(Ordering::Relaxed)).collect();
        assert_eq!(woken, [1, 0, 1, 1]);
        assert!(all.iter_mut().all(|own| poll(own) == Poll::Ready(SUCCESS)));
        assert!(poll(&mut last) == Poll::Ready(SUCCESS) && !signal.has_failed());
    }

    #[test]
    fn a_waker_that_panics_keeps_none_asleep_and_is_the_error_of_its_stream() {
        struct Panic;
        impl Wake for Panic {
            fn wake(self: Arc<Self>) {
                panic!("on purpose");
            }
        }
        let (count, panics) = (Arc::new(Count::default()), HostPanics::default());
        let [stream, other] = [8, 16].map(without_provenance_mut);
        let signal = Signal::of(stream);
        let panic = || Waker::from(Arc::new(Panic));
        let wakers = [panic(), Waker::from(count.clone()), panic()];
        let mut all = [(); 3].map(|()| listener(&signal));
        for (own, waker) in all.iter_mut().zip(&wakers) {
            assert!(own.poll(&mut Task::from_waker(waker)).is_pending());
        }
        signal.complete(SUCCESS, &panics);
        assert_eq!(count.0.load(Ordering::Relaxed), 1);
        assert!(all.iter_mut().all(|own| poll(own) == Poll::Ready(SUCCESS)));
        panics.check(other).unwrap();
        for _ in 0..2 {
            let error = panics.check(stream).unwrap_err();
            assert_eq!(error.to_string(), "the waker of a future panicked: on purpose");
        }
        panics.check(stream).and(panics.check_all()).unwrap();
    }

    #[test]
    fn who_waits_and_goes_again_and_again_takes_one_place() {
        let signal = Arc::new(Signal::default());
        (0..100).for_each(|_| assert!(poll(&mut listener(&signal)).is_pending()));
        let State::Waiting(wakers) = &*lock(&signal.state) else { panic!("nobody rang") };
        assert_eq!((wakers.slots.len(), wakers.free.len()), (1, 1));
    }

    #[test]
    fn a_lost_device_rings_what_was_not_removed() {
        let (waiting, gone, left) = (PendingSignals::default(), Arc::default(), Arc::default());
        waiting.callback_added(&gone);
        waiting.callback_added(&left);
        waiting.callback_done(&gone);
        waiting.fail_all(&HostPanics::default());
        let poll = |signal| poll(&mut listener(signal));
        assert_eq!((poll(&gone), poll(&left)), (Poll::Pending, Poll::Ready(LOST)));
    }

    #[test]
    fn the_driver_owes_few_callbacks() {
        let (waiting, signal) = (PendingSignals::default(), Arc::default());
        let begun = (0..100)
            .take_while(|_| waiting.may_add_callback())
            .map(|_| waiting.callback_added(&signal));
        assert_eq!(begun.count(), 16);
        waiting.callback_done(&signal);
        assert!(waiting.may_add_callback());
    }
}
