//! What carries pieces from rank to rank beside the products.

use bytemuck::Pod;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::{DeviceBuffer, Event, Stream};

use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::parts::{Received, Sent, enqueue_by_peers, exchange_with_others};
use crate::peers::{Puts, Reached};

/// From this size on copy engines move pieces, where they can.
const LARGE_BYTES: usize = 1 << 20;
/// The multiprocessors that products leave to the flags of copies by engines: one thread each, in lanes to and from a neighbour.
const LEFT_TO_FLAGS: u32 = 4;
/// The multiprocessors that products leave to NCCL's kernels, which take one for each of their channels. Assumed, not measured: to more
/// channels than these (`NCCL_MAX_CTAS` says how many) the product's last blocks give way.
const LEFT_TO_KERNELS: u32 = 16;

/// The multiprocessors that a product takes while pieces travel.
pub(super) fn multiprocessors_beside(ranks: &Communicator) -> u32 {
    let left = if ranks.peers().is_some() { LEFT_TO_FLAGS } else { LEFT_TO_KERNELS };
    ranks.gpu().info().multiprocessors.saturating_sub(left).max(1)
}

/// The stream on which pieces travel. Its blocks have priority over those of products.
pub(super) struct Link {
    pub(super) stream: Stream,
    /// The bytes of each rank's rooms, where pieces go by copy engines.
    room_bytes: Option<usize>,
}

/// The bytes of rooms for a piece of so many bytes, so that all pieces are aligned.
pub(super) fn slot_bytes(piece_bytes: usize) -> usize {
    piece_bytes.next_multiple_of(256)
}

/// Whether copy engines are to move pieces of up to that many bytes: the same on all ranks.
pub(super) fn is_by_engines(ranks: &Communicator, longest_bytes: usize) -> bool {
    ranks.peers().is_some() && longest_bytes >= LARGE_BYTES
}

impl Link {
    /// For pieces that go to rooms of that many bytes, or by the backend if there are none. All ranks call it. Waits for them.
    pub(super) fn new(ranks: &Communicator, room_bytes: Option<usize>) -> DistResult<Self> {
        let urgent = *ranks.gpu().stream_priorities()?.start();
        let stream = ranks.gpu().create_stream_with_priority(urgent)?;
        let mut link = Self { stream, room_bytes };
        if link.rooms(ranks)?.is_none() {
            link.room_bytes = None;
        }
        Ok(link)
    }

    /// Whether pieces go to rooms.
    pub(super) fn has_rooms(&self) -> bool {
        self.room_bytes.is_some()
    }

    /// The rooms of all ranks, if there are any. All ranks call it.
    pub(super) fn rooms(&self, ranks: &Communicator) -> DistResult<Option<Reached>> {
        match (ranks.peers(), self.room_bytes) {
            (Some(peers), Some(bytes)) => peers.rooms().reach(&vec![bytes; ranks.size() as usize]),
            _ => Ok(None),
        }
    }

    /// Sends a piece to one rank while another comes from one. All ranks call it, perhaps with nothing to send or to receive.
    pub(super) fn exchange<T: Pod>(
        &self,
        ranks: &Communicator,
        sent: Sent<'_, T>,
        received: Received<'_, T>,
    ) -> DistResult<()> {
        let (sent, mut received) = ([sent], [received]);
        let group = ranks.group().counted();
        exchange_with_others(group, ranks.rank(), &sent, &mut received)?.enqueue(&self.stream)
    }

    /// Lets `work` write pieces into the others' rooms, when all ranks are done with what is there, and multiply on `on`, which goes on
    /// when the rooms are free again. `memory` names what of the pieces others may use, too. The ranks have peer memory.
    ///
    /// # Safety
    /// As [`PeerMemory::put`](crate::peers::PeerMemory::put) for `work`, whose second argument are the events that each message waits for.
    pub(super) unsafe fn put(
        &self,
        ranks: &Communicator,
        on: &Stream,
        memory: ForeignMemory,
        work: impl FnOnce(&mut Puts<'_>, &[Event]) -> DistResult<()>,
    ) -> DistResult<()> {
        const OPERATION: &str = "the exchange of a product over ranks";
        let peers = ranks.peers().expect("ranks with rooms have peer memory");
        [on, &self.stream].into_iter().try_for_each(|stream| peers.rooms().wait(stream))?;
        let all = |link: &mut Puts<'_>| {
            let met = link.meet()?;
            work(link, &met)
        };
        // SAFETY: the caller's promise.
        let exchange = || unsafe { peers.put(&self.stream, all) };
        // SAFETY: the caller's promise; the stream waits for all lanes.
        unsafe { enqueue_by_peers(ranks, &self.stream, OPERATION, memory, exchange) }?;
        on.join(std::slice::from_ref(&self.stream))?;
        peers.rooms().leave(on)
    }
}

/// Buffers for pieces, each of which a stream of its own orders: what is enqueued for one does not wait for another.
pub(super) fn buffers<T: Pod>(
    ranks: &Communicator,
    count: usize,
    len: usize,
) -> DistResult<Vec<DeviceBuffer<T>>> {
    let buffer = |_| {
        let home = ranks.gpu().create_stream()?;
        // SAFETY: an exchange or a product writes what is then read.
        unsafe { unwritten(&home, len) }
    };
    (0..count).map(buffer).collect()
}
