//! Which process this is: a driver works in the one that started it, and not in its forked children.
//!
//! Asking the system for the process's number at each call would cost more than all else that a launch
//! does on the host, so the system tells of forks where it can.

#[cfg(unix)]
use std::ffi::c_int;
use std::process;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether this process was forked from one that had asked to be told.
#[cfg(unix)]
static FORKED: AtomicBool = AtomicBool::new(false);

/// The process that it was made in.
#[derive(Clone, Copy)]
pub(crate) enum Origin {
    /// The system tells of forks.
    #[cfg(unix)]
    Watched,
    /// The process of this number.
    Number(u32),
}

impl Origin {
    /// This process.
    pub(crate) fn here() -> Self {
        watch_forks().unwrap_or_else(|| Self::Number(process::id()))
    }

    /// Whether this is still that process.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        match self {
            #[cfg(unix)]
            Self::Watched => !FORKED.load(Ordering::Relaxed),
            Self::Number(number) => number == process::id(),
        }
    }
}

#[cfg(unix)]
fn watch_forks() -> Option<Origin> {
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
    (watched == 0).then_some(Origin::Watched)
}

#[cfg(not(unix))]
fn watch_forks() -> Option<Origin> {
    None
}
