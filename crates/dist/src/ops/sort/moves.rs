//! Rows of tables that change ranks.

use std::ops::Range;

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::DeviceSliceMut;
use ferrowarp::ops::sort::SortValue;
use ferrowarp::{DeviceBuffer, Stream};

use super::key::RankKey;
use super::table::{Table, TableMut};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::parts::{Received, Sent, copy_own, divide, enqueue_by_peers, exchange_with_others};
use crate::peers::{Landing, PeerMemory, Rows, copy_bytes};

pub(super) const OPERATION: &str = "the exchange of a sort over ranks";
/// Messages to other ranks begin at multiples of so many bytes, as the copy engines and the staging memory like them.
const ALIGNMENT: usize = 128;
/// Chunks of a message, at least: other messages follow. More than a slot asks for take longer, since flags wait for room among the blocks
/// that sort.
const CHUNKS: usize = 2;

/// Which rows of one table each rank gets, and where those go in another table that come to this rank.
pub(super) struct Moves {
    /// For each rank consecutive ranges of this rank's rows.
    pub(super) sent: Vec<Vec<Range<usize>>>,
    /// Of each rank the number of its first row that comes here.
    pub(super) first: Vec<usize>,
    /// Of each rank where its ranges of rows go. All of them together cover the first rows of the other table.
    pub(super) received: Vec<Vec<Range<usize>>>,
}

impl Moves {
    /// The rows that come.
    pub(super) fn len(&self) -> usize {
        self.received.iter().flatten().map(Range::len).sum()
    }

    /// How many rows come of each rank.
    pub(super) fn lens(&self) -> Vec<usize> {
        self.received.iter().map(|ranges| lens(ranges)).collect()
    }

    /// Enqueues the moves on the first of two streams, the home of `to`, or on the second one, for which it then waits.
    ///
    /// # Safety
    /// The rows of `from` are there when the first stream has come to the moves, and are not changed until it has gone on.
    pub(super) unsafe fn enqueue<K: RankKey, V: SortValue>(
        &self,
        ranks: &Communicator,
        [on, link]: [&Stream; 2],
        from: &Table<K, V>,
        to: &mut Table<K, V>,
    ) -> DistResult<()> {
        let Some(peers) = ranks.peers() else {
            return self.by_backend(ranks, link, from, to);
        };
        let mut columns = vec![Column::new(&from.keys, &mut to.keys)];
        let mut memory = ForeignMemory::new().writes(&mut to.keys);
        if let (Some(from), Some(to)) = (&from.values, &mut to.values) {
            columns.push(Column::new(from, to));
            memory = memory.writes(to);
        }
        // SAFETY: the caller's promise of `from`, and `memory` names `to`; no two ranges are the same there.
        unsafe { self.by_peers(ranks, peers, on, &columns, memory) }
    }

    /// Enqueues moves of rows of a table to others' tables, and of others' rows to other rows of this one, on the table's home.
    pub(super) fn enqueue_within<K: RankKey, V: SortValue>(
        &self,
        ranks: &Communicator,
        on: &Stream,
        table: &mut Table<K, V>,
    ) -> DistResult<()> {
        let (rank, mut group) = (ranks.rank(), ranks.group().counted());
        let TableMut { keys, values } = table.as_mut();
        let [keys_to_send, mut keys_to_receive] = self.divide(keys);
        let values = values.map(|values| self.divide(values));
        let [values_to_send, mut values_to_receive] = values.unwrap_or_default();
        let (of_keys, of_values) = (lent(&keys_to_send), lent(&values_to_send));
        group = exchange_with_others(group, rank, &of_values, &mut values_to_receive)?;
        exchange_with_others(group, rank, &of_keys, &mut keys_to_receive)?.enqueue(on)
    }

    /// The rows of a table that go to each rank, and those that come from each.
    fn divide<'a, T: Pod>(&self, all: DeviceSliceMut<'a, T>) -> [Vec<Received<'a, T>>; 2] {
        let of_ranks = |ranks: &[Vec<Range<usize>>], is_sent: bool| {
            let of_rank = move |(rank, ranges): (u32, Vec<Range<usize>>)| {
                ranges.into_iter().map(move |range| (range, rank, is_sent))
            };
            (0..).zip(ranks.to_vec()).flat_map(of_rank)
        };
        let mut ranges: Vec<_> =
            of_ranks(&self.sent, true).chain(of_ranks(&self.received, false)).collect();
        ranges.sort_by_key(|(range, ..)| (range.start, range.end));
        let (mut rest, mut at) = (all, 0);
        let mut parts = [Vec::new(), Vec::new()];
        for (range, rank, is_sent) in ranges {
            let (part, behind) = rest.split_at_mut(range.start - at).1.split_at_mut(range.len());
            (rest, at) = (behind, range.end);
            parts[usize::from(!is_sent)].push((rank, part));
        }
        parts
    }

    fn by_backend<K: RankKey, V: SortValue>(
        &self,
        ranks: &Communicator,
        link: &Stream,
        from: &Table<K, V>,
        to: &mut Table<K, V>,
    ) -> DistResult<()> {
        let (rank, mut group) = (ranks.rank(), ranks.group().counted());
        let TableMut { keys, values } = to.as_mut().split_at(self.len()).0;
        let of_keys = self.sent(&from.keys);
        let mut to_keys = self.received(keys);
        let of_values = from.values.as_ref().map(|values| self.sent(values));
        let mut to_values = values.map(|values| self.received(values));
        copy_own(rank, &of_keys, &mut to_keys)?;
        if let (Some(from), Some(to)) = (&of_values, &mut to_values) {
            copy_own(rank, from, to)?;
            group = exchange_with_others(group, rank, from, to)?;
        }
        exchange_with_others(group, rank, &of_keys, &mut to_keys)?.enqueue(link)
    }

    /// What this rank sends, each range with the rank that it goes to.
    fn sent<'a, T: Pod>(&self, from: &'a DeviceBuffer<T>) -> Vec<Sent<'a, T>> {
        let ranges = (0..).zip(&self.sent).flat_map(|(to, ranges)| {
            ranges.iter().map(move |range| (to, from.slice(range.clone())))
        });
        ranges.collect()
    }

    /// Where the ranges go that come, each with the rank that it comes from.
    fn received<'a, T: Pod>(&self, to: DeviceSliceMut<'a, T>) -> Vec<Received<'a, T>> {
        let mut ranges: Vec<(Range<usize>, u32)> = (0..)
            .zip(&self.received)
            .flat_map(|(from, ranges)| ranges.iter().map(move |range| (range.clone(), from)))
            .collect();
        ranges.sort_by_key(|(range, _)| (range.start, range.end));
        divide(to, ranges.into_iter().map(|(range, from)| (from, range.len())))
    }

    /// # Safety
    /// As [`enqueue`](Self::enqueue). `memory` names what of the columns another stream may be the home of.
    unsafe fn by_peers(
        &self,
        ranks: &Communicator,
        peers: &PeerMemory,
        on: &Stream,
        columns: &[Column],
        memory: ForeignMemory,
    ) -> DistResult<()> {
        let own = ranks.rank() as usize;
        let others = || (0..ranks.size() as usize).filter(|rank| *rank != own);
        let sent: Vec<_> = others()
            .flat_map(|to| columns.iter().map(move |column| (to, *column)))
            .map(|(to, column)| (to as u32, column.message(&self.sent[to])))
            .filter(|(_, rows)| rows.rows > 0)
            .collect();
        let received: Vec<_> = others()
            .flat_map(|from| columns.iter().map(move |column| (from, column)))
            .map(|(from, column)| column.landing(from, self.first[from], &self.received[from]))
            .filter(|landing| landing.rows > 0)
            .collect();
        let copy_own = || {
            let ranges = || self.sent[own].iter().zip(&self.received[own]);
            columns.iter().try_for_each(|column| {
                ranges().try_for_each(|(from, to)| column.copy(on, from.clone(), to.start))
            })
        };
        let exchange = || {
            // SAFETY: the caller's promise.
            unsafe { peers.exchange(on, (&sent, &received), CHUNKS, copy_own) }
        };
        // SAFETY: what else is used is so by the caller's promise; `on` waits for all lanes.
        unsafe { enqueue_by_peers(ranks, on, OPERATION, memory, exchange) }
    }
}

/// An array of one table, and that of another one, by their addresses.
#[derive(Clone, Copy)]
struct Column {
    from: u64,
    to: u64,
    /// Bytes of an element.
    size: usize,
}

impl Column {
    fn new<T: Pod>(from: &DeviceBuffer<T>, to: &mut DeviceBuffer<T>) -> Self {
        let (from, to) = (from.raw().address, to.as_device_ptr().address());
        Self { from, to, size: size_of::<T>() }
    }

    /// The bytes before the first row of a message, which are sent with it.
    fn bytes_before(self, first: usize) -> usize {
        first * self.size % ALIGNMENT
    }

    /// The message of consecutive ranges of rows.
    fn message(self, ranges: &[Range<usize>]) -> Rows {
        let (first, rows) = (ranges.first().map_or(0, |range| range.start), lens(ranges));
        let before = if rows == 0 { 0 } else { self.bytes_before(first) };
        let address = self.from + (first * self.size - before) as u64;
        Rows::of_bytes(address, before + rows * self.size)
    }

    /// The message of another rank, with `first` as its first row, and the ranges of rows where it goes.
    fn landing(self, from: usize, first: usize, ranges: &[Range<usize>]) -> Landing<'_> {
        let rows = lens(ranges);
        let before = if rows == 0 { 0 } else { self.bytes_before(first) };
        let land = move |on: &Stream, at: u64, part: Range<usize>| {
            let mut next = before;
            for range in ranges {
                let bytes = next..next + range.len() * self.size;
                let (begin, end) = (part.start.max(bytes.start), part.end.min(bytes.end));
                if begin < end {
                    let to = self.to + (range.start * self.size + begin - bytes.start) as u64;
                    // SAFETY: the chunk stays until the stream has gone on, and so does the table, where the range is this message's.
                    unsafe { copy_bytes(on, to, at + (begin - part.start) as u64, end - begin) }?;
                }
                next = bytes.end;
            }
            Ok(())
        };
        let rows = before + rows * self.size;
        Landing { from: from as u32, row_bytes: 1, rows, land: Box::new(land) }
    }

    /// Copies rows of this rank itself.
    fn copy(self, on: &Stream, from: Range<usize>, to: usize) -> DistResult<()> {
        if from.is_empty() {
            return Ok(());
        }
        let at = |table: u64, row: usize| table + (row * self.size) as u64;
        let bytes = from.len() * self.size;
        // SAFETY: the promises of `Moves::enqueue`: both tables stay until `on` has gone on, and the range is this rank's.
        unsafe { copy_bytes(on, at(self.to, to), at(self.from, from.start), bytes) }
    }
}

/// Parts of an array, to be read.
fn lent<'a, T: Pod>(parts: &'a [Received<'_, T>]) -> Vec<Sent<'a, T>> {
    parts.iter().map(|(rank, part)| (*rank, part.as_slice())).collect()
}

/// How many rows there are in all ranges.
fn lens(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).sum()
}

#[cfg(test)]
mod tests {
    use ferrowarp::Stream;

    use super::*;
    use crate::peers::tests::{emulated, ranks};

    /// Two ranks of one process give each other ranges of their rows, which begin at any of them, and lie there as the moves say.
    #[test]
    fn ranges_come_to_their_places() -> DistResult<()> {
        const LEN: usize = 3_000_000;
        let Some(gpu) = emulated()? else { return Ok(()) };
        let all = ranks(&gpu, 2)?;
        let streams: Vec<Stream> = (0..2).map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
        let row = |rank: usize, at: usize| (at * 2 + rank) as u64;
        // What each gives the other one: two ranges, of which the first is long enough for several chunks.
        let given = [vec![37..2_000_001, 2_000_001..2_000_004], vec![5..6, 6..1_700_000]];
        // Its own ranges, of five rows each, lie before each of those that come.
        let place = |ranges: &[Range<usize>]| {
            let mut next = 0;
            let after = |range: &Range<usize>| {
                let begin = next + 5;
                next = begin + range.len();
                begin..next
            };
            ranges.iter().map(after).collect::<Vec<_>>()
        };
        let mut tables = Vec::new();
        for (rank, stream) in streams.iter().enumerate() {
            let rows: Vec<u64> = (0..LEN).map(|at| row(rank, at)).collect();
            let to = DeviceBuffer::<u64>::zeroed(stream, LEN)?;
            tables.push((DeviceBuffer::from_slice(stream, &rows)?, to));
        }
        gpu.synchronize()?;
        for (rank, (from, to)) in tables.iter_mut().enumerate() {
            let (other, column) = (1 - rank, Column::new(from, to));
            let places = place(&given[other]);
            let sent = [(other as u32, column.message(&given[rank]))];
            let received = [column.landing(other, given[other][0].start, &places)];
            let own = || {
                places
                    .iter()
                    .try_for_each(|place| column.copy(&streams[rank], 10..15, place.start - 5))
            };
            // SAFETY: the tables are there, and nothing else uses them before the streams are waited for.
            unsafe { all[rank].exchange(&streams[rank], (&sent, &received), CHUNKS, own) }?;
        }
        streams.iter().try_for_each(Stream::synchronize)?;
        for (rank, (_, to)) in tables.iter().enumerate() {
            let (found, other) = (to.to_vec()?, 1 - rank);
            for (range, place) in given[other].iter().zip(place(&given[other])) {
                let expected = range.clone().map(|at| row(other, at));
                assert!(found[place.clone()].iter().copied().eq(expected), "rank {rank}");
                let own = (10..15).map(|at| row(rank, at));
                assert!(found[place.start - 5..place.start].iter().copied().eq(own));
            }
        }
        Ok(())
    }
}
