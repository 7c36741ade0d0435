//! The form for many keys: the exchange first, in batches, each of which is sorted while later ones are under way.
//!
//! Each rank counts its keys by their eight highest bits, the bucket of a key, and all ranks learn the counts. So they know which buckets
//! each share of the result has whole, and which ones the ends of the shares are within. One pass of the radix sort puts each rank's keys
//! in the order of their buckets, into a table with room for what the others have of the buckets that are its own. Whole buckets go
//! there in batches, and each rank sorts each bucket by the other bits, into the result. Meanwhile the few buckets with ends of shares are
//! sorted where they are, the ends found in them exactly, and their parts follow at last. In all a key takes part in as many passes
//! as in the sort of one device, and there is no merge.
//! (The most significant digit first, over ranks: A. Sohn and Y. Kodama, *Load balanced parallel radix sort*, 1998.)
//!
//! The host enqueues the exchange while the device makes the pass, so that it does not wait for the host.

use std::ops::Range;

use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, SortValue, count_digits_into};
use ferrowarp::{AsStream, Event, Gpu, Stream};

use super::key::RankKey;
use super::moves::OPERATION;
use super::plan::{BUCKETS, Batch, Buckets, moves, moves_to_rooms};
use super::table::{Table, TableMut};
use super::{Options, split};
use crate::communicator::Communicator;
use crate::error::DistResult;
use crate::ops::memory::unwritten;
use crate::ops::parts::enqueue_by_peers;
use crate::ops::shares::Shares;
use crate::peers::{Put, Puts, Reached};

/// Batches of whole buckets that are exchanged.
const BATCHES: usize = 64;
/// Batches that are sorted one by one, so that the first sorts begin soon. Later ones are sorted in pairs.
const SINGLE: usize = 2 * LANES;
const _: () = assert!(BATCHES > SINGLE && (BATCHES - SINGLE).is_multiple_of(2));
/// Streams that sort side by side: while the last blocks of one's launch run, those of another fill the device.
const LANES: usize = 3;
/// Sorts that are enqueued before the host waits for the search of the edges: they keep the device at work meanwhile.
const BEFORE_EDGES: usize = 16;
const _: () = assert!(BEFORE_EDGES <= (SINGLE + BATCHES) / 2);

/// Which batches are sorted at once.
fn sorted_at_once() -> impl Iterator<Item = Range<usize>> {
    let single = (0..SINGLE).map(|batch| batch..batch + 1);
    single.chain((SINGLE..BATCHES).step_by(2).map(|batch| batch..batch + 2))
}

/// Sorts keys, and values if there are some, so that shares `after` are left. `None` if many keys are in buckets that two ranks
/// would get a part of.
pub(super) fn sort<K: RankKey, V: SortValue>(
    ranks: &Communicator,
    on: &impl AsStream,
    input: (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
    after: &Shares,
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<Option<Table<K, V>>> {
    let on = on.as_stream();
    let bits = 8 * size_of::<K>() as u32;
    let highest = bits - 8..bits;
    let shares: Vec<_> = (0..ranks.size()).map(|rank| after.range(rank)).collect();
    let lens = count(ranks, on, input.0, highest.clone(), scratch)?;
    let buckets = Buckets::new(lens, &shares);
    let Some(divided) = buckets.divided(shares.iter().map(|share| share.end)) else {
        return Ok(None);
    };
    let (streams, lower) = (Streams::new(ranks.gpu())?, SortOptions::ASCENDING.bits(0..bits - 8));
    let sorting = Sorting { ranks, on, streams, buckets, shares, divided, options, lower };
    sorting.run(input, highest, scratch).map(Some)
}

/// How many keys each rank has with each value of the highest bits. Waits.
fn count<K: RankKey>(
    ranks: &Communicator,
    on: &Stream,
    keys: DeviceSlice<'_, K>,
    highest: Range<u32>,
    scratch: &mut Scratch,
) -> DistResult<Vec<Vec<usize>>> {
    // SAFETY: the kernel writes all of the one, and the ranks all of the other.
    let (mut own, mut all) =
        unsafe { (unwritten(on, BUCKETS)?, unwritten(on, BUCKETS * ranks.size() as usize)?) };
    count_digits_into(on, &keys, &mut own, highest, scratch)?;
    // Whoever has all counts may write into this rank's rooms.
    ranks.peers().map_or(Ok(()), |peers| peers.rooms().wait(on))?;
    ranks.all_gather(on, &own, &mut all)?;
    ranks.synchronize(on)?;
    let of_rank = |counts: &[u64]| counts.iter().map(|count| *count as usize).collect();
    Ok(all.to_vec()?.chunks_exact(BUCKETS).map(of_rank).collect())
}

/// The streams of a sort.
struct Streams {
    /// It orders the table, so that nothing waits for what others do with parts of it.
    home: Stream,
    /// It exchanges batches. Its blocks, and those of the next, go before those that sort.
    exchange: Stream,
    /// It looks for the ends of shares.
    search: Stream,
    lanes: Vec<Stream>,
}

impl Streams {
    fn new(gpu: &Gpu) -> DistResult<Self> {
        let urgent = *gpu.stream_priorities()?.start();
        let exchange = gpu.create_stream_with_priority(urgent)?;
        let search = gpu.create_stream_with_priority(urgent)?;
        let lanes = (0..LANES).map(|_| gpu.create_stream()).collect::<Result<_, _>>()?;
        Ok(Self { home: gpu.create_stream()?, exchange, search, lanes })
    }

    /// The home of the table goes on when nothing uses the table any more.
    fn join(&self) -> DistResult<()> {
        self.home.join(&self.lanes)?;
        Ok(self.home.join(&[self.exchange.clone(), self.search.clone()])?)
    }
}

/// A stream that sorts run on one after the other, and the scratch of those sorts.
struct Lane<'a> {
    stream: &'a Stream,
    scratch: Scratch,
}

/// The parts of this rank's share whose buckets others have a part of, too: that at the end, and that at the beginning.
type Edges<K, V> = [Table<K, V>; 2];

/// The exchange and the sort of all batches.
struct Sorting<'a> {
    ranks: &'a Communicator,
    on: &'a Stream,
    streams: Streams,
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
        (keys, values): (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
        highest: Range<u32>,
        scratch: &mut Scratch,
    ) -> DistResult<Table<K, V>> {
        let has_values = values.is_some();
        let rooms = self.rooms::<K, V>(has_values)?;
        let (own, home) = (self.own(), &self.streams.home);
        let len = self.buckets.table_len(own);
        // SAFETY: the pass and the exchange write all of it. The room is as long, and is this sort's: see `rooms`.
        let mut table = unsafe {
            match rooms {
                Some(rooms) => Table::at(rooms[own], home, len, has_values),
                None => Table::unwritten(home, len, has_values),
            }
        }?;
        let plan = (highest, &self.buckets.places(own));
        // SAFETY: the places are those of as many keys as were counted, and ascend.
        unsafe { table.scatter(self.on, (keys, values), plan, scratch) }?;
        let end_of_pass = home.record_event()?;
        self.streams.exchange.wait_event(&end_of_pass)?;
        let sorted = self.exchange_and_sort(&mut table, rooms, scratch);
        // Parts of the table were used without a word to its home.
        self.streams.join()?;
        self.ranks.peers().map_or(Ok(()), |peers| peers.rooms().leave(home))?;
        sorted
    }

    /// Where this rank reaches the tables of all ranks, if they reach each other's memory and have enough of it.
    fn rooms<K: RankKey, V: SortValue>(&self, has_values: bool) -> DistResult<Option<Reached>> {
        let Some(peers) = self.ranks.peers() else { return Ok(None) };
        let lens = (0..self.shares.len()).map(|rank| self.buckets.table_len(rank));
        let bytes: Vec<_> = lens.map(|len| Table::<K, V>::bytes_at(len, has_values)).collect();
        peers.rooms().reach(&bytes)
    }

    /// Exchanges and sorts all buckets of a table.
    fn exchange_and_sort<K: RankKey, V: SortValue>(
        &self,
        table: &mut Table<K, V>,
        rooms: Option<Reached>,
        scratch: &mut Scratch,
    ) -> DistResult<Table<K, V>> {
        let (own, has_values) = (self.own(), table.values.is_some());
        let whole: Vec<Vec<Batch>> =
            self.shares.iter().map(|share| self.buckets.batches(share, BATCHES)).collect();
        let arrived = self.exchange(&whole, table, rooms)?;
        let [first, last] = self.buckets.edge_lens(&self.shares[own]);
        let of_batch = |batch: &Batch| {
            Table::<K, V>::group_scratch_bytes(batch.len(), batch.lens().len(), has_values)
        };
        let of_edge = |len| Table::<K, V>::scratch_bytes(len, has_values);
        let sorts: Vec<Batch> =
            sorted_at_once().map(|batches| Batch::joined(&whole[own][batches])).collect();
        let bytes = sorts.iter().map(of_batch).chain([first, last].map(of_edge));
        let scratch_bytes = bytes.max().unwrap_or(0);
        let middle = sorts.iter().map(Batch::len);
        let lens: Vec<usize> = std::iter::once(first).chain(middle).chain([last]).collect();
        // SAFETY: the sorts cover it.
        let mut out = unsafe { Table::unwritten(self.on, lens.iter().sum(), has_values) }?;
        let mut parts = out.as_mut().divide(lens);
        // The edges come last: first that at the end, then that at the beginning.
        parts.rotate_left(1);
        let mut lanes: Vec<Lane<'_>> = Vec::new();
        let homes = (0..parts.len()).map(|sort| &self.streams.lanes[sort % LANES]);
        // What comes from one rank comes in order, so that the last batch of a sort is behind the others.
        let mut arrived = sorted_at_once().map(|batches| &arrived[batches.end - 1]);
        TableMut::rehome_parts(homes.zip(parts).collect(), |parts| {
            let mut edges = None;
            for (sort, mut out) in parts.into_iter().enumerate() {
                if lanes.len() < LANES {
                    let stream = &self.streams.lanes[sort];
                    let scratch = Scratch::with_bytes_async(stream, scratch_bytes)?;
                    lanes.push(Lane { stream, scratch });
                }
                if sort == BEFORE_EDGES {
                    edges = Some(self.edges(table, scratch)?);
                }
                let lane = &mut lanes[sort % LANES];
                match (sort.checked_sub(sorts.len()), &edges) {
                    (Some(edge), Some(edges)) => {
                        let (edge, scratch): (&Table<K, V>, _) = (&edges[edge], &mut lane.scratch);
                        let rows = 0..edge.len();
                        edge.sort_rows_into(lane.stream, rows, &mut out, self.lower, scratch)?;
                    }
                    _ => {
                        for event in arrived.next().into_iter().flatten() {
                            lane.stream.wait_event(event)?;
                        }
                        self.sort(&sorts[sort], table, &mut out, lane)?;
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }

    /// Enqueues the exchange of all batches, on a stream that has waited for the pass: for each batch what it has arrived after.
    fn exchange<K: RankKey, V: SortValue>(
        &self,
        whole: &[Vec<Batch>],
        table: &mut Table<K, V>,
        rooms: Option<Reached>,
    ) -> DistResult<Vec<Vec<Event>>> {
        let (own, stream) = (self.own(), &self.streams.exchange);
        let (Some(peers), Some(rooms)) = (self.ranks.peers(), rooms) else {
            let one_by_one = (0..BATCHES).map(|batch| {
                let of_ranks: Vec<_> = whole.iter().map(|batches| &batches[batch]).collect();
                moves_to_rooms(&of_ranks, own).enqueue_within(self.ranks, stream, table)?;
                Ok(vec![stream.record_event()?])
            });
            return one_by_one.collect();
        };
        let has_values = table.values.is_some();
        let puts = |batch: usize, to: usize| {
            let columns = [(0, 0, size_of::<K>()), {
                let values_at = |rank| Table::<K, V>::values_at(self.buckets.table_len(rank));
                (values_at(own), values_at(to), size_of::<V>())
            }];
            let given = whole[to][batch].given(own, to).flat_map(|(rows, place)| {
                columns.into_iter().take(1 + usize::from(has_values)).map(
                    move |(from, at, size)| Put {
                        from: rooms[own] + from + (rows.start * size) as u64,
                        to: rooms[to] + at + (place * size) as u64,
                        bytes: rows.len() * size,
                    },
                )
            });
            given.collect::<Vec<_>>()
        };
        let mut arrived = Vec::new();
        let exchange = || {
            let all = |link: &mut Puts<'_>| {
                let mut batches = 0..BATCHES;
                batches.try_for_each(|batch| {
                    for to in link.behind() {
                        link.send(to, &[], &puts(batch, to))?;
                    }
                    let of_ranks = link.before().map(|from| link.receive(from));
                    arrived.push(of_ranks.collect::<DistResult<Vec<_>>>()?);
                    Ok(())
                })
            };
            // SAFETY: nothing uses the rooms before they are full, nor changes what is sent.
            unsafe { peers.put(stream, all) }
        };
        // SAFETY: as above; the table's home waits for the stream.
        unsafe { enqueue_by_peers(self.ranks, stream, OPERATION, ForeignMemory::new(), exchange) }?;
        Ok(arrived)
    }

    /// Sorts the buckets of a batch that has arrived, each by itself, to where they belong in the result.
    fn sort<K: RankKey, V: SortValue>(
        &self,
        batch: &Batch,
        table: &Table<K, V>,
        out: &mut TableMut<'_, K, V>,
        Lane { stream, scratch }: &mut Lane<'_>,
    ) -> DistResult<()> {
        let Some(first) = batch.rooms(self.own()).next() else { return Ok(()) };
        // SAFETY: the stream has waited for the batch, of which nothing changes, and the table is kept until its home has joined the stream.
        unsafe {
            let (rows, lens) = (first.start..first.start + batch.len(), batch.lens());
            table.sort_groups_unordered_into(*stream, rows, &lens, out, self.lower, scratch)
        }?;
        Ok(())
    }

    /// Sorts the buckets that several shares have a part of, looks for the ends of the shares in them, and exchanges their parts. Waits.
    fn edges<K: RankKey, V: SortValue>(
        &self,
        table: &mut Table<K, V>,
        scratch: &mut Scratch,
    ) -> DistResult<Edges<K, V>> {
        let (ranks, on, options) = (self.ranks, &self.streams.search, self.options);
        for bucket in &self.divided {
            let rows = self.buckets.range(self.own(), *bucket);
            table.sort_rows(on, rows, SortOptions::ASCENDING, scratch)?;
        }
        let most = options.most_samples(ranks.size());
        let search = |rank: u32| self.buckets.search(self.shares[rank as usize].end, most);
        let cuts = split::cuts(ranks, on, &table.keys, search, options)?;
        let cuts: Vec<u64> = cuts.into_iter().map(|cut| cut as u64).collect();
        let all = ranks.all_gather_host(on, &cuts)?;
        let cuts = all.chunks_exact(ranks.size() as usize);
        let cuts: Vec<Vec<usize>> =
            cuts.map(|own| own.iter().map(|cut| *cut as usize).collect()).collect();
        let shares = self.shares.iter().enumerate();
        let of_ranks: Vec<[Batch; 2]> =
            shares.map(|(to, share)| self.buckets.edge_batches(to, share, &cuts)).collect();
        let exchange = |edge: usize| {
            let batches: Vec<&Batch> = of_ranks.iter().map(|edges| &edges[edge]).collect();
            table.exchange(ranks, on, &moves(&batches, self.own()))
        };
        Ok([exchange(1)?, exchange(0)?])
    }
}
