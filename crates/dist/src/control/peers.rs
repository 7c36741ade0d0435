//! What a rank knows of the others.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::message::Refusal;
use crate::error::{DistError, Loss};

/// Whoever must act when a rank is lost, or refuses a call: a communicator that has to be aborted.
pub(crate) trait Watcher: Send + Sync {
    /// Rank `rank` of the world is lost.
    fn lost(&self, rank: u32, how: &Loss);
    /// A rank has refused a call of a communicator, perhaps of another one. It may be told twice.
    fn refused(&self, refusal: &Refusal);
}

/// Which ranks are lost or have left, and what was exchanged.
#[derive(Default)]
pub(crate) struct Peers {
    state: Mutex<State>,
    changed: Condvar,
    watchers: Mutex<Vec<Weak<dyn Watcher>>>,
}

#[derive(Default)]
pub(super) struct State {
    /// In the order in which it was noticed: the first is the cause of the others.
    lost: Vec<(u32, Loss)>,
    /// Those that have said that they end, and when.
    left: Vec<(u32, Instant)>,
    /// What ranks have refused: a communicator may begin on this rank later than on others.
    refusals: Vec<Refusal>,
    pub(super) has_started: bool,
    pub(super) exchanged: HashMap<String, Vec<Vec<u8>>>,
    pub(super) missing: HashMap<Option<String>, Vec<u32>>,
}

impl Peers {
    /// Calls `watcher` when a rank is lost from now on, and for all calls that were and will be refused.
    pub(crate) fn watch(&self, watcher: Weak<dyn Watcher>) {
        let mut watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner);
        watchers.retain(|own| own.strong_count() > 0);
        watchers.push(watcher.clone());
        drop(watchers);
        let before = self.state().refusals.clone();
        if let Some(watcher) = watcher.upgrade() {
            before.iter().for_each(|refusal| watcher.refused(refusal));
        }
    }

    /// The error if one of these ranks is lost.
    pub(crate) fn check(&self, members: &[u32]) -> Result<(), DistError> {
        let state = self.state();
        let first = state.lost.iter().find(|(rank, _)| members.contains(rank));
        match first {
            Some((rank, how)) => Err(DistError::RankLost { rank: *rank, how: how.clone() }),
            None => Ok(()),
        }
    }

    /// Like [`check`](Self::check), where what is waited for needs all of these ranks: one that left longer ago than `grace`
    /// will not come any more.
    pub(crate) fn check_present(&self, members: &[u32], grace: Duration) -> Result<(), DistError> {
        self.check(members)?;
        let state = self.state();
        let gone = state
            .left
            .iter()
            .find(|(rank, since)| members.contains(rank) && since.elapsed() >= grace);
        match gone {
            Some((rank, _)) => Err(DistError::RankLost { rank: *rank, how: Loss::Ended }),
            None => Ok(()),
        }
    }

    pub(super) fn note_lost(&self, rank: u32, how: Loss) {
        let mut state = self.state();
        if state.lost.iter().any(|(own, _)| *own == rank) {
            return;
        }
        state.lost.push((rank, how.clone()));
        drop(state);
        self.changed.notify_all();
        self.each_watcher(|watcher| watcher.lost(rank, &how));
    }

    pub(super) fn note_refusal(&self, refusal: Refusal) {
        self.change(|state| state.refusals.push(refusal.clone()));
        self.each_watcher(|watcher| watcher.refused(&refusal));
    }

    fn each_watcher(&self, tell: impl Fn(&dyn Watcher)) {
        let watchers = self.watchers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        watchers.iter().filter_map(Weak::upgrade).for_each(|watcher| tell(&*watcher));
    }

    pub(super) fn note_left(&self, rank: u32) {
        self.change(|state| state.left.push((rank, Instant::now())));
    }

    pub(super) fn has_left(&self, rank: u32) -> bool {
        self.state().left.iter().any(|(own, _)| *own == rank)
    }

    /// Changes what is known, and wakes those that wait for it.
    pub(super) fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state());
        self.changed.notify_all();
    }

    /// Waits until `found` finds something, or for at most `timeout`. `check` may end it with an error.
    pub(super) fn wait<T>(
        &self,
        timeout: Duration,
        mut found: impl FnMut(&mut State) -> Option<T>,
        check: impl Fn() -> Result<(), DistError>,
    ) -> Result<Option<T>, DistError> {
        /// How long `check` is left alone if nothing changes.
        const PAUSE: Duration = Duration::from_millis(200);
        let end = Instant::now() + timeout;
        loop {
            let mut state = self.state();
            if let Some(value) = found(&mut state) {
                return Ok(Some(value));
            }
            let Some(left) = end.checked_duration_since(Instant::now()) else { return Ok(None) };
            let waited = self.changed.wait_timeout(state, left.min(PAUSE));
            let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
            // What has come counts, even if a rank was lost since.
            if let Some(value) = found(&mut state) {
                return Ok(Some(value));
            }
            drop(state);
            check()?;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
