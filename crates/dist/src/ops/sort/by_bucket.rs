//! The form for many keys: the exchange first, in batches, each of which is sorted while later ones are under way.
//!
//! Each rank puts its keys in the order of their eight highest bits, one pass of the radix sort, and all ranks learn how many keys of
//! each such bucket each has. So they know which buckets each share of the result has whole, and which ones the ends of the shares are
//! within. Whole buckets go to their ranks in batches, and each rank sorts each bucket by the other bits. Meanwhile the few buckets
//! with ends of shares are sorted where they are, the ends found in them exactly, and their parts follow as the last batches.
//! In all a key takes part in as many passes as in the sort of one device, and there is no merge.
//! (The most significant digit first, over ranks: A. Sohn and Y. Kodama, *Load balanced parallel radix sort*, 1998.)

use std::ops::Range;

use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, SortValue};
use ferrowarp::{AsStream, DeviceBuffer, Event, Gpu, Stream};

use super::key::RankKey;
use super::plan::{BUCKETS, Batch, Buckets, moves};
use super::table::{Table, TableMut};
use super::{Options, split};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::shares::Shares;

/// Batches of whole buckets.
const BATCHES: usize = 32;
/// Streams that sort batches side by side: while the last blocks of one's launch run, those of another fill the device.
const LANES: usize = 4;
const _: () = assert!(BATCHES >= LANES);
/// Batches that are enqueued before the host waits for the search of the edges: they keep the device at work meanwhile. Behind all of
/// them the search would end later than the last of them (by 1.3 ms of 24 on two H200s), since the host waits to enqueue them, too.
const BEFORE_EDGES: usize = 8;
const _: () = assert!(BATCHES >= BEFORE_EDGES);

/// What came of it.
pub(super) enum Outcome<K: RankKey, V: SortValue> {
    /// This rank's share of the result.
    Sorted(Table<K, V>),
    /// Many keys are in buckets that two ranks would get a part of. This rank's own keys, in the order of the buckets.
    Skewed(Table<K, V>),
}

/// Sorts keys, and values if there are some, so that shares `after` are left, of `before` now.
pub(super) fn sort<K: RankKey, V: SortValue>(
    ranks: &Communicator,
    on: &impl AsStream,
    (keys, values): (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
    (before, after): (&Shares, &Shares),
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<Outcome<K, V>> {
    let on = on.as_stream();
    let home = ranks.gpu().create_stream()?;
    let bits = 8 * size_of::<K>() as u32;
    let highest = SortOptions::ASCENDING.bits(bits - 8..bits);
    let grouped = Table::sorted([on, &home], keys, values, highest, scratch)?;
    let end_of_grouping = home.record_event()?;
    let streams = Streams::new(ranks.gpu(), home)?;
    let buckets = gather(ranks, on, &grouped.keys, before, scratch)?;
    let shares: Vec<_> = (0..ranks.size()).map(|rank| after.range(rank)).collect();
    let Some(divided) = buckets.divided(shares.iter().map(|share| share.end)) else {
        return Ok(Outcome::Skewed(grouped));
    };
    let lower = SortOptions::ASCENDING.bits(0..bits - 8);
    let sorting =
        Sorting { ranks, on, streams, end_of_grouping, buckets, shares, divided, options, lower };
    sorting.run(grouped, scratch).map(Outcome::Sorted)
}

/// The buckets of all ranks.
fn gather<K: RankKey>(
    ranks: &Communicator,
    on: &Stream,
    grouped: &DeviceBuffer<K>,
    before: &Shares,
    scratch: &mut Scratch,
) -> DistResult<Buckets> {
    let first = |bucket: u64| K::of_rank_word(bucket << (8 * size_of::<K>() - 8));
    let n = BUCKETS - 1;
    // SAFETY: the copy writes all of the first, the search all of the next, and the ranks all of the last.
    let (mut firsts, mut starts, mut all) = unsafe {
        (unwritten(on, n)?, unwritten(on, n)?, unwritten(on, n * ranks.size() as usize)?)
    };
    firsts.copy_from_host(&(1..BUCKETS as u64).map(first).collect::<Vec<K>>())?;
    K::lower_bounds(on, grouped, &firsts, &mut starts, scratch)?;
    ranks.all_gather(on, &starts, &mut all)?;
    ranks.synchronize(on)?;
    let all = all.to_vec()?;
    Ok(Buckets::new(all.chunks_exact(n).zip(before.lens().iter().copied())))
}

/// The streams of a sort.
struct Streams {
    /// It orders the grouped keys, so that their exchange does not wait for what sorts.
    home: Stream,
    /// It exchanges where the backend does, and searches. Its blocks go before those that sort.
    link: Stream,
    lanes: Vec<Stream>,
}

impl Streams {
    fn new(gpu: &Gpu, home: Stream) -> DistResult<Self> {
        let urgent = *gpu.stream_priorities()?.start();
        let link = gpu.create_stream_with_priority(urgent)?;
        let lanes = (0..LANES).map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
        Ok(Self { home, link, lanes })
    }
}

/// What sorts every so-manieth batch: memory of the lane's own, which is ordered by its stream. So a batch is received as soon as
/// the lane's one before is sorted, whatever the other lanes do.
struct Lane<'a, K: RankKey, V: SortValue> {
    stream: &'a Stream,
    received: Table<K, V>,
    scratch: Scratch,
}

/// The batches whose buckets several shares have a part of.
struct Edges {
    /// Of each rank those at the beginning and at the end of its share.
    of_ranks: Vec<[Batch; 2]>,
    /// When their buckets are sorted, and may be moved.
    sorted: Event,
}

/// The exchange and the sort of all batches.
struct Sorting<'a> {
    ranks: &'a Communicator,
    on: &'a Stream,
    streams: Streams,
    end_of_grouping: Event,
    buckets: Buckets,
    /// The share of the result that each rank gets.
    shares: Vec<Range<usize>>,
    /// The buckets that ends of shares are within.
    divided: Vec<usize>,
    options: Options,
    /// By which bits a bucket is sorted.
    lower: SortOptions,
}

impl Sorting<'_> {
    fn own(&self) -> usize {
        self.ranks.rank() as usize
    }

    fn run<K: RankKey, V: SortValue>(
        &self,
        mut grouped: Table<K, V>,
        scratch: &mut Scratch,
    ) -> DistResult<Table<K, V>> {
        let has_values = grouped.values.is_some();
        let whole: Vec<Vec<Batch>> =
            self.shares.iter().map(|share| self.buckets.batches(share, BATCHES)).collect();
        let [first, last] = self.buckets.edge_lens(&self.shares[self.own()]);
        let middle = whole[self.own()].iter().map(Batch::len);
        let mut lens: Vec<usize> = std::iter::once(first).chain(middle).chain([last]).collect();
        let of_buckets = whole[self.own()].iter().flat_map(Batch::lens);
        let longest = of_buckets.chain([first, last]).max().unwrap_or(0);
        // SAFETY: the batches cover it.
        let mut out = unsafe { Table::unwritten(self.on, lens.iter().sum(), has_values) }?;
        let mut parts = out.as_mut().divide(lens.iter().copied());
        // The edges come last: first that at the end, then that at the beginning.
        lens.rotate_left(1);
        parts.rotate_left(1);
        // Each is made when the first batch is sorted in it: meanwhile the device is at work in those before.
        let mut lanes: Vec<Lane<'_, K, V>> = Vec::new();
        let homes = (0..parts.len()).map(|batch| &self.streams.lanes[batch % LANES]);
        TableMut::rehome_parts(homes.zip(parts).collect(), |parts| {
            let mut edges = None;
            for (batch, out) in parts.into_iter().enumerate() {
                if lanes.len() < LANES {
                    lanes.push(self.lane(batch, &lens, longest, has_values)?);
                }
                if batch == BEFORE_EDGES {
                    edges = Some(self.edges(&mut grouped, scratch)?);
                }
                let of_rank = |rank: usize| match (batch.checked_sub(BATCHES), &edges) {
                    (Some(edge), Some(edges)) => &edges.of_ranks[rank][1 - edge],
                    _ => &whole[rank][batch],
                };
                if let Some(edges) = edges.as_ref().filter(|_| batch >= BATCHES) {
                    self.streams.lanes[batch % LANES].wait_event(&edges.sorted)?;
                }
                let batches: Vec<&Batch> = (0..whole.len()).map(of_rank).collect();
                self.sort(&batches, &grouped, &mut lanes[batch % LANES], out)?;
            }
            Ok(())
        })?;
        // The lanes have read the grouped keys without a word to the stream that orders them.
        self.streams.home.join(&self.streams.lanes)?;
        Ok(out)
    }

    /// A lane, with room for the longest of its batches, whose keys are `lens`, and scratch for a bucket of `longest` keys. It begins
    /// after the keys were grouped.
    fn lane<K: RankKey, V: SortValue>(
        &self,
        number: usize,
        lens: &[usize],
        longest: usize,
        has_values: bool,
    ) -> DistResult<Lane<'_, K, V>> {
        let stream = &self.streams.lanes[number];
        let most = lens.iter().copied().skip(number).step_by(LANES).max().unwrap_or(0);
        // SAFETY: of each batch the ranks write what is then read.
        let received = unsafe { Table::unwritten(stream, most, has_values) }?;
        let scratch = Table::<K, V>::scratch_bytes(longest, has_values);
        let scratch = Scratch::with_bytes_async(stream, scratch)?;
        stream.wait_event(&self.end_of_grouping)?;
        Ok(Lane { stream, received, scratch })
    }

    /// Exchanges a batch of each rank, and sorts the buckets of this rank's, each by itself, to where they belong in the result.
    fn sort<K: RankKey, V: SortValue>(
        &self,
        batches: &[&Batch],
        grouped: &Table<K, V>,
        lane: &mut Lane<'_, K, V>,
        out: TableMut<'_, K, V>,
    ) -> DistResult<()> {
        let moves = moves(batches, self.own());
        let streams = [lane.stream, &self.streams.link];
        // SAFETY: the lane has waited for the grouped keys, of which the edges alone change, before they are moved; they are kept until
        // their home has joined the lane.
        unsafe { moves.enqueue(self.ranks, streams, grouped, &mut lane.received) }?;
        let (lens, mut from) = (batches[self.own()].lens(), 0);
        for (len, mut out) in lens.iter().zip(out.divide(lens.iter().copied())) {
            let (rows, stream) = (from..from + len, lane.stream);
            lane.received.sort_rows_into(stream, rows, &mut out, self.lower, &mut lane.scratch)?;
            from += len;
        }
        Ok(())
    }

    /// Sorts the buckets that several shares have a part of, and looks for the ends of the shares in them. Waits.
    fn edges<K: RankKey, V: SortValue>(
        &self,
        grouped: &mut Table<K, V>,
        scratch: &mut Scratch,
    ) -> DistResult<Edges> {
        let (ranks, on, options) = (self.ranks, &self.streams.link, self.options);
        for bucket in &self.divided {
            let rows = self.buckets.range(self.own(), *bucket);
            grouped.sort_rows(on, rows, SortOptions::ASCENDING, scratch)?;
        }
        let most = options.most_samples(ranks.size());
        let search = |rank: u32| self.buckets.search(self.shares[rank as usize].end, most);
        let cuts = split::cuts(ranks, on, &grouped.keys, search, options)?;
        let cuts: Vec<u64> = cuts.into_iter().map(|cut| cut as u64).collect();
        let all = ranks.all_gather_host(on, &cuts)?;
        let cuts = all.chunks_exact(ranks.size() as usize);
        let cuts: Vec<Vec<usize>> =
            cuts.map(|own| own.iter().map(|cut| *cut as usize).collect()).collect();
        let shares = self.shares.iter().enumerate();
        let edges_of = |(to, share)| self.buckets.edge_batches(to, share, &cuts);
        Ok(Edges { of_ranks: shares.map(edges_of).collect(), sorted: on.record_event()? })
    }
}
