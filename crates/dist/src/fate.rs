//! Whether a communicator still works, and what has ended it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ferrowarp::MappedAtomics;

use crate::control::Peers;
use crate::error::{DistError, Loss};

/// How long a rank that has ended may have been gone before what waits for it gives up: what it did before may still be under way.
const GRACE: Duration = Duration::from_secs(5);

/// What a communicator's calls check, and what its waits end by.
pub(crate) struct Fate {
    /// The ranks of the world that are members, in the communicator's order.
    members: Vec<u32>,
    /// `None` in a world of one.
    peers: Option<Arc<Peers>>,
    end: OnceLock<End>,
    /// What kernels that wait for other ranks look at: word 0 is set at the end.
    given_up: OnceLock<Arc<MappedAtomics<u32>>>,
    /// How long anything may take, in milliseconds.
    deadline_ms: AtomicU64,
}

/// What has ended a communicator.
#[derive(Clone, Debug)]
pub(crate) enum End {
    Lost {
        rank: u32,
        how: Loss,
    },
    Deadline {
        what: String,
        waited: Duration,
    },
    Aborted,
    /// A rank has refused a call that others make.
    Refused {
        rank: u32,
        reason: String,
    },
    /// NCCL has failed for a reason of its own.
    Nccl {
        call: &'static str,
        code: i32,
        message: String,
        detail_text: String,
    },
}

impl From<End> for DistError {
    fn from(end: End) -> Self {
        match end {
            End::Lost { rank, how } => Self::RankLost { rank, how },
            End::Deadline { what, waited } => Self::Deadline { what, waited },
            End::Aborted => Self::Aborted,
            End::Refused { rank, reason } => Self::CallRefused { rank, reason },
            End::Nccl { call, code, message, detail_text } => {
                Self::Nccl { call, code, message, detail_text }
            }
        }
    }
}

impl Fate {
    pub(crate) fn new(
        members: Vec<u32>,
        peers: Option<Arc<Peers>>,
        deadline: Duration,
    ) -> Arc<Self> {
        let (end, given_up) = (OnceLock::new(), OnceLock::new());
        let own = Self { members, peers, end, given_up, deadline_ms: AtomicU64::new(0) };
        own.set_deadline(deadline);
        Arc::new(own)
    }

    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    pub(crate) fn peers(&self) -> Option<&Arc<Peers>> {
        self.peers.as_ref()
    }

    pub(crate) fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.load(Ordering::Relaxed))
    }

    pub(crate) fn set_deadline(&self, deadline: Duration) {
        let ms = u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX);
        self.deadline_ms.store(ms, Ordering::Relaxed);
    }

    /// Ends the communicator, unless something has before: kernels that wait for other ranks give up. Returns what has ended it.
    pub(crate) fn end(&self, end: End) -> End {
        let end = self.end.get_or_init(|| end).clone();
        self.give_up();
        end
    }

    /// Lets kernels look at word 0 of these.
    #[cfg(feature = "ops")]
    pub(crate) fn give_up_by(&self, words: Arc<MappedAtomics<u32>>) {
        let _ = self.given_up.set(words);
        if self.has_ended() {
            self.give_up();
        }
    }

    fn give_up(&self) {
        if let Some(words) = self.given_up.get() {
            words[0].store(1, Ordering::Release);
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.end.get().is_some()
    }

    /// The error, if it has ended or a member is lost.
    pub(crate) fn check(&self) -> Result<(), DistError> {
        if let Some(end) = self.end.get() {
            return Err(end.clone().into());
        }
        self.peers.as_ref().map_or(Ok(()), |peers| peers.check(&self.members))
    }

    /// The error, if what all members take part in, begun at `start`, cannot end any more.
    pub(crate) fn check_wait(&self, what: &str, start: Instant) -> Result<(), DistError> {
        self.check()?;
        let waited = start.elapsed();
        if let Some(peers) = self.peers.as_ref().filter(|_| waited >= GRACE) {
            peers.check_present(&self.members, GRACE)?;
        }
        if waited >= self.deadline() {
            return Err(DistError::Deadline { what: what.to_owned(), waited });
        }
        Ok(())
    }
}
