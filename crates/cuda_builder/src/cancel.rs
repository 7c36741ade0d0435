//! Builds that another thread can end.

use std::collections::BTreeMap;
use std::io;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Ends a build from another thread. A clone cancels the same builds.
///
/// ```
/// use cuda_builder::{Cancel, CudaBuilder, CudaBuilderError};
///
/// let cancel = Cancel::default();
/// let builder = CudaBuilder::new(env!("CARGO_MANIFEST_DIR")).cancel(&cancel);
/// cancel.cancel();
/// assert!(matches!(builder.compile(), Err(CudaBuilderError::Cancelled)));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancel {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    cancelled: bool,
    /// The processes that run, by numbers that do not come twice.
    children: BTreeMap<usize, Child>,
    started: usize,
}

impl Cancel {
    /// Ends the build that runs, with its compilers, and every later one at its start, with
    /// [`CudaBuilderError::Cancelled`](crate::CudaBuilderError::Cancelled).
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        state.children.values_mut().for_each(end);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.lock().cancelled
    }

    /// Takes over a process, which ends at once if the build was cancelled while it started.
    pub(crate) fn started(&self, mut child: Child) -> Running<'_> {
        let mut state = self.lock();
        if state.cancelled {
            end(&mut child);
        }
        let number = state.started;
        state.started += 1;
        state.children.insert(number, child);
        Running { cancel: self, number }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a process, and with it those that it started, where the system knows groups of processes: a compiler
/// would go on for a minute, and keep the processors from the next build.
fn end(child: &mut Child) {
    #[cfg(unix)]
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: a signal touches no memory of this process. The child leads a group of its own, or there is
        // no group of this number, and it was not waited for, so that the number is still its own.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    // It fails for a process that has ended, which is what is wanted.
    let _ = child.kill();
}

/// A process that can be cancelled.
pub(crate) struct Running<'a> {
    cancel: &'a Cancel,
    number: usize,
}

impl Running<'_> {
    /// Waits for its end, which is near: its output is closed. Nothing if it was cancelled.
    pub(crate) fn wait(self) -> io::Result<Option<ExitStatus>> {
        let mut state = self.cancel.lock();
        let Some(mut child) = state.children.remove(&self.number) else { return Ok(None) };
        let status = child.wait()?;
        Ok((!state.cancelled).then_some(status))
    }
}
