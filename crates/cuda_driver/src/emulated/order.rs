//! What the race check learns of the order of streams: see the emulator's `race`.
//!
//! Nothing is kept where that check is off.

use std::cell::RefCell;
use std::sync::Arc;

use ::emulator::race::{Area, Clock, Moment, RaceState, Transfer};

use super::gpu::{self, memory};
use crate::codes::CUDA_ERROR_LAUNCH_FAILED;
use crate::detail::{Answer, Failure};

thread_local! {
    /// The work that this thread does for a stream, and what is known when it is done.
    static NOW: RefCell<Option<(Arc<Moment>, Clock)>> = const { RefCell::new(None) };
}

fn races() -> Option<&'static Arc<RaceState>> {
    gpu::all().ok()?.first()?.device.races()
}

/// Whether the order is kept.
pub(super) fn is_kept() -> bool {
    races().is_some()
}

/// Whether a stream has anything to do.
pub(super) fn is_pending() -> bool {
    races().is_some_and(|races| races.order.is_pending())
}

/// Work is handed in. Returns what the host knows.
pub(super) fn submit(line: u64, ticket: u64) -> Arc<Clock> {
    races().map(|races| races.submit(line, ticket)).unwrap_or_default()
}

/// Work is over.
pub(super) fn finish(line: u64, ticket: u64) {
    races().into_iter().for_each(|races| races.order.finish(line, ticket));
}

/// The host learns.
pub(super) fn tell_host(clock: &Clock) {
    races().into_iter().for_each(|races| races.order.tell_host(clock));
}

/// Does work at a moment. Returns what is known afterwards.
pub(super) fn during(moment: Moment, work: impl FnOnce()) -> Clock {
    let end = moment.end();
    NOW.set(Some((Arc::new(moment), end)));
    work();
    NOW.take().map(|(_, end)| end).unwrap_or_default()
}

/// The moment of the work at hand.
pub(super) fn moment() -> Option<Arc<Moment>> {
    races().and_then(|_| NOW.with_borrow(|now| now.as_ref().map(|(moment, _)| moment.clone())))
}

/// The work at hand is a call of the host: it knows what was before, and what comes in the stream
/// afterwards knows what the host knows then.
pub(super) fn host_call(call: impl FnOnce()) {
    NOW.with_borrow(|now| now.iter().for_each(|(_, end)| tell_host(end)));
    call();
    learn(races().map(|races| Clock::clone(&races.order.host())));
}

/// The work at hand is about to write a word that anybody may read: who does knows what was before.
pub(super) fn tell_all() {
    NOW.with_borrow(|now| now.iter().for_each(|(moment, _)| tell_host(&moment.clock)));
}

/// The work at hand has waited for a word in memory, which anybody may have written.
pub(super) fn learn_all() {
    learn(races().map(|races| races.order.done()));
    learn(races().map(|races| Clock::clone(&races.order.host())));
}

fn learn(clock: Option<Clock>) {
    NOW.with_borrow_mut(|now| {
        now.iter_mut().zip(&clock).for_each(|((_, end), clock)| end.join(clock));
    });
}

/// The work at hand is about to touch memory; `areas` say whether it writes there.
pub(super) fn begin(what: String, areas: Vec<(Area, bool)>) -> Answer {
    let Some((races, moment)) = races().zip(moment()) else { return Ok(()) };
    races.begin(Transfer { moment, what, areas }, memory()?).map_err(|race| failure(&race))
}

/// The host itself does something with memory, at once.
pub(super) fn host_touches(what: String, start: u64, bytes: u64) -> Answer {
    let Some(races) = races() else { return Ok(()) };
    let (clock, stream) = (races.order.host(), "the host's own thread".to_owned());
    let moment = Arc::new(Moment { line: 0, ticket: 0, stream, clock });
    let areas = vec![(Area::row(start, bytes), true)];
    races.at_once(&Transfer { moment, what, areas }, memory()?).map_err(|race| failure(&race))
}

fn failure(race: &::emulator::fault::StreamRace) -> Failure {
    Failure::new(CUDA_ERROR_LAUNCH_FAILED, race.to_string())
}
