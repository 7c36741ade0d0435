//! What this thread is doing that changes what its calls do: capturing, running a host callback, enqueuing branches, keeping what
//! is deferred. All lie in one cache line, because each launch reads them, and by then the driver has evicted the processor's caches.

use std::cell::Cell;

use crate::capture::Mode;

/// The state of a thread.
pub(crate) struct ThreadState {
    /// What its work becomes.
    pub(crate) mode: Cell<Mode>,
    /// Whether it runs a host callback.
    pub(crate) in_host_callback: Cell<bool>,
    /// How many scopes it is in that enqueue branches.
    pub(crate) forks: Cell<u32>,
    /// Whether its driver calls leave what is deferred: it holds a lock that a drop may take, or is dropping what was deferred.
    pub(crate) keeps_deferred: Cell<bool>,
}

thread_local! {
    pub(crate) static THREAD: ThreadState = const {
        ThreadState {
            mode: Cell::new(Mode::Execute),
            in_host_callback: Cell::new(false),
            forks: Cell::new(0),
            keeps_deferred: Cell::new(false),
        }
    };
}

/// Whether this thread's calls go to the driver as they are: no capture, no host callback, no branches.
#[inline]
pub(crate) fn is_plain() -> bool {
    may_call_driver() && THREAD.with(|thread| thread.forks.get() == 0)
}

/// Whether this thread may call the driver: no capture, no host callback.
#[inline]
pub(crate) fn may_call_driver() -> bool {
    THREAD.with(|thread| thread.mode.get() == Mode::Execute && !thread.in_host_callback.get())
}
