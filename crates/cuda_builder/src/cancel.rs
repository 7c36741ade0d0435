//! Builds that another thread can end.

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
    child: Option<Child>,
}

impl Cancel {
    /// Ends the build that runs, and every later one at its start, with
    /// [`CudaBuilderError::Cancelled`](crate::CudaBuilderError::Cancelled).
    pub fn cancel(&self) {
        let mut state = self.lock();
        state.cancelled = true;
        if let Some(child) = &mut state.child {
            // It fails for a process that has ended, which is what is wanted.
            let _ = child.kill();
        }
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
            let _ = child.kill();
        }
        state.child = Some(child);
        Running(self)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A process that can be cancelled.
pub(crate) struct Running<'a>(&'a Cancel);

impl Running<'_> {
    /// Waits for its end, which is near: its output is closed. Nothing if it was cancelled.
    pub(crate) fn wait(self) -> io::Result<Option<ExitStatus>> {
        let mut state = self.0.lock();
        let Some(mut child) = state.child.take() else { return Ok(None) };
        let status = child.wait()?;
        Ok((!state.cancelled).then_some(status))
    }
}
