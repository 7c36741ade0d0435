//! Calls that one rank refuses and others make: they would wait for it, so the communicator ends.
//!
//! Each rank counts the calls that all members make: collectives, and operations over ranks. One that refuses a call tells the
//! others its number, by the control connections. Whoever has refused the call of that number too goes on; whoever has made it, or
//! comes to make it, ends the communicator, and tells all members that. Sends and receives are not counted, since ranks
//! make different ones: a refused one ends the communicator at once.

use std::sync::{MutexGuard, PoisonError};

use super::{Communicator, Inner};
use crate::control::Refusal;
use crate::error::{DistError, DistResult};
use crate::fate::End;

/// The calls of a rank on a communicator.
#[derive(Default)]
pub(super) struct Calls {
    /// The number of the next one.
    next: u64,
    /// Those that this rank has refused.
    refused: Vec<u64>,
    /// What others have refused, and this rank has not come to yet.
    ahead: Vec<Refusal>,
}

/// Which call is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    /// One that all members make, before it has a number.
    Next,
    /// One that was made, and has failed.
    Made(u64),
    /// A send or a receive.
    Uncounted,
}

impl Calls {
    /// Makes the next call, and returns its number; an error if another rank has refused it.
    fn make(&mut self) -> Result<u64, Refusal> {
        let number = self.next;
        if let Some(refusal) = self.ahead.iter().find(|own| own.call == Some(number)) {
            return Err(refusal.clone());
        }
        self.next += 1;
        Ok(number)
    }

    /// Refuses a call, and returns its number, if it has one.
    fn refuse(&mut self, call: Call) -> Option<u64> {
        let number = match call {
            Call::Uncounted => return None,
            Call::Made(number) => number,
            Call::Next => {
                self.next += 1;
                self.next - 1
            }
        };
        self.refused.push(number);
        self.ahead.retain(|own| own.call != Some(number));
        Some(number)
    }

    /// What another rank has refused; whether it ends the communicator.
    fn note(&mut self, refusal: &Refusal) -> bool {
        match refusal.call {
            None => true,
            Some(number) if number < self.next => !self.refused.contains(&number),
            Some(_) => {
                self.ahead.push(refusal.clone());
                false
            }
        }
    }
}

impl Communicator {
    /// Counts a call that all members make; an error if one of them has refused it. What this rank may refuse was checked before.
    pub(crate) fn begin_call(&self) -> DistResult<u64> {
        let made = self.inner.calls().make();
        made.map_err(|refusal| self.inner.end_refused(refusal).into())
    }

    /// What `work` returns, of which all members do theirs. If it fails on this rank alone, and not within a call that has told
    /// it already, the others are told.
    #[cfg(feature = "ops")]
    pub(crate) fn attempt<T>(&self, work: impl FnOnce() -> DistResult<T>) -> DistResult<T> {
        let refused = || self.inner.calls().refused.len();
        let before = refused();
        work().map_err(|error| match refused() == before {
            true => self.refuse(error, Call::Next),
            false => error,
        })
    }

    /// Tells the others that this rank does not make a call, unless they know why: a rank is lost, or the communicator has ended.
    pub(super) fn refuse(&self, error: DistError, call: Call) -> DistError {
        let is_known = matches!(
            error,
            DistError::RankLost { .. }
                | DistError::MissingRanks { .. }
                | DistError::CallRefused { .. }
                | DistError::Deadline { .. }
                | DistError::Aborted
        );
        if is_known || self.inner.fate.has_ended() {
            return error;
        }
        let call = self.inner.calls().refuse(call);
        let (key, rank) = (self.inner.key.clone(), self.members()[self.rank() as usize]);
        let refusal = Refusal { key, rank, call, reason: error.to_string() };
        self.inner.tell(refusal.clone());
        if call.is_none() {
            self.inner.end_refused(refusal);
        }
        error
    }
}

impl Inner {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, refusal: Refusal) {
        if let Some(control) = self.world.control() {
            control.refuse(self.fate.members(), refusal);
        }
    }

    /// What another rank has refused.
    pub(super) fn note(&self, refusal: &Refusal) {
        if refusal.key == self.key && self.calls().note(refusal) {
            self.end_refused(refusal.clone());
        }
    }

    /// Ends the communicator, and tells all members: the one that has refused does not know that others have not.
    fn end_refused(&self, refusal: Refusal) -> End {
        let Refusal { rank, reason, .. } = refusal.clone();
        let end = self.end(End::Refused { rank, reason });
        if refusal.call.is_some() {
            self.tell(Refusal { call: None, ..refusal });
        }
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(call: Option<u64>) -> Refusal {
        Refusal { key: "k".to_owned(), rank: 3, call, reason: "9 elements".to_owned() }
    }

    #[test]
    fn a_call_that_all_refuse_ends_nothing() {
        let mut calls = Calls::default();
        assert_eq!(calls.make().unwrap(), 0);
        // Before this rank comes to it, and after.
        assert!(!calls.note(&refusal(Some(1))));
        assert_eq!(calls.refuse(Call::Next), Some(1));
        assert!(!calls.note(&refusal(Some(1))));
        assert_eq!(calls.make().unwrap(), 2);
    }

    #[test]
    fn a_call_that_this_rank_makes_and_another_refuses_ends_it() {
        let mut calls = Calls::default();
        assert!(!calls.note(&refusal(Some(0))));
        assert_eq!(calls.make().unwrap_err(), refusal(Some(0)));
        let mut calls = Calls::default();
        calls.make().unwrap();
        assert!(calls.note(&refusal(Some(0))));
        // One that has failed after it was made is refused.
        assert_eq!(calls.refuse(Call::Made(0)), Some(0));
        assert!(!calls.note(&refusal(Some(0))));
    }

    #[test]
    fn what_has_no_number_ends_it() {
        let mut calls = Calls::default();
        assert_eq!(calls.refuse(Call::Uncounted), None);
        assert!(calls.note(&refusal(None)));
        assert_eq!(calls.make().unwrap(), 0);
    }
}
