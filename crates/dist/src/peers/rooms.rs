//! Memory of any size that the ranks write into at its place, with no staging: the tables of large sorts, and pieces of matrix products.
//!
//! Each rank allocates as much as it needs, by itself, when an operation wants it for the first time, and keeps it for the next
//! one: to map memory takes milliseconds. All ranks know what each of them needs, and so whether one of them needs more than it has. Then
//! all of them allocate again.

use std::iter;

use ferrowarp::{Event, Gpu, Stream};
use kernels_gpu::peers::MAX_RANKS;

use super::memory::{Mapping, Meeting, Own};
use crate::error::DistResult;

/// Where this rank reaches the rooms of each rank.
pub(crate) type Reached = [u64; MAX_RANKS];

/// The rooms of all ranks.
pub(crate) struct Rooms {
    gpu: Gpu,
    rank: usize,
    /// `None` of ranks in one process, which have none.
    meeting: Option<Meeting>,
    /// How often they were allocated.
    count: u64,
    /// How many bytes each rank has.
    bytes: Vec<usize>,
    /// `None` if there are none, or a rank could not have them.
    mapping: Option<Mapping>,
    /// When the last operation is done with them.
    free: Option<Event>,
}

impl Rooms {
    pub(super) fn new(gpu: &Gpu, rank: usize, meeting: Option<Meeting>) -> Self {
        let gpu = gpu.clone();
        Self { gpu, rank, meeting, count: 0, bytes: Vec::new(), mapping: None, free: None }
    }

    /// As [`Mapping::keep`].
    pub(super) fn keep(&mut self) {
        self.mapping.iter_mut().for_each(Mapping::keep);
    }

    /// Lets a stream wait until the last operation is done with the rooms. Every operation that uses them calls it before the ranks
    /// meet, and a rank that has met the others may write into their rooms.
    pub(crate) fn wait(&self, on: &Stream) -> DistResult<()> {
        Ok(self.free.iter().try_for_each(|free| on.wait_event(free))?)
    }

    /// Where this rank reaches the rooms of each rank, of so many `bytes` at least; `None`, on all ranks, if one of them cannot have them.
    /// All ranks call it, with the same `bytes`. If rooms are to be allocated, it waits for the last operation, and for all ranks.
    pub(crate) fn reach(&mut self, bytes: &[usize]) -> DistResult<Option<Reached>> {
        let Some(meeting) = &self.meeting else { return Ok(None) };
        if !self.suffice(bytes) {
            // Closed and freed by all ranks, when all are done with them, and before there is anything new.
            self.free.take().map_or(Ok(()), |free| free.synchronize())?;
            self.mapping = None;
            self.count += 1;
            // Enough for the operations before, too, some of which may come again.
            let before = self.bytes.iter().copied().chain(iter::repeat(0));
            let wanted = bytes.iter().zip(before);
            self.bytes = wanted.map(|(bytes, before)| with_slack(*bytes).max(before)).collect();
            let own = Own::new(&self.gpu, self.bytes[self.rank]).ok();
            self.mapping = meeting.named(&format!("rooms/{}", self.count)).map(own)?;
        }
        Ok(self.mapping.as_ref().map(Mapping::addresses))
    }

    /// The operation that has the rooms is done with them when the stream has come to what is enqueued now.
    pub(crate) fn leave(&mut self, on: &Stream) -> DistResult<()> {
        self.free = Some(on.record_event()?);
        Ok(())
    }

    /// Whether each rank has as many bytes.
    fn suffice(&self, bytes: &[usize]) -> bool {
        let mut pairs = bytes.iter().zip(&self.bytes);
        self.mapping.is_some() && pairs.all(|(wanted, bytes)| wanted <= bytes)
    }
}

/// Bytes of rooms for which so many are needed: data of the next operation may divide a little differently.
fn with_slack(bytes: usize) -> usize {
    const GRANULE: usize = 2 << 20;
    (bytes + bytes / 32).next_multiple_of(GRANULE).max(GRANULE)
}
