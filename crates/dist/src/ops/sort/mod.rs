//! Sorts of keys, and of keys with values, that are split over the ranks: of more data than one device holds.
//!
//! Keys are all that [`ferrowarp::ops::sort`] takes, `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32` and `f64`, in the order
//! that it gives them: floats in their total order, NaN at the ends. Values have 4 or 8 bytes.
//!
//! **Order.** Afterwards each share is sorted, and no key of a rank comes after one of a later rank. Every sort is *stable*: equal
//! keys keep the order of their ranks and, within a rank, of their positions. So the result is the same, bit for bit, in every
//! run.
//!
//! **Balance.** The shares of the result have exactly the lengths that the [options](Options) say, whatever the keys are: all the
//! same up to one element, or those of the input. Of equal keys a part may go to one rank and a part to the next.
//!
//! **Method.** A sample sort with exact splitters. Each rank sorts its share. Where each share of the result ends in each rank's
//! sorted keys is then found by regular sampling (H. Shi and J. Schaeffer, *Parallel sorting by regular sampling*, 1992), repeated
//! within what the samples of the round before leave open, until it is exact, which is the multiway selection of P. Varman,
//! S. Scheufler, B. Iyer and G. Ricard, *Merging multiple lists on hierarchical-memory multiprocessors*, 1991. Ties are broken by rank
//! and position. The search for each end is done by one rank, for all at once: a round takes an all-to-all of samples, with which
//! 2³⁰ keys a rank take three or four. One all-to-all moves the keys, and each rank merges what it gets, by
//! [`ops::merge`](ferrowarp::ops::merge()), or sorts it again where that is faster (keys of fewer than 32 bits, values of 64,
//! descending order, more runs than a merge has use for).
//!
//! With [`Method::ExchangeFirst`] keys of 32 or 64 bits, ascending, are first exchanged, in batches, by their highest bits, and
//! sorted while later batches are under way, with the same splitters and the same result. That is what 512 MiB of such keys and their values a rank, and
//! more, get where the ranks [reach each other's memory](Communicator::has_peer_memory), if no method is asked for: their copy
//! engines then move the keys, and leave the multiprocessors to the sort.
//!
//! **Waits.** The host waits for the samples of each round, and for the counts of the highest bits, since lengths of messages come of
//! them. The exchange and what follows it are then enqueued, like a launch.
//!
//! **Memory.** Beside the input, in units of the share (of the input or of the result, whichever is the larger), the result
//! included: while each rank sorts, a sorted copy and the scratch, which keeps its size, 2; then the scratch, what is sent and
//! what is received, 3; while the sort comes first, at the end the scratch, what was received and a merge of it, 3; while the
//! exchange comes first, the result, and a table of what is sent and of what the result will have, 3 at most (with two ranks 2.5), and
//! scratch for counts and for three of about 32 parts of the keys. Where the ranks reach each other's memory, the communicator keeps the table for
//! the next sort.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, ops::Scratch};
//! use ferrowarp_dist::{Communicator, World, ops::sort::{Options, sort}};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let own = DeviceBuffer::from_slice(&gpu, &[2.5f32, -1.0, 7.0])?;
//! let sorted = sort(&ranks, &gpu, &own, Options::ASCENDING, &mut Scratch::new(&gpu)?)?;
//! assert_eq!(sorted.to_vec()?, [-1.0, 2.5, 7.0]);
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```

mod by_bucket;
mod join;
mod key;
mod moves;
mod narrow;
mod plan;
mod split;
mod table;

use cuda_std::launch::DeviceRead;
use ferrowarp::memory::DeviceSlice;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{SortOptions, SortValue};
use ferrowarp::{AsStream, DeviceBuffer};

pub use key::RankKey;

use super::shares::{Shares, same_len};
use crate::communicator::Communicator;
use crate::error::DistResult;
use table::Table;

/// What comes first. It does not change the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// The sort of each share.
    SortFirst,
    /// The exchange by the highest bits of the keys: of keys of 32 or 64 bits, ascending, of which few have the same highest bits as
    /// the first key of a share; of others the sort.
    ExchangeFirst,
}

/// The fewest bytes of a rank, on average, keys and values, of which the exchange comes first. It is hundreds of launches, which take the host 2 to
/// 3 ms: on two H200s it was the slower one of 2²⁶ keys of 32 bits a rank, and the faster one of 2²⁷, and of 2²⁶ keys of 64 bits or pairs of 32.
const MANY_BYTES: usize = 512 << 20;

/// Which way a sort goes, and which shares it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    descending: bool,
    keeps_shares: bool,
    samples: Option<usize>,
    method: Option<Method>,
}

impl Options {
    /// The smallest key first; shares that differ by one element at most, the longer ones first.
    pub const ASCENDING: Self =
        Self { descending: false, keeps_shares: false, samples: None, method: None };
    /// The largest key first; shares as above.
    pub const DESCENDING: Self = Self { descending: true, ..Self::ASCENDING };

    /// Each rank has as many elements afterwards as before.
    #[must_use]
    pub const fn keep_shares(self) -> Self {
        Self { keeps_shares: true, ..self }
    }

    /// How many samples of a rank a round of the search takes for each splitter: 4096, and at least 16 for each rank, where this
    /// is not called. More take fewer rounds of more work. It does not change the result.
    #[must_use]
    pub const fn samples(self, samples: usize) -> Self {
        Self { samples: Some(samples), ..self }
    }

    /// What comes first: see [`Method`]. Where this is not called, the faster one of both.
    #[must_use]
    pub const fn method(self, method: Method) -> Self {
        Self { method: Some(method), ..self }
    }

    /// Whether the exchange comes first, of so many keys of all ranks.
    fn is_by_bucket<K: RankKey>(
        self,
        ranks: &Communicator,
        keys: usize,
        value_bytes: usize,
    ) -> bool {
        let is_many = keys / ranks.size() as usize * (size_of::<K>() + value_bytes) >= MANY_BYTES;
        let is_wanted = match self.method {
            Some(method) => method == Method::ExchangeFirst,
            None => ranks.has_peer_memory() && is_many,
        };
        is_wanted && keys > 0 && K::MERGES && !self.descending
    }

    /// Whether the largest key comes first.
    #[must_use]
    pub const fn is_descending(self) -> bool {
        self.descending
    }

    /// Whether each rank has as many elements afterwards as before.
    #[must_use]
    pub const fn keeps_shares(self) -> bool {
        self.keeps_shares
    }

    fn most_samples(self, ranks: u32) -> usize {
        self.samples.unwrap_or((16 * ranks as usize).max(4096))
    }

    /// The options of the sorts on one device.
    fn local(self) -> SortOptions {
        if self.descending { SortOptions::DESCENDING } else { SortOptions::ASCENDING }
    }
}

/// Sorts the keys of all ranks: a new buffer with this rank's share of them. `x`: this rank's keys, `[n]`. See the
/// [module](self) for order, lengths, memory and waits.
///
/// # Errors
/// As [`Communicator::all_to_all_uneven`], [`Communicator::synchronize`] and [`ops::sort`](ferrowarp::ops::sort).
pub fn sort<'x, K: RankKey>(
    ranks: &Communicator,
    on: &impl AsStream,
    x: impl Into<DeviceSlice<'x, K>>,
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<DeviceBuffer<K>> {
    let input = (x.into(), None);
    Ok(ranks.attempt(|| run::<K, u32>(ranks, on, input, options, scratch))?.keys)
}

/// Sorts the keys of all ranks, and the values with them: two new buffers with this rank's share of both. `keys` and `values`: this
/// rank's, `[n]` each. See the [module](self) for order, lengths, memory and waits.
///
/// # Errors
/// [`Length`](crate::DistError::Length) if this rank has another number of values than of keys; as [`sort()`].
pub fn sort_pairs<'x, K: RankKey, V: SortValue>(
    ranks: &Communicator,
    on: &impl AsStream,
    (keys, values): (impl Into<DeviceSlice<'x, K>>, impl Into<DeviceSlice<'x, V>>),
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<(DeviceBuffer<K>, DeviceBuffer<V>)> {
    let (keys, values) = (keys.into(), values.into());
    let sorted = ranks.attempt(|| {
        same_len("sort over ranks", "the values of this rank", keys.raw().len, values.raw().len)?;
        run(ranks, on, (keys, Some(values)), options, scratch)
    });
    let Table { keys, values } = sorted?;
    Ok((keys, values.expect("a table of pairs has values")))
}

/// Sorts keys, and values if there are some.
fn run<K: RankKey, V: SortValue>(
    ranks: &Communicator,
    on: &impl AsStream,
    (keys, values): (DeviceSlice<'_, K>, Option<DeviceSlice<'_, V>>),
    options: Options,
    scratch: &mut Scratch,
) -> DistResult<Table<K, V>> {
    if ranks.size() == 1 {
        return Table::sorted(on.as_stream(), keys, values, options.local(), scratch);
    }
    let before = Shares::gather(ranks, on, keys.raw().len)?;
    let after = match options.keeps_shares {
        true => before.clone(),
        false => Shares::even(before.total(), ranks.size()),
    };
    let value_bytes = if values.is_some() { size_of::<V>() } else { 0 };
    if options.is_by_bucket::<K>(ranks, before.total(), value_bytes) {
        let sorted = by_bucket::sort(ranks, on, (keys, values), &after, options, scratch)?;
        if let Some(sorted) = sorted {
            return Ok(sorted);
        }
    }
    let sorted = Table::sorted(on.as_stream(), keys, values, options.local(), scratch)?;
    let moves = split::moves(ranks, on, &sorted.keys, (&before, &after), options)?;
    let runs = sorted.exchange(ranks, on.as_stream(), &moves)?;
    join::join(on, runs, &moves.lens(), options, scratch)
}
