//! The form for many keys: the exchange first, in batches, each of which is sorted while later ones are under way.
//!
//! Each rank puts its keys in the order of their eight highest bits, one pass of the radix sort, and all ranks learn how many keys of
//! each such bucket each has. So they know which bucket the end of each share of the result is within; that bucket alone is sorted
//! before the exchange, and the end found in it exactly. Then buckets go to their ranks in batches, and each rank sorts each bucket
//! by the other bits. In all a key takes part in as many passes as in the sort of one device, and there is no merge.
//! (The most significant digit first, over ranks: A. Sohn and Y. Kodama, *Load balanced parallel radix sort*, 1998.)

use bytemuck::Pod;
use cuda_std::launch::DeviceRead;
use ferrowarp::memory::{DeviceSlice, DeviceSliceMut};
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, SortValue};
use ferrowarp::{AsStream, DeviceBuffer, Stream};

use super::key::RankKey;
use super::plan::{BUCKETS, Buckets, Plan};
use super::table::Table;
use super::{Options, split};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::parts::{Received, Sent, copy_own, divide, exchange_with_others};
use crate::ops::shares::Shares;

/// Batches of an exchange.
const BATCHES: usize = 16;

/// What came of it.
pub(super) enum Outcome<K: RankKey, V: SortValue> {
    /// This rank's share of the result.
    Sorted(Table<K, V>),
    /// Many keys are in buckets that two ranks would get a part of. This rank's own keys, in the order of the buckets.
    Skewed(Table<K, V>),
}

/// Sorts keys, and values if there are some, so that shares `after` are left.
pub(super) fn sort<K: RankKey, V: SortValue>(
    ranks: &Communicator,
    on: &impl AsStream,
    (keys, values): (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
    after: &Shares,
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<Outcome<K, V>> {
    // Its memory is not ordered by the stream that sorts, so that the exchange of a batch does not wait for a sort.
    let home = ranks.gpu().create_stream()?;
    let bits = 8 * size_of::<K>() as u32;
    let highest = SortOptions::ASCENDING.bits(bits - 8..bits);
    let mut grouped = Table::sorted([on.as_stream(), &home], keys, values, highest, scratch)?;
    let buckets = gather(ranks, on, &grouped.keys)?;
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
    Sorting { ranks, on: on.as_stream(), plan }.run(&grouped, lower, scratch).map(Outcome::Sorted)
}

/// The buckets of all ranks.
fn gather<K: RankKey>(
    ranks: &Communicator,
    on: &impl AsStream,
    grouped: &DeviceBuffer<K>,
) -> DistResult<Buckets> {
    let firsts: Vec<K> = (1..BUCKETS as u64)
        .map(|bucket| K::of_rank_word(bucket << (8 * size_of::<K>() - 8)))
        .collect();
    let firsts = DeviceBuffer::from_slice(on, &firsts)?;
    // SAFETY: the search writes all of it.
    let mut starts = unsafe { unwritten(on, firsts.as_slice().raw().len) }?;
    K::lower_bounds(on, grouped, &firsts, &mut starts)?;
    let (starts, n) = (starts.to_vec()?, grouped.as_slice().raw().len as u64);
    let ends = starts.iter().copied().chain([n]);
    let lens: Vec<u64> = ends
        .zip(std::iter::once(0).chain(starts.clone()))
        .map(|(end, start)| end - start)
        .collect();
    let all = ranks.all_gather_host(on, &lens)?;
    Ok(Buckets::new(all.chunks_exact(BUCKETS)))
}

struct Sorting<'a> {
    ranks: &'a Communicator,
    on: &'a Stream,
    plan: Plan,
}

impl Sorting<'_> {
    fn run<K: RankKey, V: SortValue>(
        &self,
        grouped: &Table<K, V>,
        lower: SortOptions,
        scratch: &mut Scratch,
    ) -> DistResult<Table<K, V>> {
        let batches: Vec<_> =
            (0..self.ranks.size() as usize).map(|to| self.plan.batches(to)).collect();
        let own = &batches[self.ranks.rank() as usize];
        let link = self.ranks.gpu().create_stream()?;
        let mut received = Vec::new();
        for batch in 0..BATCHES {
            let of_ranks: Vec<&[usize]> = batches.iter().map(|of_rank| &*of_rank[batch]).collect();
            received.push(self.exchange(&link, grouped, &of_ranks)?);
        }
        let len = own.iter().flatten().map(|bucket| self.len(*bucket)).sum();
        // SAFETY: the buckets cover it.
        let mut out = unsafe { Table::unwritten(self.on, len, grouped.values.is_some()) }?;
        let mut start = 0;
        for (buckets, received) in own.iter().zip(&received) {
            let mut from = 0;
            for len in buckets.iter().map(|bucket| self.len(*bucket)) {
                let (rows, to) = (from..from + len, start..start + len);
                received.sort_rows_into(self.on, rows, (&mut out, to), lower, scratch)?;
                (from, start) = (from + len, start + len);
            }
        }
        Ok(out)
    }

    /// How many keys of a bucket this rank gets.
    fn len(&self, bucket: usize) -> usize {
        self.plan.received(self.ranks.rank() as usize, bucket)
    }

    /// Enqueues the exchange of a batch: each bucket's parts in the order of the ranks, and returns what comes of it.
    fn exchange<K: RankKey, V: SortValue>(
        &self,
        link: &Stream,
        grouped: &Table<K, V>,
        buckets: &[&[usize]],
    ) -> DistResult<Table<K, V>> {
        let own = buckets[self.ranks.rank() as usize];
        let len = own.iter().map(|bucket| self.len(*bucket)).sum();
        let home = self.ranks.gpu().create_stream()?;
        // SAFETY: the ranks write all of it.
        let mut received = unsafe { Table::unwritten(&home, len, grouped.values.is_some()) }?;
        let mut group = self.ranks.group();
        let of_keys = self.sent(buckets, &grouped.keys);
        let mut to_keys = self.received(own, received.keys.as_mut_slice());
        let of_values = grouped.values.as_ref().map(|values| self.sent(buckets, values));
        let values = received.values.as_mut().map(DeviceBuffer::as_mut_slice);
        let mut to_values = values.map(|values| self.received(own, values));
        let rank = self.ranks.rank();
        copy_own(rank, &of_keys, &mut to_keys)?;
        if let (Some(from), Some(to)) = (&of_values, &mut to_values) {
            copy_own(rank, from, to)?;
            group = exchange_with_others(group, rank, from, to)?;
        }
        exchange_with_others(group, rank, &of_keys, &mut to_keys)?.enqueue(link)?;
        drop((to_keys, to_values));
        Ok(received)
    }

    /// What this rank sends, each with the rank that it goes to.
    fn sent<'b, T: Pod>(
        &self,
        buckets: &[&[usize]],
        from: &'b DeviceBuffer<T>,
    ) -> Vec<Sent<'b, T>> {
        let own = self.ranks.rank() as usize;
        let of_rank = |(to, buckets): (usize, &&[usize])| {
            let parts = buckets.iter().map(move |bucket| self.plan.part(own, to, *bucket));
            parts.map(|part| (to as u32, from.slice(part))).collect::<Vec<_>>()
        };
        buckets.iter().enumerate().flat_map(of_rank).collect()
    }

    /// Where the parts of this rank's buckets go, each with the rank that it comes from.
    fn received<'b, T: Pod>(
        &self,
        buckets: &[usize],
        to: DeviceSliceMut<'b, T>,
    ) -> Vec<Received<'b, T>> {
        let own = self.ranks.rank() as usize;
        let of_bucket = |bucket: &usize| {
            let bucket = *bucket;
            let len = move |from: u32| (from, self.plan.part(from as usize, own, bucket).len());
            (0..self.ranks.size()).map(len)
        };
        divide(to, buckets.iter().flat_map(of_bucket))
    }
}
