//! Which part of its sorted keys each rank sends to each rank.
//!
//! Rank `i` searches for the end of share `i` of the result, see [`narrow`](super::narrow). In each round all ranks send it their
//! samples, and it answers with what is open yet.

use bytemuck::Pod;
use ferrowarp::ops::copy_every;
use ferrowarp::{AsStream, DeviceBuffer};

use super::Options;
use super::key::RankKey;
use super::moves::Moves;
use super::narrow::{Open, Search};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::shares::Shares;

/// What this rank sends, of its sorted `keys`, and gets, so that shares `before` become shares `after`. Waits.
pub(super) fn moves<K: RankKey>(
    ranks: &Communicator,
    on: &impl AsStream,
    keys: &DeviceBuffer<K>,
    (before, after): (&Shares, &Shares),
    options: Options,
) -> DistResult<Moves> {
    let most = options.most_samples(ranks.size());
    let end = |rank| after.start_of(rank) + after.len_of(rank);
    let search = |rank| Search::new(before.lens(), end(rank), most);
    let cuts = cuts(ranks, on, keys, search, options)?;
    let starts = std::iter::once(0).chain(cuts.clone());
    let sent: Vec<_> = starts.zip(cuts.iter().copied()).map(|(start, end)| start..end).collect();
    let told: Vec<Words> =
        sent.iter().map(|rows| [rows.len(), rows.start, 0].map(|n| n as u64)).collect();
    let answers = Answers::new(ranks, on)?.exchange_words(&told)?;
    let mut next = 0;
    let received = answers.iter().map(|words| {
        let begin = next;
        next += words[0] as usize;
        std::iter::once(begin..next).collect()
    });
    Ok(Moves {
        sent: sent.into_iter().map(|rows| vec![rows]).collect(),
        received: received.collect(),
        first: answers.iter().map(|words| words[1] as usize).collect(),
    })
}

/// Where this rank's keys for each rank end in its `keys`, which are sorted wherever `search` leaves some open. Each rank gives
/// the same `search` for the end of each rank's share. Waits.
pub(super) fn cuts<K: RankKey>(
    ranks: &Communicator,
    on: &impl AsStream,
    keys: &DeviceBuffer<K>,
    search: impl Fn(u32) -> Search,
    options: Options,
) -> DistResult<Vec<usize>> {
    let own = ranks.rank() as usize;
    let mut search_here = search(ranks.rank());
    let mut ends: Vec<End> = (0..ranks.size()).map(|rank| End::of(&search(rank), own)).collect();
    let mut answers = Answers::new(ranks, on)?;
    while ends.iter().any(|end| end.stride > 0) {
        let words = exchange_samples(ranks, on, keys, &ends, &search_here, options)?;
        if search_here.stride > 0 {
            search_here.narrow(&words);
        }
        ends = answers.exchange(&search_here)?;
    }
    Ok(ends.iter().map(|end| end.open.low).collect())
}

/// What this rank knows of the search for one end: its own open keys, and the stride.
struct End {
    open: Open,
    stride: usize,
}

impl End {
    fn of(search: &Search, rank: usize) -> Self {
        Self { open: search.open[rank], stride: search.stride }
    }

    fn samples(&self) -> usize {
        self.open.samples(self.stride)
    }
}

/// Sends each rank the samples for its end, and returns those for this rank's as words.
fn exchange_samples<K: RankKey>(
    ranks: &Communicator,
    on: &impl AsStream,
    keys: &DeviceBuffer<K>,
    ends: &[End],
    search: &Search,
    options: Options,
) -> DistResult<Vec<u64>> {
    let sent: Vec<usize> = ends.iter().map(End::samples).collect();
    let received: Vec<usize> = search.open.iter().map(|open| open.samples(search.stride)).collect();
    // SAFETY: the copies write all of the one, and the ranks all of the other.
    let (mut own, mut all) =
        unsafe { (unwritten(on, sent.iter().sum())?, unwritten::<K>(on, received.iter().sum())?) };
    let mut at = 0;
    for (end, len) in ends.iter().zip(&sent).filter(|(_, len)| **len > 0) {
        let open = keys.slice(end.open.low + end.stride - 1..end.open.high);
        copy_every(on, end.stride, &open, &mut own.slice_mut(at..at + len))?;
        at += len;
    }
    ranks.all_to_all_uneven(on, &own, &sent, &mut all, &received)?;
    ranks.synchronize(on)?;
    let flip = if options.descending { u64::MAX } else { 0 };
    Ok(all.to_vec()?.into_iter().map(|key| key.rank_word() ^ flip).collect())
}

/// A few words from each rank to each.
struct Answers<'a, S> {
    ranks: &'a Communicator,
    on: &'a S,
    sent: DeviceBuffer<u64>,
    received: DeviceBuffer<u64>,
}

/// Words from one rank to another.
type Words = [u64; 3];

impl<'a, S: AsStream> Answers<'a, S> {
    fn new(ranks: &'a Communicator, on: &'a S) -> DistResult<Self> {
        let len = size_of::<Words>() / size_of::<u64>() * ranks.size() as usize;
        let (sent, received) =
            (DeviceBuffer::zeroed_async(on, len)?, DeviceBuffer::zeroed_async(on, len)?);
        Ok(Self { ranks, on, sent, received })
    }

    /// Tells all ranks what is open of their keys, and returns what is open of this rank's for each end.
    fn exchange(&mut self, search: &Search) -> DistResult<Vec<End>> {
        let tell = |open: &Open| [open.low as u64, open.high as u64, search.stride as u64];
        let told = self.exchange_words(&search.open.iter().map(tell).collect::<Vec<_>>())?;
        let [low, high, stride] = [0, 1, 2].map(|word| move |words: &Words| words[word] as usize);
        let end = |words: &Words| End {
            open: Open { low: low(words), high: high(words) },
            stride: stride(words),
        };
        Ok(told.iter().map(end).collect())
    }

    fn exchange_words(&mut self, words: &[Words]) -> DistResult<Vec<Words>> {
        self.sent.copy_from_host(as_words(words))?;
        self.ranks.all_to_all(self.on, &self.sent, &mut self.received)?;
        self.ranks.synchronize(self.on)?;
        Ok(self.received.to_vec()?.as_chunks().0.to_vec())
    }
}

fn as_words<T: Pod>(values: &[T]) -> &[u64] {
    bytemuck::cast_slice(values)
}
