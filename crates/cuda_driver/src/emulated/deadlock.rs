//! Whether anything outside of a kernel can still write the memory that the kernel polls: other
//! streams, and threads of the host.
//!
//! The emulator asks before it reports a launch whose threads only poll as a deadlock. Nothing
//! outside can end the polling any more when
//! - every other stream is idle, or waits for a stream that is not, which in the end is the
//!   kernel's;
//! - every live thread of the host that ever called the driver waits for such a stream; and
//! - both have held for [`QUIET_TIME`], in case of threads that have not called the driver yet.
//!
//! A host thread that queries its stream from time to time instead of waiting for it may still
//! write anything, so its kernels are left polling.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Weak};
use std::time::{Duration, Instant};

use super::lock;
use super::queue::{StreamProgress, SyncPoint};

/// How long there must have been no activity.
const QUIET_TIME: Duration = Duration::from_secs(2);

/// Counts driver calls, and tasks that are enqueued, begun or completed.
static ACTIVITY: AtomicU64 = AtomicU64::new(0);
/// All streams of the process.
static STREAMS: Mutex<Vec<Weak<StreamProgress>>> = Mutex::new(Vec::new());
static HOST: Mutex<Host> = Mutex::new(Host { threads: 0, waits: Vec::new() });

/// The threads of the host.
struct Host {
    /// How many live threads have called the driver.
    threads: usize,
    /// What those of them that wait wait for.
    waits: Vec<SyncPoint>,
}

/// Counts a thread of the host from its first driver call until it ends.
struct CallingThread;

impl Drop for CallingThread {
    fn drop(&mut self) {
        lock(&HOST).threads -= 1;
        note_activity();
    }
}

thread_local! {
    static CALLING_THREAD: CallingThread = {
        lock(&HOST).threads += 1;
        CallingThread
    };
}

/// Counts a driver call of the host, and its thread.
pub(crate) fn note_host_call() {
    // Fails in the destructors of thread-local variables: the thread is ending.
    let _ = CALLING_THREAD.try_with(|_| ());
    note_activity();
}

/// Counts one activity.
pub(super) fn note_activity() {
    ACTIVITY.fetch_add(1, Ordering::AcqRel);
}

/// Adds a new stream.
pub(super) fn add_stream(stream: Weak<StreamProgress>) {
    let mut streams = lock(&STREAMS);
    streams.retain(|stream| stream.strong_count() > 0);
    streams.push(stream);
}

/// Counts a thread of the host as waiting, until this is dropped.
pub(super) struct HostWait<'p>(&'p SyncPoint);

impl<'p> HostWait<'p> {
    pub(super) fn new(point: &'p SyncPoint) -> Self {
        lock(&HOST).waits.push(point.clone());
        note_activity();
        Self(point)
    }
}

impl Drop for HostWait<'_> {
    fn drop(&mut self) {
        let waits = &mut lock(&HOST).waits;
        let own = waits.iter().position(|point| point.is_same_as(self.0));
        own.map(|own| waits.swap_remove(own));
        note_activity();
    }
}

/// Everything outside of a kernel on one stream.
pub(super) struct Outside {
    /// The stream's id.
    stream: u64,
    /// The activity count at which everything was first found to be quiet, and when that was.
    since: Mutex<Option<(u64, Instant)>>,
}

impl Outside {
    pub(super) fn of(stream: u64) -> Self {
        Self { stream, since: Mutex::default() }
    }

    fn is_quiet(&self) -> bool {
        let host = lock(&HOST);
        let waits =
            host.waits.len() == host.threads && host.waits.iter().all(SyncPoint::is_pending);
        drop(host);
        let idle = |stream: &StreamProgress| stream.is(self.stream) || !stream.is_busy();
        waits && lock(&STREAMS).iter().filter_map(Weak::upgrade).all(|stream| idle(&stream))
    }
}

impl ::emulator::Outside for Outside {
    fn calm(&self) -> Option<u64> {
        let activity = ACTIVITY.load(Ordering::Acquire);
        let mut since = lock(&self.since);
        *since = match *since {
            _ if !self.is_quiet() => None,
            Some((then, at)) if then == activity => Some((then, at)),
            _ => Some((activity, Instant::now())),
        };
        since.filter(|(_, at)| at.elapsed() >= QUIET_TIME).map(|(activity, _)| activity)
    }
}
