//! Detects forks: a driver works in the process that started it, but not in forked children.
//!
//! Querying the process ID in every call would cost more than everything else that a launch does on
//! the host, so a fork handler is registered where the system has them.

#[cfg(unix)]
use std::ffi::c_int;
use std::process;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in a child process that was forked after the fork handler was registered.
#[cfg(unix)]
static FORKED: AtomicBool = AtomicBool::new(false);

/// The process in which a driver was started.
#[derive(Clone, Copy)]
pub(crate) enum StartingProcess {
    /// A fork handler is registered.
    #[cfg(unix)]
    Watched,
    /// The process with this ID.
    Number(u32),
}

impl StartingProcess {
    /// This process.
    pub(crate) fn current() -> Self {
        watch_forks().unwrap_or_else(|| Self::Number(process::id()))
    }

    /// Whether this is still that process.
    #[inline]
    pub(crate) fn is_current(self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Watched => !FORKED.load(Ordering::Relaxed),
            Self::Number(number) => number == process::id(),
        }
    }
}

#[cfg(unix)]
fn watch_forks() -> Option<StartingProcess> {
    extern "C" fn note_fork() {
        FORKED.store(true, Ordering::Relaxed);
    }
    unsafe extern "C" {
        fn pthread_atfork(
            before: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
    }
    // SAFETY: the function only stores to a static, which any moment allows.
    let watched = unsafe { pthread_atfork(None, None, Some(note_fork)) };
    (watched == 0).then_some(StartingProcess::Watched)
}

#[cfg(not(unix))]
fn watch_forks() -> Option<StartingProcess> {
    None
}
