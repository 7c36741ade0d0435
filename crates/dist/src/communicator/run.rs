//! What carries the primitives of a group: the backend, or the ranks' own memory.

use ferrowarp::Stream;
use ferrowarp::memory::resource::StreamRef;

use super::Communicator;
use crate::error::DistResult;
use crate::transport::Primitive;

#[cfg(feature = "ops")]
use crate::driver::is_captured;

impl Communicator {
    /// Enqueues a group on `stream`, which is that of `on` unless it is captured.
    ///
    /// # Safety
    /// As [`Transport::run`](crate::transport::Transport::run).
    #[cfg(feature = "ops")]
    pub(super) unsafe fn run(
        &self,
        on: &Stream,
        stream: StreamRef<'_>,
        primitives: &[Primitive],
    ) -> DistResult<()> {
        let transport = &self.inner.transport;
        let Some(peers) = self.peers() else {
            // SAFETY: the caller's promise.
            return unsafe { transport.run(stream, primitives) };
        };
        if let Some(sum) = peers.sum(primitives) {
            // SAFETY: the caller's promise; the stream is not captured.
            if !is_captured(stream)? && unsafe { peers.all_reduce(on, sum) }? {
                return Ok(());
            }
        }
        // SAFETY: the caller's promise.
        unsafe { transport.run(stream, primitives) }
    }

    /// As with the feature `ops`, whose kernels the ranks' own memory needs.
    ///
    /// # Safety
    /// As [`Transport::run`](crate::transport::Transport::run).
    #[cfg(not(feature = "ops"))]
    pub(super) unsafe fn run(
        &self,
        _on: &Stream,
        stream: StreamRef<'_>,
        primitives: &[Primitive],
    ) -> DistResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.inner.transport.run(stream, primitives) }
    }
}
