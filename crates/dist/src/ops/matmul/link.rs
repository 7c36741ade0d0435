//! What carries pieces from rank to rank beside the products.

use bytemuck::Pod;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::{DeviceBuffer, Stream};

use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::parts::{Received, Sent, enqueue_by_peers, exchange_with_others};
use crate::peers::{Landing, PeerMemory, Rows};

/// From this size on copy engines move pieces, where they can.
const LARGE_BYTES: usize = 1 << 20;
/// Chunks of a piece, at least: other pieces follow.
const CHUNKS: usize = 2;
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
    is_by_engines: bool,
}

impl Link {
    /// For pieces of up to that many bytes, the same on all ranks.
    pub(super) fn new(ranks: &Communicator, longest_bytes: usize) -> DistResult<Self> {
        let urgent = *ranks.gpu().stream_priorities()?.start();
        let stream = ranks.gpu().create_stream_with_priority(urgent)?;
        Ok(Self { stream, is_by_engines: longest_bytes >= LARGE_BYTES })
    }

    /// Sends a piece to one rank while another comes from one. All ranks call it, perhaps with nothing to send or to receive.
    pub(super) fn exchange<T: Pod>(
        &self,
        ranks: &Communicator,
        sent: Sent<'_, T>,
        received: Received<'_, T>,
    ) -> DistResult<()> {
        if let Some(peers) = ranks.peers().filter(|_| self.is_by_engines) {
            return self.by_engines(ranks, peers, sent, received);
        }
        let (sent, mut received) = ([sent], [received]);
        let group = ranks.group().counted();
        exchange_with_others(group, ranks.rank(), &sent, &mut received)?.enqueue(&self.stream)
    }

    fn by_engines<T: Pod>(
        &self,
        ranks: &Communicator,
        peers: &PeerMemory,
        sent: Sent<'_, T>,
        mut received: Received<'_, T>,
    ) -> DistResult<()> {
        const OPERATION: &str = "the exchange of a product over ranks";
        let memory = ForeignMemory::new().reads(&sent.1).writes(&mut received.1);
        // SAFETY: `memory` names both pieces.
        let exchange = || unsafe { exchange_bytes(peers, &self.stream, &sent, &mut received) };
        // SAFETY: beside `memory` what is enqueued uses the communicator's own, and the stream waits for all lanes.
        unsafe { enqueue_by_peers(ranks, &self.stream, OPERATION, memory, exchange) }
    }
}

/// Enqueues an exchange by staging memory.
///
/// # Safety
/// Both pieces are used in the order of the stream, and live until it has gone on.
unsafe fn exchange_bytes<T: Pod>(
    peers: &PeerMemory,
    on: &Stream,
    (to, sent): &Sent<'_, T>,
    (from, received): &mut Received<'_, T>,
) -> DistResult<()> {
    let bytes = |len: usize| len * size_of::<T>();
    let rows = Rows::of_bytes(sent.as_device_ptr().address(), bytes(sent.len()));
    let len = bytes(received.len());
    let landing = Landing::of_bytes(*from, received.as_device_ptr().address(), len);
    let messages: Vec<_> = Some((*to, rows)).into_iter().filter(|_| rows.rows > 0).collect();
    let landings: Vec<_> = Some(landing).into_iter().filter(|own| own.rows > 0).collect();
    // SAFETY: the caller's promise.
    unsafe { peers.exchange(on, (&messages, &landings), CHUNKS, || Ok(())) }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::{emulated, ranks};

    /// Three ranks of one process pass pieces on around a ring, twice, some of several chunks, and some empty.
    #[test]
    fn pieces_go_around_by_engines() -> DistResult<()> {
        let Some(gpu) = emulated()? else { return Ok(()) };
        let all = ranks(&gpu, 3)?;
        let streams: Vec<_> = all.iter().map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
        for lens in [[9_000_001_usize, 0, 1], [70_001, 3, 5_000_000]] {
            let value = |rank: usize, at: usize| (at * 3 + rank) as u16;
            let of_rank =
                |rank: usize| (0..lens[rank]).map(|at| value(rank, at)).collect::<Vec<_>>();
            let mut pieces = Vec::new();
            for (rank, stream) in streams.iter().enumerate() {
                let from = DeviceBuffer::from_slice(stream, &of_rank(rank))?;
                pieces.push((from, DeviceBuffer::<u16>::zeroed(stream, lens[(rank + 2) % 3])?));
            }
            gpu.synchronize()?;
            for (rank, (from, to)) in pieces.iter_mut().enumerate() {
                let sent = ((rank as u32 + 1) % 3, from.as_slice());
                let mut received = ((rank as u32 + 2) % 3, to.as_mut_slice());
                // SAFETY: the pieces are written, and nothing else uses them until the streams have been synchronised.
                unsafe { exchange_bytes(&all[rank], &streams[rank], &sent, &mut received) }?;
            }
            streams.iter().try_for_each(Stream::synchronize)?;
            for (rank, (_, to)) in pieces.iter().enumerate() {
                assert!(to.to_vec()? == of_rank((rank + 2) % 3), "rank {rank}, {lens:?}");
            }
        }
        Ok(())
    }
}
