//! A bell's signal, and all signals that a context's streams will ring.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context as Task, Poll, Waker};

/// The status of work that is done.
pub(crate) const SUCCESS: u32 = 0;
/// A status that no driver has: the device was found lost.
pub(crate) const LOST: u32 = u32::MAX;

/// What one future waits for.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Waiting(Option<Waker>),
    /// The driver's status.
    Rung(u32),
}

impl Default for State {
    fn default() -> Self {
        Self::Waiting(None)
    }
}

impl Signal {
    /// Wakes who waits; the first status stays.
    pub(crate) fn ring(&self, status: u32) {
        let mut state = lock(&self.state);
        let State::Waiting(waker) = &mut *state else { return };
        let waker = waker.take();
        *state = State::Rung(status);
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// The status, or a wake when it is there.
    pub(crate) fn poll(&self, task: &mut Task<'_>) -> Poll<u32> {
        match &mut *lock(&self.state) {
            State::Rung(status) => Poll::Ready(*status),
            State::Waiting(Some(waker)) => {
                waker.clone_from(task.waker());
                Poll::Pending
            }
            State::Waiting(waker) => {
                *waker = Some(task.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The signals of a context that are not rung: whoever finds the device lost rings them, in case the
/// driver does not.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    signals: Mutex<HashMap<usize, Arc<Signal>>>,
}

impl Waiting {
    pub(crate) fn add(&self, signal: &Arc<Signal>) {
        lock(&self.signals).insert(key(signal), signal.clone());
    }

    pub(crate) fn remove(&self, signal: &Arc<Signal>) {
        lock(&self.signals).remove(&key(signal));
    }

    /// Rings all: nothing will come any more.
    pub(crate) fn lose(&self) {
        let all = std::mem::take(&mut *lock(&self.signals));
        all.into_values().for_each(|signal| signal.ring(LOST));
    }
}

/// No other living signal has it.
fn key(signal: &Arc<Signal>) -> usize {
    Arc::as_ptr(signal).addr()
}

/// A panic while a lock is held leaves its content whole, so poison is no reason to stop.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn the_last_waker_is_woken_once_and_the_first_status_stays() {
        let (early, late) = (Arc::new(Count::default()), Arc::new(Count::default()));
        let signal = Signal::default();
        for count in [&early, &late] {
            let waker = Waker::from(count.clone());
            assert!(signal.poll(&mut Task::from_waker(&waker)).is_pending());
        }
        signal.ring(7);
        signal.ring(SUCCESS);
        let woken = [early, late].map(|count| count.0.load(Ordering::Relaxed));
        assert_eq!(woken, [0, 1]);
        assert_eq!(signal.poll(&mut Task::from_waker(Waker::noop())), Poll::Ready(7));
    }

    #[test]
    fn a_lost_device_rings_what_was_not_removed() {
        let (waiting, gone, left) = (Waiting::default(), Arc::default(), Arc::default());
        waiting.add(&gone);
        waiting.add(&left);
        waiting.remove(&gone);
        waiting.lose();
        let poll = |signal: &Signal| signal.poll(&mut Task::from_waker(Waker::noop()));
        assert_eq!((poll(&gone), poll(&left)), (Poll::Pending, Poll::Ready(LOST)));
    }
}
