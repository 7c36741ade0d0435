//! The order that the host gives to operations of its streams: which operation is complete when
//! another begins.
//!
//! Each stream numbers its operations with tickets. A [`Clock`] is a vector clock: for each stream,
//! the ticket up to which all operations are complete. An operation begins with the clock of its
//! own stream, joined with those of all events and streams that it waits for, and with that of the
//! host when it was submitted. The host has one clock for all its threads, which every wait
//! advances: synchronisation between host threads is not observed, so none of them may be given an
//! older clock than it can have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Up to which ticket of each line all is known to be over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// What was before the host last knew everything is forgotten.
    epoch: u64,
    seen: BTreeMap<u64, u64>,
}

impl Clock {
    /// Whether an operation is known to be over.
    pub fn knows(&self, line: u64, ticket: u64) -> bool {
        self.seen.get(&line).is_some_and(|seen| *seen >= ticket)
    }

    /// Learns that all of a line up to a ticket is over.
    pub fn learn(&mut self, line: u64, ticket: u64) {
        let seen = self.seen.entry(line).or_default();
        *seen = ticket.max(*seen);
    }

    /// Learns all that another clock knows.
    pub fn join(&mut self, other: &Self) {
        if other.epoch > self.epoch {
            *self = other.clone();
        } else if other.epoch == self.epoch {
            other.seen.iter().for_each(|(line, ticket)| self.learn(*line, *ticket));
        }
    }

    fn covers(&self, other: &Self) -> bool {
        other.seen.iter().all(|(line, ticket)| self.knows(*line, *ticket))
    }
}

/// An operation of a stream, and what is over when it begins.
#[derive(Debug)]
pub struct Moment {
    /// The line; 0 for the host itself.
    pub line: u64,
    /// Its number in the line, from 1 on.
    pub ticket: u64,
    /// The stream, in words: `stream 65536`.
    pub stream: String,
    /// What is over.
    pub clock: Arc<Clock>,
}

impl Moment {
    /// Whether another operation is over when this one begins, or is part of the same one.
    pub fn knows(&self, other: &Self) -> bool {
        (self.line, self.ticket) == (other.line, other.ticket)
            || self.clock.knows(other.line, other.ticket)
    }

    /// Whether one of the two is over when the other begins.
    pub fn is_ordered(&self, other: &Self) -> bool {
        self.knows(other) || other.knows(self)
    }

    /// What is known when it is over.
    pub fn end(&self) -> Clock {
        let mut clock = Clock::clone(&self.clock);
        clock.learn(self.line, self.ticket);
        clock
    }
}

#[derive(Default)]
struct State {
    host: Arc<Clock>,
    /// The last ticket of each line that was handed in.
    latest: Clock,
    /// The last of each line that is over.
    done: Clock,
    pending: usize,
}

/// What the host knows, and what it has enqueued.
#[derive(Default)]
pub struct Order {
    state: Mutex<State>,
}

impl Order {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An operation is enqueued. Returns what the host knows, and whether that was all there is:
    /// then nothing that came before can race with what comes.
    pub fn submit(&self, line: u64, ticket: u64) -> (Arc<Clock>, bool) {
        let mut state = self.state();
        let all = state.pending == 0 && state.host.covers(&state.latest);
        if all {
            let epoch = state.host.epoch + 1;
            let empty = || Clock { epoch, seen: BTreeMap::new() };
            (state.host, state.latest, state.done) = (Arc::new(empty()), empty(), empty());
        }
        state.latest.learn(line, ticket);
        state.pending += 1;
        (Arc::clone(&state.host), all)
    }

    /// An operation is over.
    pub fn finish(&self, line: u64, ticket: u64) {
        let mut state = self.state();
        state.done.learn(line, ticket);
        state.pending = state.pending.saturating_sub(1);
    }

    /// Whether an enqueued operation has not completed.
    pub fn is_pending(&self) -> bool {
        self.state().pending > 0
    }

    /// The host learns.
    pub fn tell_host(&self, clock: &Clock) {
        Arc::make_mut(&mut self.state().host).join(clock);
    }

    /// What the host knows.
    pub fn host(&self) -> Arc<Clock> {
        Arc::clone(&self.state().host)
    }

    /// All that is over, whether anybody knows it or not.
    pub fn done(&self) -> Clock {
        self.state().done.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(line: u64, ticket: u64, clock: Clock) -> Moment {
        Moment { line, ticket, stream: format!("stream {line}"), clock: Arc::new(clock) }
    }

    #[test]
    fn clocks_order_what_they_have_learnt() {
        let first = moment(1, 1, Clock::default());
        let second = moment(1, 2, first.end());
        let beside = moment(2, 1, Clock::default());
        let mut both = second.end();
        both.join(&beside.end());
        let last = moment(2, 2, both);
        assert!(second.knows(&first) && !first.knows(&second) && first.is_ordered(&second));
        assert!(!beside.is_ordered(&first) && !beside.is_ordered(&second));
        assert!(last.knows(&first) && last.knows(&second) && last.knows(&beside));
    }

    #[test]
    fn all_is_forgotten_once_the_host_knows_it_and_only_then() {
        let order = Order::default();
        assert!(order.submit(1, 1).1, "there was nothing");
        assert!(!order.submit(2, 1).1, "an operation was pending");
        order.finish(1, 1);
        order.finish(2, 1);
        let mut clock = Clock::clone(&order.host());
        clock.learn(1, 1);
        order.tell_host(&clock);
        let (known, all) = order.submit(1, 2);
        assert!(!all && known.knows(1, 1) && !known.knows(2, 1));
        clock.learn(2, 1);
        clock.learn(1, 2);
        order.finish(1, 2);
        order.tell_host(&clock);
        let (known, all) = order.submit(1, 3);
        assert!(all && !known.knows(1, 1));
        let mut new = Clock::clone(&known);
        new.join(&clock);
        assert!(!new.knows(2, 1), "what is of an earlier epoch is not learnt");
    }
}
