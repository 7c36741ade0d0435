//! The vote of the CPU threads of a launch on whether it is stuck.

use crate::fault::Waiting;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Who may write device memory beside the launch: other launches, copies and fills, whatever the
/// host does.
pub trait Outside: Sync {
    /// `None` while something or somebody may still write; else a number that is another one after
    /// anything has happened outside. Twice the same number, then, says that nothing happened
    /// between the two questions.
    fn calm(&self) -> Option<u64>;
}

/// Nothing outside writes: the caller of the launch waits for its end, and runs nothing else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

impl Outside for Nobody {
    fn calm(&self) -> Option<u64> {
        Some(0)
    }
}

/// What the CPU threads of a launch have found together.
pub struct Quorum<'m> {
    pub(super) outside: Option<&'m dyn Outside>,
    /// Ends with every change. Read without the lock, changed with it.
    pub(super) epoch: AtomicU64,
    pub(super) stuck: AtomicBool,
    pub(super) found: Mutex<Progress>,
}

pub(super) struct Progress {
    /// CPU threads at work.
    pub(super) workers: usize,
    /// Those whose warps have all come round in this epoch.
    pub(super) proven: usize,
    /// What was outside when this epoch, or an earlier one, began.
    pub(super) calm: Option<u64>,
    /// The threads of the launch, once it is stuck.
    pub(super) waiting: Vec<(u32, Waiting)>,
}

impl<'m> Quorum<'m> {
    /// For `workers` CPU threads. Without `outside` nothing is known of what else writes, and no launch is stuck.
    pub fn new(workers: usize, outside: Option<&'m dyn Outside>) -> Self {
        let found = Progress { workers, proven: 0, calm: None, waiting: Vec::new() };
        let (epoch, stuck) = (AtomicU64::new(0), AtomicBool::new(false));
        Self { outside, epoch, stuck, found: Mutex::new(found) }
    }

    /// True once the launch is known to be stuck.
    pub fn is_stuck(&self) -> bool {
        self.stuck.load(Ordering::Acquire)
    }

    /// Something changed, or may have.
    pub(super) fn change(&self) {
        self.begin(&mut self.lock());
    }

    fn begin(&self, found: &mut Progress) {
        found.proven = 0;
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// A CPU thread has nothing more to do.
    pub fn leave(&self) {
        let mut found = self.lock();
        found.workers -= 1;
        self.begin(&mut found);
    }

    /// All warps of a CPU thread have come round in an epoch, which may be over.
    pub(super) fn prove(&self, epoch: u64) {
        let mut found = self.lock();
        found.proven += usize::from(self.epoch.load(Ordering::Acquire) == epoch);
    }

    /// Decides, where all CPU threads have their proof. What is outside is asked before the epoch
    /// begins that the proof is from, and after it.
    pub(super) fn decide(&self) {
        let mut found = self.lock();
        if found.proven < found.workers {
            return;
        }
        let now = self.outside.and_then(Outside::calm);
        if now.is_some() && now == found.calm {
            return self.stuck.store(true, Ordering::Release);
        }
        found.calm = now;
        if now.is_some() {
            self.begin(&mut found);
        }
    }

    /// A CPU thread tells what its threads wait for.
    pub fn tell(&self, waiting: Vec<(u32, Waiting)>) {
        self.lock().waiting.extend(waiting);
    }

    /// What all threads of a stuck launch wait for.
    pub fn into_waiting(self) -> Option<Vec<(u32, Waiting)>> {
        let found = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.stuck.into_inner().then_some(found.waiting)
    }

    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Says(Mutex<Vec<Option<u64>>>);

    impl Outside for Says {
        fn calm(&self) -> Option<u64> {
            self.0.lock().unwrap().pop().unwrap()
        }
    }

    /// All threads prove an epoch, again and again; the last answer of `says` is the first one
    /// given.
    fn rounds(says: Vec<Option<u64>>) -> usize {
        let says = Says(Mutex::new(says));
        let quorum = Quorum::new(2, Some(&says));
        for round in 1.. {
            let epoch = quorum.epoch.load(Ordering::Acquire);
            if quorum.lock().proven < 2 {
                (0..2).for_each(|_| quorum.prove(epoch));
            }
            quorum.decide();
            if quorum.is_stuck() {
                return round;
            }
        }
        unreachable!("the answers end before")
    }

    #[test]
    fn what_is_outside_has_to_be_the_same_before_and_after_a_proof() {
        assert_eq!(rounds(vec![Some(1), Some(1)]), 2);
        assert_eq!(rounds(vec![Some(2), Some(2), Some(1)]), 3);
        assert_eq!(rounds(vec![Some(1), Some(1), None, Some(1)]), 4);
    }

    #[test]
    fn a_change_voids_the_proofs_before_it() {
        let quorum = Quorum::new(2, Some(&Nobody));
        quorum.lock().calm = Some(0);
        quorum.prove(0);
        quorum.change();
        // The second thread's turn began before the change.
        quorum.prove(0);
        quorum.decide();
        assert!(!quorum.is_stuck());
        quorum.prove(1);
        quorum.decide();
        assert!(!quorum.is_stuck());
        quorum.prove(1);
        quorum.decide();
        assert!(quorum.is_stuck());
    }

    #[test]
    fn without_knowledge_of_the_outside_nothing_is_stuck() {
        let quorum = Quorum::new(1, None);
        quorum.prove(0);
        quorum.decide();
        quorum.decide();
        assert!(!quorum.is_stuck() && quorum.into_waiting().is_none());
    }
}
