//! The happens-before order between the tasks of streams and the host, for the race check (see the
//! emulator's `race`). Nothing is tracked where that check is off.

use std::cell::RefCell;
use std::sync::Arc;

use ::emulator::race::{Area, Clock, Moment, RaceState, Transfer};

use super::gpu::{self, memory};
use crate::codes::CUDA_ERROR_LAUNCH_FAILED;
use crate::detail::{DriverError, DriverResult};

thread_local! {
    /// The task that this thread runs for a stream, and the clock of its completion.
    static CURRENT: RefCell<Option<(Arc<Moment>, Clock)>> = const { RefCell::new(None) };
}

fn races() -> Option<&'static Arc<RaceState>> {
    gpu::all().ok()?.first()?.device.races()
}

/// Whether the order is tracked.
pub(super) fn is_tracked() -> bool {
    races().is_some()
}

/// Whether any stream has a task that is not completed.
pub(super) fn is_pending() -> bool {
    races().is_some_and(|races| races.order.is_pending())
}

/// A task is enqueued. Returns the host's clock.
pub(super) fn submit(line: u64, ticket: u64) -> Arc<Clock> {
    races().map(|races| races.submit(line, ticket)).unwrap_or_default()
}

/// A task is completed.
pub(super) fn finish(line: u64, ticket: u64) {
    races().into_iter().for_each(|races| races.order.finish(line, ticket));
}

/// Orders what `clock` holds before what the host does next.
pub(super) fn order_before_host(clock: &Clock) {
    races().into_iter().for_each(|races| races.order.tell_host(clock));
}

/// Runs a task at a moment. Returns the clock of its completion.
pub(super) fn run_at(moment: Moment, task: impl FnOnce()) -> Clock {
    let end = moment.end();
    CURRENT.set(Some((Arc::new(moment), end)));
    task();
    CURRENT.take().map(|(_, end)| end).unwrap_or_default()
}

/// The moment of the running task.
pub(super) fn current_moment() -> Option<Arc<Moment>> {
    races().and_then(|_| {
        CURRENT.with_borrow(|current| current.as_ref().map(|(moment, _)| moment.clone()))
    })
}

/// The running task is a host callback: what precedes it in the stream happens before it, and what
/// the host has done by its end happens before what follows in the stream.
pub(super) fn host_call(call: impl FnOnce()) {
    CURRENT.with_borrow(|current| current.iter().for_each(|(_, end)| order_before_host(end)));
    call();
    acquire(races().map(|races| Clock::clone(&races.order.host())));
}

/// The running task is about to write a word that any thread may read, which releases all that
/// happened before the task.
pub(super) fn release_to_all() {
    CURRENT.with_borrow(|current| {
        current.iter().for_each(|(moment, _)| order_before_host(&moment.clock))
    });
}

/// The running task has waited for a word in memory, which any thread may have written.
pub(super) fn acquire_from_all() {
    acquire(races().map(|races| races.order.done()));
    acquire(races().map(|races| Clock::clone(&races.order.host())));
}

fn acquire(clock: Option<Clock>) {
    CURRENT.with_borrow_mut(|current| {
        current.iter_mut().zip(&clock).for_each(|((_, end), clock)| end.join(clock));
    });
}

/// The running task is about to access memory: areas, each with whether it is written.
pub(super) fn begin_access(what: String, areas: Vec<(Area, bool)>) -> DriverResult {
    let Some((races, moment)) = races().zip(current_moment()) else { return Ok(()) };
    races.begin(Transfer { moment, what, areas }, memory()?).map_err(|race| failure(&race))
}

/// Checks an access that the host makes itself, at once, rather than a stream.
pub(super) fn check_host_access(what: String, start: u64, bytes: u64) -> DriverResult {
    let Some(races) = races() else { return Ok(()) };
    let (clock, stream) = (races.order.host(), "the host's own thread".to_owned());
    let moment = Arc::new(Moment { line: 0, ticket: 0, stream, clock });
    let areas = vec![(Area::row(start, bytes), true)];
    races.at_once(&Transfer { moment, what, areas }, memory()?).map_err(|race| failure(&race))
}

fn failure(race: &::emulator::fault::StreamRace) -> DriverError {
    DriverError::new(CUDA_ERROR_LAUNCH_FAILED, race.to_string())
}
