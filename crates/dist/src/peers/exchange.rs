//! Exchanges of large messages through staging memory, in chunks.
//!
//! A chunk of a message is a number of its rows. The sender writes it to a slot in the receiver's staging memory,
//! and the receiver moves it to where it belongs: by a copy, or by whatever it does with it at once, such as a transpose. Copies
//! between devices have a lane for each receiver, a stream or three of high priority, and what arrives one for each sender.
//!
//! Bytes without gaps are sent by the copy engine, which leaves the multiprocessors to the kernels that run meanwhile. Rows with
//! gaps are sent by a kernel where they are whole vectors: a transpose of 1 GiB a rank on two H200s took 2.05 to 2.18 ms by it, and
//! 2.14 to 2.38 by the engine.
//!
//! Each slot has two flags. The receiver waits for the one that says that chunk *n* is there, and the sender, before it writes chunk *n* +
//! [`SLOTS`] to the same slot, for the one that says that *n* was taken. Flags are set and waited for by the
//! kernel [`pass`](fn@kernels_gpu::peers::pass), in the lane: the host waits for nothing.
//!
//! What goes to [rooms](super::rooms) needs no slot: the copy engine writes it to its place, and the flags are those of chunks that
//! have no bytes. Nothing waits for the receiver then.
//!
//! # Why it ends
//!
//! All chunks of a call are enqueued in rounds: the first ones of all messages to others, the first ones of all messages from others,
//! the second ones, and so on. Even if the device took all lanes for one stream, the first round of all ranks would end, since no
//! chunk of it waits for a slot which a later one frees; then the second round, and so on. So what can happen is the same as if each
//! pair of ranks had a queue of its own, like sends and receives of a group over NCCL.
//!
//! For that a chunk and the flag that says it is there are enqueued together, before anything that waits. The host may wait for the
//! device when it enqueues a kernel for the first time, and so for a rank which waits for a chunk of this one. That a chunk was taken
//! may be said a round later: there are more slots.

use std::array;
use std::ops::Range;

use cuda_driver::sys;
use cuda_std::launch::{Args, Grid1, LaunchConfig};
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::{Event, Gpu, Stream};
use kernels_gpu::peers::MAX_RANKS;
use kernels_gpu::quads::{QUAD_BYTES, Quad};

use super::kernels::{Unordered, UnorderedRows};
use super::{PeerMemory, SLOTS, lock};
use crate::driver::check;
use crate::error::DistResult;

/// Chunks of a message that nothing follows, at least, unless they would be very small: the last one is taken when the link is idle
/// already.
pub(crate) const CHUNKS: usize = 8;
/// The fewest bytes of a chunk, unless its message has less: below that flags take longer than bytes.
const LEAST_CHUNK_BYTES: usize = 4 << 20;
/// Chunks begin at a multiple of this many rows: tiles of a transpose stay whole, and addresses aligned.
const GRANULE: usize = 128;

/// Lanes between two ranks for rows that kernels send, and for bytes that the copy engine sends, of which one copy nearly fills the link:
/// what waits in a lane occupies a multiprocessor.
const KERNEL_LANES: usize = 3;
const ENGINE_LANES: usize = 2;
// A flag is always set in the same lane by the engine, so that it never falls back.
const _: () = assert!(SLOTS.is_multiple_of(ENGINE_LANES));
/// Blocks of a kernel that writes to another device. Three of them fill the link, and leave most of each multiprocessor to what takes the
/// chunks that come: blocks that wait for the link would keep it out, and the other rank's slots full.
const COPY_BLOCKS: u32 = 66;

/// Rows of bytes on this rank's device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    /// Where the first begins.
    pub(crate) address: u64,
    /// The length of each.
    pub(crate) row_bytes: usize,
    /// From one to the next.
    pub(crate) pitch_bytes: usize,
    /// How many.
    pub(crate) rows: usize,
}

impl Rows {
    /// Bytes without gaps.
    pub(crate) fn of_bytes(address: u64, bytes: usize) -> Self {
        Self { address, row_bytes: 1, pitch_bytes: 1, rows: bytes }
    }

    fn has_gaps(self) -> bool {
        self.pitch_bytes != self.row_bytes
    }
}

/// What is done with a chunk: on a stream, with those rows of the message, which lie at an address without gaps.
type Land<'a> = Box<dyn Fn(&Stream, u64, Range<usize>) -> DistResult<()> + 'a>;

/// A message that comes from another rank.
pub(crate) struct Landing<'a> {
    pub(crate) from: u32,
    pub(crate) row_bytes: usize,
    pub(crate) rows: usize,
    pub(crate) land: Land<'a>,
}

#[cfg(test)]
impl Landing<'_> {
    /// Bytes that are copied to an address.
    pub(crate) fn of_bytes(from: u32, to: u64, bytes: usize) -> Self {
        let land = move |on: &Stream, at: u64, part: Range<usize>| {
            // SAFETY: the caller's promise of the target; the chunk stays until the stream has gone on.
            unsafe { copy_bytes(on, to + part.start as u64, at, part.len()) }
        };
        Self { from, row_bytes: 1, rows: bytes, land: Box::new(land) }
    }
}

/// Bytes that go from an address in this rank's memory to one in another rank's rooms, as this rank reaches both.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Put {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) bytes: usize,
}

/// Copies bytes from one address to another, of this device's memory or of what it reaches.
///
/// # Safety
/// The bytes are there, and no other work uses them, until the stream has gone on.
pub(crate) unsafe fn copy_bytes(on: &Stream, to: u64, from: u64, bytes: usize) -> DistResult<()> {
    let stream = StreamRef::of(on).as_raw().cast();
    // SAFETY: the caller's promise.
    let copied = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream) };
    check("cuMemcpyDtoDAsync", copied)
}

/// The streams of exchanges.
pub(super) struct Lanes {
    /// To each rank.
    to: [Vec<Lane>; MAX_RANKS],
    /// How many chunks were sent to it.
    sent: [u32; MAX_RANKS],
    /// From each rank.
    from: [Vec<Lane>; MAX_RANKS],
    received: [u32; MAX_RANKS],
}

/// A stream, and the flag that is to be set when it has come to what is enqueued now.
struct Lane {
    stream: Stream,
    pending: Option<(u64, u32)>,
}

impl Lanes {
    pub(super) fn new(gpu: &Gpu, rank: usize, ranks: usize) -> DistResult<Self> {
        // One copy leaves the link idle while it begins and ends; with several receivers others fill that.
        let to_each = if ranks == 2 { KERNEL_LANES } else { 1 };
        let priority = *gpu.stream_priorities()?.start();
        let lanes = |count: usize| -> DistResult<[Vec<Lane>; MAX_RANKS]> {
            let mut all = array::from_fn(|_| Vec::new());
            for lanes in all.iter_mut().take(ranks).enumerate().filter(|own| own.0 != rank) {
                for _ in 0..count {
                    let stream = gpu.create_stream_with_priority(priority)?;
                    lanes.1.push(Lane { stream, pending: None });
                }
            }
            Ok(all)
        };
        let (sent, received) = ([0; MAX_RANKS], [0; MAX_RANKS]);
        Ok(Self { to: lanes(to_each)?, sent, from: lanes(1)?, received })
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Stream> {
        self.to.iter().chain(&self.from).flatten().map(|lane| &lane.stream)
    }
}

impl PeerMemory {
    /// Whether rows of that length can be exchanged.
    pub(crate) fn takes_rows(&self, row_bytes: usize) -> bool {
        row_bytes <= self.slot_bytes()
    }

    /// Sends and receives, after all that is enqueued on `on`, which goes on when all is done. Meanwhile it does what `beside`
    /// enqueues. What one rank sends to another comes there in the same order, with the same lengths of rows, and the same
    /// number of chunks, `chunks` of each message at least.
    ///
    /// # Safety
    /// What is sent is this device's memory, is used in the order of `on`, and lives until that has gone on; so does what landings
    /// write. The stream is not captured.
    pub(crate) unsafe fn exchange(
        &self,
        on: &Stream,
        (sent, received): (&[(u32, Rows)], &[Landing<'_>]),
        chunks: usize,
        beside: impl FnOnce() -> DistResult<()>,
    ) -> DistResult<()> {
        let mut lanes = lock(&self.lanes);
        let lanes = &mut *lanes;
        let begin = on.record_event()?;
        lanes.all().try_for_each(|stream| stream.wait_event(&begin))?;
        let done = beside().and_then(|()| self.rounds(lanes, sent, received, chunks));
        let flushed = self.flush(lanes);
        let streams: Vec<_> = lanes.all().cloned().collect();
        on.join(&streams)?;
        done.and(flushed)
    }

    /// Lets `work` write into the other ranks' [rooms](super::rooms), after all that is enqueued on `on`, which goes on when all is done.
    ///
    /// # Safety
    /// What is sent is this device's memory, is there when the stream has come to this or when an event has come, and is not changed before
    /// the event of its end, or before `on` has gone on. Nothing but this writes to where it goes, nor reads there before its arrival. The stream
    /// is not captured.
    pub(crate) unsafe fn put<R>(
        &self,
        on: &Stream,
        work: impl FnOnce(&mut Puts<'_>) -> DistResult<R>,
    ) -> DistResult<R> {
        let mut lanes = lock(&self.lanes);
        let begin = on.record_event()?;
        lanes.all().try_for_each(|stream| stream.wait_event(&begin))?;
        let mut puts = Puts { peers: self, lanes: &mut lanes };
        let done = work(&mut puts);
        let flushed = self.flush(&mut lanes);
        let streams: Vec<_> = lanes.all().cloned().collect();
        on.join(&streams)?;
        flushed.and(done)
    }

    /// Enqueues all chunks, those with the same number in one round.
    fn rounds(
        &self,
        lanes: &mut Lanes,
        sent: &[(u32, Rows)],
        received: &[Landing<'_>],
        chunks: usize,
    ) -> DistResult<()> {
        let cut = |row_bytes, rows| Chunks::new(row_bytes, rows, chunks, self.slot_bytes());
        let to_send: Vec<_> = sent.iter().map(|(_, rows)| cut(rows.row_bytes, rows.rows)).collect();
        let to_receive: Vec<_> = received.iter().map(|own| cut(own.row_bytes, own.rows)).collect();
        let rounds = to_send.iter().chain(&to_receive).map(|chunks| chunks.count()).max();
        for round in 0..rounds.unwrap_or(0) {
            for ((to, rows), chunks) in sent.iter().zip(&to_send) {
                if let Some(part) = chunks.get(round) {
                    self.send(lanes, *to as usize, *rows, part)?;
                }
            }
            for (landing, chunks) in received.iter().zip(&to_receive) {
                if let Some(part) = chunks.get(round) {
                    self.receive(lanes, landing, part)?;
                }
            }
        }
        Ok(())
    }

    fn send(&self, lanes: &mut Lanes, to: usize, rows: Rows, part: Range<usize>) -> DistResult<()> {
        let number = lanes.sent[to];
        let slot = number as usize % SLOTS;
        let of_peer = &mut lanes.to[to];
        let count = if rows.has_gaps() { of_peer.len() } else { of_peer.len().min(ENGINE_LANES) };
        let lane = &mut of_peer[number as usize % count];
        // The slot's last chunk was taken. (Its number, from 1.)
        let is_free = (number as usize >= SLOTS)
            .then(|| (self.flag(self.rank, EMPTIED, to, slot), number - SLOTS as u32 + 1));
        self.pass(lane, is_free)?;
        let target = self.staging(to, self.rank, slot);
        // SAFETY: the rows are there, by the promise of the caller of `exchange`; the slot is as long as the chunk, this rank's to
        // write, and the receiver has taken what was there.
        unsafe { copy_rows(&lane.stream, rows, part, target) }?;
        self.tell(lane, to, number)?;
        lanes.sent[to] = number.wrapping_add(1);
        Ok(())
    }

    /// Tells a rank that a chunk is there, at once: see the module for why it ends.
    fn tell(&self, lane: &mut Lane, to: usize, number: u32) -> DistResult<()> {
        let slot = number as usize % SLOTS;
        lane.pending = Some((self.flag(to, FILLED, self.rank, slot), number.wrapping_add(1)));
        self.pass(lane, None)
    }

    fn receive(
        &self,
        lanes: &mut Lanes,
        landing: &Landing<'_>,
        part: Range<usize>,
    ) -> DistResult<()> {
        let from = landing.from as usize;
        let slot = lanes.received[from] as usize % SLOTS;
        let lane = self.wait_for(lanes, from)?;
        (landing.land)(&lane.stream, self.staging(self.rank, from, slot), part)
    }

    /// Waits for the next chunk of a rank, in the lane from there, which tells it later that the chunk was taken.
    fn wait_for<'a>(&self, lanes: &'a mut Lanes, from: usize) -> DistResult<&'a Lane> {
        let number = lanes.received[from];
        let (slot, there) = (number as usize % SLOTS, number.wrapping_add(1));
        let lane = &mut lanes.from[from][0];
        self.pass(lane, Some((self.flag(self.rank, FILLED, from, slot), there)))?;
        lane.pending = Some((self.flag(from, EMPTIED, self.rank, slot), there));
        lanes.received[from] = there;
        Ok(lane)
    }

    /// Sets the flag that is pending in a lane, and waits for another one to come to its value.
    fn pass(&self, lane: &mut Lane, awaited: Option<(u64, u32)>) -> DistResult<()> {
        let (flag, value) = lane.pending.take().unwrap_or_default();
        let (awaited, least) = awaited.unwrap_or_default();
        if flag == 0 && awaited == 0 {
            return Ok(());
        }
        let mut args = Args::new();
        args.push_value(flag);
        args.push_value(value);
        args.push_value(awaited);
        args.push_value(least);
        args.push_value(self.given_up());
        let one = LaunchConfig { grid: (1, 1, 1), block: (1, 1, 1), shared_mem_bytes: 0 };
        // SAFETY: the kernel's parameters are these: flags in the ranks' memory, and the word of this communicator.
        Ok(unsafe { self.kernels.pass.launch(&lane.stream, one, &args) }?)
    }

    /// Sets all flags that are pending.
    fn flush(&self, lanes: &mut Lanes) -> DistResult<()> {
        let mut all = lanes.to.iter_mut().chain(&mut lanes.from).flatten();
        all.try_for_each(|lane| self.pass(lane, None))
    }
}

/// Messages to rooms: as many to each rank, and in the same order, as that one receives.
pub(crate) struct Puts<'a> {
    peers: &'a PeerMemory,
    lanes: &'a mut Lanes,
}

impl Puts<'_> {
    /// Writes a message, perhaps of no bytes, to its places in the rooms of rank `to`, when the events have come; the event of its end. A
    /// message that is not received before the next one from here may come beside that.
    pub(crate) fn send(
        &mut self,
        to: usize,
        after: &[&Event],
        places: &[Put],
    ) -> DistResult<Event> {
        let number = self.lanes.sent[to];
        let of_peer = &mut self.lanes.to[to];
        let count = of_peer.len().min(ENGINE_LANES);
        let lane = &mut of_peer[number as usize % count];
        after.iter().try_for_each(|event| lane.stream.wait_event(event))?;
        for place in places.iter().filter(|place| place.bytes > 0) {
            // SAFETY: the promise of the caller of `put`.
            unsafe { copy_bytes(&lane.stream, place.to, place.from, place.bytes) }?;
        }
        let end = lane.stream.record_event()?;
        self.peers.tell(lane, to, number)?;
        self.lanes.sent[to] = number.wrapping_add(1);
        Ok(end)
    }

    /// When the next message of rank `from` has come.
    pub(crate) fn receive(&mut self, from: usize) -> DistResult<Event> {
        let lane = self.peers.wait_for(self.lanes, from)?;
        Ok(lane.stream.record_event()?)
    }

    /// The other ranks, from the one behind this one on: if all send in this order, no rank gets from all others at once. They receive in the
    /// order of [`before`](Self::before).
    pub(crate) fn behind(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.peers.rank, self.peers.ranks);
        (1..ranks).map(move |step| (rank + step) % ranks)
    }

    /// The other ranks, from the one before this one on.
    pub(crate) fn before(&self) -> impl Iterator<Item = usize> + use<> {
        let (rank, ranks) = (self.peers.rank, self.peers.ranks);
        (1..ranks).map(move |step| (rank + ranks - step) % ranks)
    }

    /// Waits, on the device, until all ranks have come here: the event of that.
    pub(crate) fn meet(&mut self) -> DistResult<Vec<Event>> {
        self.behind().try_for_each(|to| self.send(to, &[], &[]).map(drop))?;
        self.before().map(|from| self.receive(from)).collect()
    }
}

/// A flag of a slot in the receiver's memory: how many chunks have come there.
const FILLED: usize = 0;
/// A flag in the sender's memory: how many of them were taken.
const EMPTIED: usize = 1;

/// Copies some of the rows to an address, without gaps.
///
/// # Safety
/// The rows are there, and as much memory at the address, until the stream has gone on.
unsafe fn copy_rows(on: &Stream, rows: Rows, part: Range<usize>, to: u64) -> DistResult<()> {
    let Rows { address, row_bytes, pitch_bytes, .. } = rows;
    let from = address + (part.start * pitch_bytes) as u64;
    if !rows.has_gaps() {
        // SAFETY: the caller's promise.
        return unsafe { copy_bytes(on, to, from, part.len() * row_bytes) };
    }
    let is_quads = |bytes: u64| bytes.is_multiple_of(QUAD_BYTES as u64);
    if ![from, to, row_bytes as u64, pitch_bytes as u64].into_iter().all(is_quads) {
        // SAFETY: the caller's promise.
        return unsafe {
            copy_rows_by_engine(on, (from, pitch_bytes), (to, row_bytes), part.len())
        };
    }
    let (width, pitch) = (row_bytes / QUAD_BYTES, pitch_bytes / QUAD_BYTES);
    let len = (part.len() - 1) * pitch + width;
    // SAFETY: the caller's promise.
    let (x, mut out) =
        unsafe { (Unordered::new(from, len), UnorderedRows::new(to, width, part.len())) };
    let blocks = Grid1::new(COPY_BLOCKS);
    Ok(kernels_gpu::elementwise::copy::copy_rows::<Quad>::launch(
        on,
        blocks,
        &x,
        pitch as u64,
        &mut out,
    )?)
}

/// As [`copy_rows`], of rows of any alignment.
///
/// # Safety
/// As there.
unsafe fn copy_rows_by_engine(
    on: &Stream,
    (from, from_pitch): (u64, usize),
    (to, row_bytes): (u64, usize),
    rows: usize,
) -> DistResult<()> {
    let copy = sys::Copy2D {
        src_x_bytes: 0,
        src_y: 0,
        src_memory_type: sys::memory_type::DEVICE,
        src_host: std::ptr::null(),
        src_device: from,
        src_array: std::ptr::null_mut(),
        src_pitch: from_pitch,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_memory_type: sys::memory_type::DEVICE,
        dst_host: std::ptr::null_mut(),
        dst_device: to,
        dst_array: std::ptr::null_mut(),
        dst_pitch: row_bytes,
        width_bytes: row_bytes,
        height: rows,
    };
    let stream = StreamRef::of(on).as_raw().cast();
    // SAFETY: the caller's promise.
    check("cuMemcpy2DAsync", unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream) })
}

/// How a message is cut, which sender and receiver find alike.
#[derive(Clone, Copy, Debug)]
struct Chunks {
    rows: usize,
    /// Rows of a chunk.
    step: usize,
}

impl Chunks {
    fn new(row_bytes: usize, rows: usize, chunks: usize, slot_bytes: usize) -> Self {
        let granules = |rows: usize| if rows < GRANULE { rows } else { rows / GRANULE * GRANULE };
        let most = granules((slot_bytes / row_bytes.max(1)).max(1));
        let wanted = chunks.min(rows * row_bytes / LEAST_CHUNK_BYTES);
        let count = wanted.max(rows.div_ceil(most)).max(1);
        let step = rows.div_ceil(count).next_multiple_of(GRANULE).clamp(1, most);
        Self { rows, step }
    }

    fn count(self) -> usize {
        self.rows.div_ceil(self.step)
    }

    fn get(self, number: usize) -> Option<Range<usize>> {
        let start = number * self.step;
        (start < self.rows).then(|| start..(start + self.step).min(self.rows))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows_and_fit_into_a_slot() {
        let slot = 16 << 20;
        for (row_bytes, rows) in [
            (1, 1),
            (1, 1 << 30),
            (92_672, 23_168),
            (4, 5_000_001),
            (slot, 3),
            (slot - 1, 9),
            (7, 0),
        ] {
            let chunks = Chunks::new(row_bytes, rows, CHUNKS, slot);
            let mut next = 0;
            for number in 0..chunks.count() {
                let part = chunks.get(number).unwrap();
                assert_eq!(part.start, next);
                assert!(!part.is_empty() && part.len() * row_bytes <= slot, "{chunks:?}");
                next = part.end;
            }
            assert_eq!((next, chunks.get(chunks.count())), (rows, None));
        }
    }
}
