//! What carries the primitives of a group: the backend, or the ranks' own memory.

use ferrowarp::Stream;
use ferrowarp::memory::resource::StreamRef;

use super::Communicator;
use crate::error::DistResult;
use crate::transport::Primitive;

#[cfg(feature = "ops")]
use crate::{
    driver::is_captured,
    peers::{Landing, PeerMemory, Rows},
};

/// Messages between two ranks of so many bytes or more go through staging memory, where there is any.
#[cfg(feature = "ops")]
const STAGED_FROM_BYTES: usize = 16 << 20;

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
        } else if primitives.iter().any(|own| self.is_staged(own)) && !is_captured(stream)? {
            // SAFETY: as above.
            return unsafe { self.run_staged(peers, on, primitives) };
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

#[cfg(feature = "ops")]
impl Communicator {
    /// Whether a message goes through staging memory: the other rank finds the same, by its length.
    fn is_staged(&self, primitive: &Primitive) -> bool {
        let (other, bytes) = match *primitive {
            Primitive::Send { to, bytes, .. } => (to, bytes),
            Primitive::Receive { from, bytes, .. } => (from, bytes),
            _ => return false,
        };
        other != self.rank() && bytes >= STAGED_FROM_BYTES
    }

    /// Sends large messages through staging memory, and leaves the rest to the backend, both at the same time: as one group, of
    /// which no part waits for another.
    ///
    /// # Safety
    /// As [`Transport::run`](crate::transport::Transport::run); the stream is not captured.
    unsafe fn run_staged(
        &self,
        peers: &PeerMemory,
        on: &Stream,
        primitives: &[Primitive],
    ) -> DistResult<()> {
        let (mut sent, mut received, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for primitive in primitives {
            match *primitive {
                _ if !self.is_staged(primitive) => rest.push(*primitive),
                Primitive::Send { from, bytes, to } => sent.push((to, Rows::of_bytes(from, bytes))),
                Primitive::Receive { to, bytes, from } => {
                    received.push(Landing::of_bytes(from, to, bytes));
                }
                _ => unreachable!("sends and receives alone are staged"),
            }
        }
        let beside = || match rest.as_slice() {
            [] => Ok(()),
            // SAFETY: the caller's promise.
            rest => unsafe { self.inner.transport.run(StreamRef::of(on), rest) },
        };
        // SAFETY: the caller's promise.
        unsafe { peers.exchange(on, &sent, &received, beside) }
    }
}
