//! The form for many keys: the exchange first, in batches, each of which is sorted while later ones are under way.
//!
//! Each rank puts its keys in the order of their eight highest bits, one pass of the radix sort, and all ranks learn how many keys of
//! each such bucket each has. So they know which bucket the end of each share of the result is within; that bucket alone is sorted
//! before the exchange, and the end found in it exactly. Then buckets go to their ranks in batches, and each rank sorts each bucket
//! by the other bits. In all a key takes part in as many passes as in the sort of one device, and there is no merge.
//! (The most significant digit first, over ranks: A. Sohn and Y. Kodama, *Load balanced parallel radix sort*, 1998.)

use bytemuck::Pod;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, SortValue};
use ferrowarp::{AsStream, DeviceBuffer, Gpu, Stream};

use super::key::RankKey;
use super::plan::{BUCKETS, Buckets, Plan};
use super::table::{Table, TableMut};
use super::{Options, split};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::parts::{Received, Sent, copy_own, divide, exchange_with_others};
use crate::ops::shares::Shares;

/// Batches of an exchange.
const BATCHES: usize = 32;
/// Streams that sort batches side by side: while the last blocks of one's launch run, those of another fill the device.
const LANES: usize = 4;

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
    let streams = Streams::new(ranks.gpu())?;
    let bits = 8 * size_of::<K>() as u32;
    let highest = SortOptions::ASCENDING.bits(bits - 8..bits);
    let mut grouped = Table::sorted([on, &streams.home], keys, values, highest, scratch)?;
    let buckets = gather(ranks, on, &grouped.keys, before, scratch)?;
    let end = |rank| after.start_of(rank) + after.len_of(rank);
    let Some(divided) = buckets.divided((0..ranks.size()).map(end)) else {
        return Ok(Outcome::Skewed(grouped));
    };
    for bucket in divided {
        let rows = buckets.range(ranks.rank() as usize, bucket);
        grouped.sort_rows(on, rows, SortOptions::ASCENDING, scratch)?;
    }
    let most = options.most_samples(ranks.size());
    let search = |rank| buckets.search(end(rank), most);
    let cuts = split::cuts(ranks, on, &grouped.keys, search, options)?;
    let cuts: Vec<u64> = cuts.into_iter().map(|cut| cut as u64).collect();
    let all = ranks.all_gather_host(on, &cuts)?;
    let cuts = all.chunks_exact(ranks.size() as usize);
    let cuts = cuts.map(|own| own.iter().map(|cut| *cut as usize).collect()).collect();
    let plan = Plan::new(buckets, cuts, BATCHES);
    let lower = SortOptions::ASCENDING.bits(0..bits - 8);
    let sorting = Sorting::new(ranks, on, &streams, plan, lower);
    sorting.run(&grouped).map(Outcome::Sorted)
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
    /// It exchanges. Its blocks go before those that sort.
    link: Stream,
    lanes: Vec<Stream>,
}

impl Streams {
    fn new(gpu: &Gpu) -> DistResult<Self> {
        let (home, urgent) = (gpu.create_stream()?, *gpu.stream_priorities()?.start());
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

/// The exchange and the sort of all batches.
struct Sorting<'a> {
    ranks: &'a Communicator,
    on: &'a Stream,
    streams: &'a Streams,
    plan: Plan,
    /// Of each rank the buckets of each batch.
    batches: Vec<Vec<Vec<usize>>>,
    /// By which bits a bucket is sorted.
    lower: SortOptions,
}

impl<'a> Sorting<'a> {
    fn new(
        ranks: &'a Communicator,
        on: &'a Stream,
        streams: &'a Streams,
        plan: Plan,
        lower: SortOptions,
    ) -> Self {
        let batches = (0..ranks.size() as usize).map(|to| plan.batches(to)).collect();
        Self { ranks, on, streams, plan, batches, lower }
    }

    /// Exchanges [`LANES`] batches, then sorts one and exchanges one in turn.
    fn run<K: RankKey, V: SortValue>(&self, grouped: &Table<K, V>) -> DistResult<Table<K, V>> {
        let has_values = grouped.values.is_some();
        let lens: Vec<usize> =
            self.own_batches().iter().map(|buckets| self.len_of_all(buckets)).collect();
        let mut lanes = self.lanes(&lens, has_values)?;
        // SAFETY: the batches cover it.
        let mut out = unsafe { Table::unwritten(self.on, lens.iter().sum(), has_values) }?;
        let parts = out.as_mut().divide(lens);
        let homes = (0..BATCHES).map(|batch| &self.streams.lanes[batch % LANES]);
        TableMut::rehome_parts(homes.zip(parts).collect(), |parts| {
            let mut sorted = parts.into_iter().enumerate();
            for batch in 0..BATCHES + LANES {
                let lane = &mut lanes[batch % LANES];
                if batch >= LANES
                    && let Some((batch, out)) = sorted.next()
                {
                    self.sort(batch, lane, out)?;
                }
                if batch < BATCHES {
                    self.exchange(batch, grouped, &mut lane.received)?;
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// The batches of this rank.
    fn own_batches(&self) -> &[Vec<usize>] {
        &self.batches[self.ranks.rank() as usize]
    }

    /// How many keys of a bucket this rank gets.
    fn len(&self, bucket: usize) -> usize {
        self.plan.received(self.ranks.rank() as usize, bucket)
    }

    fn len_of_all(&self, buckets: &[usize]) -> usize {
        buckets.iter().map(|bucket| self.len(*bucket)).sum()
    }

    /// The lanes, with room for the longest of their batches: `lens` are those of all.
    fn lanes<K: RankKey, V: SortValue>(
        &self,
        lens: &[usize],
        has_values: bool,
    ) -> DistResult<Vec<Lane<'a, K, V>>> {
        let of_buckets = self.own_batches().iter().flatten().map(|bucket| self.len(*bucket));
        let scratch = Table::<K, V>::scratch_bytes(of_buckets.max().unwrap_or(0), has_values);
        let lane = |(first, stream): (usize, &'a Stream)| -> DistResult<Lane<'a, K, V>> {
            let longest = lens.iter().copied().skip(first).step_by(LANES).max().unwrap_or(0);
            // SAFETY: of each batch the ranks write what is then read.
            let received = unsafe { Table::unwritten(stream, longest, has_values) }?;
            Ok(Lane { stream, received, scratch: Scratch::with_bytes_async(stream, scratch)? })
        };
        self.streams.lanes.iter().enumerate().map(lane).collect()
    }

    /// Sorts the buckets of a batch, each by itself, to where they belong in the result.
    fn sort<K: RankKey, V: SortValue>(
        &self,
        batch: usize,
        lane: &mut Lane<'_, K, V>,
        out: TableMut<'_, K, V>,
    ) -> DistResult<()> {
        let lens: Vec<usize> =
            self.own_batches()[batch].iter().map(|bucket| self.len(*bucket)).collect();
        let mut from = 0;
        for (len, mut out) in lens.iter().zip(out.divide(lens.iter().copied())) {
            let (rows, stream) = (from..from + len, lane.stream);
            lane.received.sort_rows_into(stream, rows, &mut out, self.lower, &mut lane.scratch)?;
            from += len;
        }
        Ok(())
    }

    /// Enqueues the exchange of a batch: each bucket's parts in the order of the ranks.
    fn exchange<K: RankKey, V: SortValue>(
        &self,
        batch: usize,
        grouped: &Table<K, V>,
        received: &mut Table<K, V>,
    ) -> DistResult<()> {
        let rank = self.ranks.rank();
        let len = self.len_of_all(&self.own_batches()[batch]);
        let mut group = self.ranks.group().counted();
        let of_keys = self.sent(batch, &grouped.keys);
        let mut to_keys = self.received(batch, received.keys.slice_mut(..len));
        let of_values = grouped.values.as_ref().map(|values| self.sent(batch, values));
        let values = received.values.as_mut().map(|values| values.slice_mut(..len));
        let mut to_values = values.map(|values| self.received(batch, values));
        copy_own(rank, &of_keys, &mut to_keys)?;
        if let (Some(from), Some(to)) = (&of_values, &mut to_values) {
            copy_own(rank, from, to)?;
            group = exchange_with_others(group, rank, from, to)?;
        }
        exchange_with_others(group, rank, &of_keys, &mut to_keys)?.enqueue(&self.streams.link)
    }

    /// What this rank sends of a batch, each part with the rank that it goes to.
    fn sent<'b, T: Pod>(&self, batch: usize, from: &'b DeviceBuffer<T>) -> Vec<Sent<'b, T>> {
        let own = self.ranks.rank() as usize;
        let of_rank = |(to, batches): (usize, &Vec<Vec<usize>>)| {
            let parts = batches[batch].iter().map(|bucket| self.plan.part(own, to, *bucket));
            parts.map(|part| (to as u32, from.slice(part))).collect::<Vec<_>>()
        };
        self.batches.iter().enumerate().flat_map(of_rank).collect()
    }

    /// Where the parts of this rank's buckets go, each with the rank that it comes from.
    fn received<'b, T: Pod>(
        &self,
        batch: usize,
        to: DeviceSliceMut<'b, T>,
    ) -> Vec<Received<'b, T>> {
        let own = self.ranks.rank() as usize;
        let of_bucket = |bucket: &usize| {
            let bucket = *bucket;
            let len = move |from: u32| (from, self.plan.part(from as usize, own, bucket).len());
            (0..self.ranks.size()).map(len)
        };
        divide(to, self.own_batches()[batch].iter().flat_map(of_bucket))
    }
}
