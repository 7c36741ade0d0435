//! Collectives among ranks.

mod calls;
mod group;
mod group_calls;
mod join;
mod lower;
mod refusal;
mod run;
mod split;
mod wait;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use ferrowarp::{DeviceBuffer, Gpu};

use crate::control::{Refusal, Watcher};
use crate::error::{DistResult, Loss};
use crate::fate::{End, Fate};
#[cfg(feature = "ops")]
use crate::peers::PeerMemory;
use crate::transport::{Backend, Transport};
use crate::world::World;

pub use group::Group;
use refusal::Calls;

/// How long anything may take, unless `FERROWARP_DIST_DEADLINE` says otherwise.
const DEADLINE: Duration = Duration::from_secs(600);

/// Ranks that work together, each with one device. A clone is the same communicator.
///
/// All operations are enqueued on a stream, in order with all other uses of the buffers, and return at once where the
/// backend is NCCL; MPI has moved the data when they return. All ranks make the same calls in the same order. Lengths are
/// checked on each rank before anything is enqueued; that they agree between ranks is for the program to see to, as with NCCL and
/// MPI themselves. See [below](#calls-that-are-refused) for a call that one rank refuses.
///
/// | operation | what each rank gives | what each rank gets |
/// |---|---|---|
/// | [`all_reduce`](Self::all_reduce) | `[n]` | `[n]`, reduced over the ranks |
/// | [`reduce`](Self::reduce) | `[n]` | the root `[n]`, reduced over the ranks |
/// | [`reduce_scatter`](Self::reduce_scatter) | `[ranks × n]` | `[n]`, its share of what is reduced |
/// | [`reduce_scatter_uneven`](Self::reduce_scatter_uneven) | `[sum of shares]` | `[its share]` |
/// | [`broadcast`](Self::broadcast) | the root `[n]` | `[n]` of the root |
/// | [`all_gather`](Self::all_gather) | `[n]` | `[ranks × n]`, in the order of the ranks |
/// | [`all_gather_uneven`](Self::all_gather_uneven) | `[its share]` | `[sum of shares]` |
/// | [`gather`](Self::gather), [`gather_uneven`](Self::gather_uneven) | `[n]`, or its share | the root all of them |
/// | [`scatter`](Self::scatter), [`scatter_uneven`](Self::scatter_uneven) | the root all shares | `[n]`, or its share |
/// | [`all_to_all`](Self::all_to_all) | `[ranks × n]` | `[ranks × n]`: part `i` is from rank `i` |
/// | [`all_to_all_uneven`](Self::all_to_all_uneven) | any part for each rank | any part from each rank |
/// | [`send`](Self::send), [`receive`](Self::receive) | `[n]` to one rank | `[n]` from one rank |
///
/// Several operations become one by [`group`](Self::group). Within a capture ([`GraphBuilder::capture`]) an
/// operation over NCCL becomes a node of the graph; the first use of a communicator, by which the ranks connect, is better not
/// captured.
///
/// # Ranks that are lost
///
/// If a member dies, all calls on it, and those that wait, return [`RankLost`](crate::DistError::RankLost) with its number,
/// within seconds; a member whose host is gone is noticed after 15 s. What was enqueued on streams then ends without a
/// result, so that no wait for them hangs: [`synchronize`](Self::synchronize) returns the error, while a wait for the
/// stream alone succeeds, with buffers that hold anything. Communicators of which it was not a member work on.
///
/// # Calls that are refused
///
/// A call with an argument that does not fit, such as a length, a root that is not a rank or overlapping buffers, returns an error, and
/// nothing is enqueued. If all ranks refuse it alike, the communicator works on. If some refuse it and others make it, which would
/// wait for them, the communicator has ended on all ranks: within moments calls and waits of the others return
/// [`CallRefused`](crate::DistError::CallRefused), which names the rank and its reason, and so do later calls of the rank that has
/// refused. Buffers that the others' call was to write hold anything. A [send](Self::send) or a [receive](Self::receive) that
/// is refused ends the communicator whatever the others do. A new communicator of the same [`World`] works.
///
/// [`GraphBuilder::capture`]: ferrowarp::GraphBuilder::capture
#[derive(Clone)]
pub struct Communicator {
    inner: Arc<Inner>,
}

struct Inner {
    world: World,
    gpu: Gpu,
    /// Its number among the members.
    rank: u32,
    /// What tells it from other communicators of the world.
    key: String,
    splits: AtomicU64,
    calls: Mutex<Calls>,
    fate: Arc<Fate>,
    /// Memory of ranks of one host; it ends before the transport.
    #[cfg(feature = "ops")]
    peers: Option<PeerMemory>,
    transport: Box<dyn Transport>,
    /// What a barrier reduces.
    barrier: Mutex<Option<DeviceBuffer<u32>>>,
}

impl Communicator {
    fn of(
        world: &World,
        gpu: &Gpu,
        rank: u32,
        key: String,
        fate: Arc<Fate>,
        transport: Box<dyn Transport>,
    ) -> DistResult<Self> {
        let (world, gpu, splits) = (world.clone(), gpu.clone(), AtomicU64::new(0));
        let (calls, barrier) = (Mutex::default(), Mutex::default());
        #[cfg(feature = "ops")]
        let peers = match transport.backend() {
            Backend::Nccl { .. } => PeerMemory::meet(&world, &gpu, rank, &key, &fate)?,
            _ => None,
        };
        let inner = Arc::new(Inner {
            world,
            gpu,
            rank,
            key,
            splits,
            calls,
            fate,
            #[cfg(feature = "ops")]
            peers,
            transport,
            barrier,
        });
        if let Some(peers) = inner.fate.peers() {
            let weak: Weak<Inner> = Arc::downgrade(&inner);
            peers.watch(weak);
        }
        // A member that was lost before is noticed here.
        inner.fate.check()?;
        // No rank makes a call before all ranks watch: a rank that does not watch yet is not told of calls that others refuse. A
        // call that another rank refuses while this rank is still here becomes the error of this rank's first call.
        let Inner { world, key, fate, .. } = &*inner;
        let (what, made) = ("the making of a communicator", format!("{key}/made"));
        world.exchange_among(what, &made, fate.members(), Vec::new(), world.timeout())?;
        Ok(Self { inner })
    }

    /// The number of this rank among the members, from 0.
    #[must_use]
    pub fn rank(&self) -> u32 {
        self.inner.rank
    }

    /// How many members there are.
    #[must_use]
    pub fn size(&self) -> u32 {
        self.members().len() as u32
    }

    /// The members' numbers in the world, in the order of their numbers here.
    #[must_use]
    pub fn members(&self) -> &[u32] {
        self.inner.fate.members()
    }

    /// What carries the data.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.inner.transport.backend()
    }

    /// Whether the ranks reach each other's memory, as those of up to 8 devices of one host do over NCCL, with the feature `ops`:
    /// then sums of small messages are faster ([`all_reduce`](Self::all_reduce)), and so are transposes of large matrices and sorts of many keys;
    /// copy engines move the pieces of matrix products. `FERROWARP_DIST_PEERS=0` turns it off. All members answer alike.
    #[must_use]
    pub fn has_peer_memory(&self) -> bool {
        #[cfg(feature = "ops")]
        return self.inner.peers.is_some();
        #[cfg(not(feature = "ops"))]
        return false;
    }

    /// The world whose ranks these are.
    #[must_use]
    pub fn world(&self) -> &World {
        &self.inner.world
    }

    /// The device.
    #[must_use]
    pub fn gpu(&self) -> &Gpu {
        &self.inner.gpu
    }

    /// How long an operation, or a wait for a stream, may take before it is aborted: 10 minutes, or as many seconds as
    /// `FERROWARP_DIST_DEADLINE` says. The loss of a rank is noticed sooner; this is for ranks that make different calls.
    pub fn set_deadline(&self, deadline: Duration) {
        self.inner.fate.set_deadline(deadline);
    }

    /// Ends the communicator on this rank: what is under way ends without a result, and all later calls return
    /// [`Aborted`](crate::DistError::Aborted). Other ranks are not told; what they wait for ends by their deadline, or when this
    /// process ends.
    pub fn abort(&self) {
        self.inner.end(End::Aborted);
    }

    /// The memory of all ranks, if they reach each other's.
    #[cfg(feature = "ops")]
    pub(crate) fn peers(&self) -> Option<&PeerMemory> {
        self.inner.peers.as_ref()
    }

    fn next_split(&self) -> u64 {
        self.inner.splits.fetch_add(1, Ordering::Relaxed)
    }
}

impl Inner {
    /// Ends what is under way. Returns what has ended the communicator, which may be something before.
    fn end(&self, end: End) -> End {
        let end = self.fate.end(end);
        self.transport.abort();
        end
    }
}

impl Watcher for Inner {
    fn lost(&self, rank: u32, how: &Loss) {
        if self.fate.members().contains(&rank) {
            self.end(End::Lost { rank, how: how.clone() });
        }
    }

    fn refused(&self, refusal: &Refusal) {
        self.note(refusal);
    }
}

/// "rank 1 of 4 over NCCL 2.28.9 (libnccl.so.2)"
impl fmt::Display for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} over {}", self.rank(), self.size(), self.backend())
    }
}

impl fmt::Debug for Communicator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Communicator({self})")
    }
}
