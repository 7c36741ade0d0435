//! What a backend does for a communicator.

use std::fmt;
use std::sync::Arc;

use ferrowarp::memory::resource::StreamRef;

use crate::element::{ElementKind, Reduction};
use crate::error::DistError;
use crate::fate::Fate;

/// What carries the data between ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Backend {
    /// NCCL: from device to device.
    Nccl {
        /// Its version, as major × 10,000 + minor × 100 + patch.
        version: u32,
        /// The library, as it was opened.
        library: String,
    },
    /// MPI, over the host's memory.
    Mpi {
        /// What the library says it is.
        library: String,
    },
    /// Nothing: there is one rank.
    Alone,
}

impl Backend {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Nccl { .. } => "NCCL",
            Self::Mpi { .. } => "MPI",
            Self::Alone => "no backend (one rank)",
        }
    }
}

/// "NCCL 2.28.9 (libnccl.so.2)"
impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nccl { version, library } => {
                let (major, minor, patch) = (version / 10_000, version / 100 % 100, version % 100);
                write!(f, "NCCL {major}.{minor}.{patch} ({library})")
            }
            Self::Mpi { library } => write!(f, "MPI over the host's memory ({library})"),
            Self::Alone => f.write_str(self.name()),
        }
    }
}

/// Which backend is to carry the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// NCCL for real devices, MPI for emulated ones and where there is no NCCL.
    #[default]
    Automatic,
    /// NCCL.
    Nccl,
    /// MPI.
    Mpi,
}

/// What backends can do: all collectives are made of these. Addresses are the device's, lengths in bytes unless they count elements
/// of a kind; ranks are those of the communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Primitive {
    AllReduce {
        from: u64,
        to: u64,
        len: usize,
        kind: ElementKind,
        reduction: Reduction,
    },
    /// `to` is written at the root alone; elsewhere it is no address.
    Reduce {
        from: u64,
        to: u64,
        len: usize,
        kind: ElementKind,
        reduction: Reduction,
        root: u32,
    },
    /// `len` elements for each rank.
    ReduceScatter {
        from: u64,
        to: u64,
        len: usize,
        kind: ElementKind,
        reduction: Reduction,
    },
    /// `from` is read at the root alone; elsewhere it is no address.
    Broadcast {
        from: u64,
        to: u64,
        bytes: usize,
        root: u32,
    },
    /// `bytes` of each rank.
    AllGather {
        from: u64,
        to: u64,
        bytes: usize,
    },
    Send {
        from: u64,
        bytes: usize,
        to: u32,
    },
    Receive {
        to: u64,
        bytes: usize,
        from: u32,
    },
}

/// A communicator of a backend.
pub(crate) trait Transport: Send + Sync {
    fn backend(&self) -> Backend;

    /// Whether it has nothing to do for these.
    fn is_noop(&self, _primitives: &[Primitive]) -> bool {
        false
    }

    /// Whether it can enqueue these: what it refuses whatever the ranks do.
    fn check_call(
        &self,
        _stream: StreamRef<'_>,
        _primitives: &[Primitive],
    ) -> Result<(), DistError> {
        Ok(())
    }

    /// Enqueues these, as one group, on a stream of the communicator's device, whose context is current. All ranks of
    /// the communicator call it with the same primitives in the same order, sends and receives with their counterparts, after
    /// [`check_call`](Self::check_call). Either
    /// it has no effect on the memory after an error, or what it does is in the stream's order.
    ///
    /// # Safety
    /// The memory is of this device, as long as the primitives say, and is used in the stream's order.
    unsafe fn run(&self, stream: StreamRef<'_>, primitives: &[Primitive]) -> Result<(), DistError>;

    /// A communicator of those ranks that have the same colour, in which this rank has the number `position`. All ranks call it.
    fn split(
        &self,
        colour: Option<u32>,
        position: u32,
        fate: Arc<Fate>,
    ) -> Result<Option<Box<dyn Transport>>, DistError>;

    /// What has gone wrong since, if it is known.
    fn check(&self) -> Result<(), DistError> {
        Ok(())
    }

    /// Ends what is under way. Nothing runs afterwards. Does not wait.
    fn abort(&self) {}
}
