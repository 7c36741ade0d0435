//! Sorts of keys and of pairs.

use std::cmp::Ordering;
use std::fmt::Debug;

use cuda_std::half::{bf16, f16};
use ferrowarp::ops::sort::SortValue;

use super::data::{Random, of_bits};
use super::tester::Tester;
use crate::error::DistResult;
use crate::ops::Shares;
use crate::ops::sort::{Method, Options, RankKey, sort, sort_pairs};

/// Elements of a rank.
const SIZES: [usize; 7] = [0, 1, 31, 32, 33, 257, 1009];

/// What keys are like.
#[derive(Clone, Copy, Debug)]
enum Keys {
    /// Of random bits: floats with NaNs of both signs.
    Random,
    /// One of three.
    Few,
    Equal,
    /// Each larger than the one before, where the type has that many.
    Ascending,
    /// Each smaller, so that each rank gets what another has.
    Descending,
    /// Nine of ten the same.
    Skewed,
    /// Few different highest bytes, each with few different other bits.
    Grouped,
}

impl Keys {
    const ALL: [Self; 6] =
        [Self::Random, Self::Few, Self::Equal, Self::Ascending, Self::Descending, Self::Skewed];

    fn make<K: RankKey>(self, random: &mut Random, len: usize) -> Vec<K> {
        let common = random.word();
        let key = |at: usize| match self {
            Self::Random => random.word(),
            Self::Few => random.below(3),
            Self::Equal => common,
            Self::Ascending => at as u64,
            Self::Descending => (len - at) as u64,
            Self::Skewed if random.below(10) > 0 => common,
            Self::Skewed => random.word(),
            Self::Grouped => (random.below(40) << (8 * size_of::<K>() - 8)) | random.below(9),
        };
        (0..len).map(key).map(of_bits).collect()
    }
}

/// A type of keys, and its order on the host.
trait Ordered: RankKey + Debug {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! ordered {
    ($($how:ident: $($ty:ty)*;)*) => {$($(
        impl Ordered for $ty {
            fn order(&self, other: &Self) -> Ordering {
                self.$how(other)
            }
        }
    )*)*};
}

ordered! {
    cmp: u8 u16 u32 u64 i8 i16 i32 i64;
    total_cmp: f16 bf16 f32 f64;
}

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    sizes(tester)?;
    divided_buckets(tester)?;
    of_type::<u8, u32>(tester, |at| at as u32)?;
    of_type::<u16, u64>(tester, |at| at as u64)?;
    of_type::<u32, f32>(tester, |at| at as f32)?;
    of_type::<u64, i32>(tester, |at| at as i32)?;
    of_type::<i8, i64>(tester, |at| at as i64)?;
    of_type::<i16, u32>(tester, |at| at as u32)?;
    of_type::<i32, u32>(tester, |at| at as u32)?;
    of_type::<i64, f64>(tester, |at| at as f64)?;
    of_type::<f16, u32>(tester, |at| at as u32)?;
    of_type::<bf16, u64>(tester, |at| at as u64)?;
    of_type::<f32, u32>(tester, |at| at as u32)?;
    of_type::<f64, u32>(tester, |at| at as u32)
}

/// Every size, every split and every kind of keys, in both methods; with few samples, so that the search has several rounds.
fn sizes(tester: &mut Tester<'_>) -> DistResult<()> {
    let options = Options::ASCENDING.samples(0);
    for size in SIZES {
        for (which, shares) in tester.splits(size).iter().enumerate() {
            for (kind, keys) in Keys::ALL.into_iter().enumerate() {
                // Each is met by each size and each split.
                let first = options.method(Method::ExchangeFirst);
                match (which + kind + size) % 4 {
                    0 => keys_alone::<u32>(tester, shares, keys, options)?,
                    1 => pairs::<f32, u32>(tester, shares, keys, options.keep_shares(), as_u32)?,
                    2 => keys_alone::<i32>(tester, shares, keys, first)?,
                    _ => pairs::<f32, u32>(tester, shares, keys, first.keep_shares(), as_u32)?,
                }
            }
        }
    }
    Ok(())
}

/// Ends of shares within buckets of many keys, of which some are equal.
fn divided_buckets(tester: &mut Tester<'_>) -> DistResult<()> {
    let options = Options::ASCENDING.samples(0).method(Method::ExchangeFirst);
    for size in [33, 257, 1009] {
        for shares in tester.splits(size) {
            keys_alone::<u32>(tester, &shares, Keys::Grouped, options)?;
            pairs::<f32, u32>(tester, &shares, Keys::Grouped, options.keep_shares(), as_u32)?;
            pairs::<i64, u64>(tester, &shares, Keys::Grouped, options, |place| place as u64)?;
        }
    }
    Ok(())
}

fn as_u32(place: usize) -> u32 {
    place as u32
}

/// Keys and pairs of a type, in both directions, with both kinds of shares.
fn of_type<K: Ordered, V: SortValue + Debug>(
    tester: &mut Tester<'_>,
    value: fn(usize) -> V,
) -> DistResult<()> {
    let all = [Options::ASCENDING, Options::DESCENDING];
    for (which, shares) in tester.splits(131).iter().enumerate() {
        for (way, options) in all.into_iter().enumerate() {
            let kind = |at: usize| Keys::ALL[(which + 3 * way + at) % Keys::ALL.len()];
            let kept = options.keep_shares();
            keys_alone::<K>(tester, shares, kind(0), if which % 2 == 0 { options } else { kept })?;
            let options = if way == 0 { kept } else { options.samples(0) };
            pairs::<K, V>(tester, shares, kind(1), options, value)?;
            if way == 0 && which == 1 && K::MERGES {
                let options = options.method(Method::ExchangeFirst);
                pairs::<K, V>(tester, shares, Keys::Random, options, value)?;
            }
        }
    }
    Ok(())
}

fn keys_alone<K: Ordered>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    keys: Keys,
    options: Options,
) -> DistResult<()> {
    let all: Vec<K> = keys.make(&mut tester.random, shares.total());
    let own = tester.upload(&all, shares)?;
    let found = sort(tester.ranks, tester.gpu(), &own, options, &mut tester.scratch)?;
    let places = places(tester, &all, shares, options);
    let expected: Vec<K> = places.iter().map(|place| all[*place]).collect();
    tester.compare("sort: keys", case::<K>(shares, keys, options), &found, &expected)
}

/// The value of a key is its place in the input, so that the order of equal keys is seen.
fn pairs<K: Ordered, V: SortValue + Debug>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    keys: Keys,
    options: Options,
    value: fn(usize) -> V,
) -> DistResult<()> {
    let all: Vec<K> = keys.make(&mut tester.random, shares.total());
    let values: Vec<V> = (0..all.len()).map(value).collect();
    let own = (&tester.upload(&all, shares)?, &tester.upload(&values, shares)?);
    let (ranks, gpu) = (tester.ranks, tester.gpu());
    let (found, found_values) = sort_pairs(ranks, gpu, own, options, &mut tester.scratch)?;
    let places = places(tester, &all, shares, options);
    let expected: Vec<K> = places.iter().map(|place| all[*place]).collect();
    tester.compare("sort: pairs", case::<K>(shares, keys, options), &found, &expected)?;
    let expected: Vec<V> = places.iter().map(|place| values[*place]).collect();
    tester.compare("sort: pairs", case::<V>(shares, keys, options), &found_values, &expected)
}

/// The places in the input of what this rank should get.
fn places<K: Ordered>(
    tester: &Tester<'_>,
    all: &[K],
    shares: &Shares,
    options: Options,
) -> Vec<usize> {
    let places = reference::sort::places(all, Ordered::order, options.is_descending());
    let after = match options.keeps_shares() {
        true => shares.clone(),
        false => Shares::even(all.len(), tester.ranks.size()),
    };
    tester.share(&places, &after).to_vec()
}

fn case<T>(shares: &Shares, keys: Keys, options: Options) -> String {
    let name = std::any::type_name::<T>();
    format!("{keys:?} {name} in shares of {:?}, {options:?}", shares.lens())
}
