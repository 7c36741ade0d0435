//! What may still write the memory that a running kernel reads: other streams, and the threads of the host.
//!
//! The emulator asks before it ends a launch whose threads do nothing but poll. Nothing outside is left that
//! could help them when
//! - every other stream has done its work, or waits for one that has not, the kernel's in the end; and
//! - every thread of the host that ever called the driver, and lives, waits for such a stream;
//! - and all of that has been so for [`PATIENCE`], for the sake of threads that have not called yet.
//!
//! A host that looks after its stream now and then instead of waiting for it may still do anything: its
//! kernels are left to poll.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use ::emulator::Outside;

use super::lock;
use super::queue::{Point, Progress};

/// How long nothing may have happened.
const PATIENCE: Duration = Duration::from_secs(2);

/// Counts what happens: calls of the driver, work that is handed in, begun or done.
static EVENTS: AtomicU64 = AtomicU64::new(0);
/// All streams.
static LINES: Mutex<Vec<Weak<Progress>>> = Mutex::new(Vec::new());
static HOST: Mutex<Host> = Mutex::new(Host { threads: 0, waits: Vec::new() });

/// The threads of the host.
struct Host {
    /// Those that have called the driver, and live.
    threads: usize,
    /// What some of them wait for.
    waits: Vec<Point>,
}

/// A thread of the host, for as long as it lives.
struct Known;

impl Drop for Known {
    fn drop(&mut self) {
        lock(&HOST).threads -= 1;
        happens();
    }
}

thread_local! {
    static KNOWN: Known = {
        lock(&HOST).threads += 1;
        Known
    };
}

/// The host calls the driver.
pub(crate) fn host_calls() {
    // In the destructors of a thread's variables it may be unknown again; it ends then.
    let _ = KNOWN.try_with(|_| ());
    happens();
}

/// Something happens.
pub(super) fn happens() {
    EVENTS.fetch_add(1, Ordering::AcqRel);
}

/// There is one more stream.
pub(super) fn opens(line: Weak<Progress>) {
    let mut lines = lock(&LINES);
    lines.retain(|line| line.strong_count() > 0);
    lines.push(line);
}

/// A thread of the host waits, until this is dropped.
pub(super) struct Wait<'p>(&'p Point);

impl<'p> Wait<'p> {
    pub(super) fn new(point: &'p Point) -> Self {
        lock(&HOST).waits.push(point.clone());
        happens();
        Self(point)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waits = &mut lock(&HOST).waits;
        let own = waits.iter().position(|point| point.is_same(self.0));
        own.map(|own| waits.swap_remove(own));
        happens();
    }
}

/// All that is outside of a kernel on one stream.
pub(super) struct Others {
    /// The stream's number.
    line: u64,
    /// What had happened, and when that was first found to leave nothing under way.
    since: Mutex<Option<(u64, Instant)>>,
}

impl Others {
    pub(super) fn than(line: u64) -> Self {
        Self { line, since: Mutex::default() }
    }

    fn is_quiet(&self) -> bool {
        let host = lock(&HOST);
        let waits = host.waits.len() == host.threads && host.waits.iter().all(Point::is_ahead);
        drop(host);
        let idle = |line: &Progress| line.is(self.line) || !line.is_busy();
        waits && lock(&LINES).iter().filter_map(Weak::upgrade).all(|line| idle(&line))
    }
}

impl Outside for Others {
    fn calm(&self) -> Option<u64> {
        let events = EVENTS.load(Ordering::Acquire);
        let mut since = lock(&self.since);
        *since = match *since {
            _ if !self.is_quiet() => None,
            Some((then, at)) if then == events => Some((then, at)),
            _ => Some((events, Instant::now())),
        };
        since.filter(|(_, at)| at.elapsed() >= PATIENCE).map(|(events, _)| events)
    }
}
