//! The table that finds a sample's bin among boundaries.

use cuda_std::vector::Vec2;
use kernels_gpu::histogram::bins::{MAX_BUCKETS, Ranges, Sample};

use super::bins::Countable;

/// Fewest buckets that are tried.
const MIN_BUCKETS: usize = 64;

/// How buckets lie, and what the table says of each.
#[derive(Debug)]
pub(in crate::ops) struct Table {
    pub(super) ranges: Ranges,
    pub(super) entries: Vec<Vec2<u32>>,
    /// The keys of all boundaries but the last: where bins begin.
    pub(super) begins: Vec<u32>,
}

impl Table {
    /// The table for `levels`; `None` unless they are at least two in ascending order, the last above the first, and all
    /// but the last are samples.
    pub(super) fn new<T: Countable>(levels: &[T::Level]) -> Option<Self> {
        let (last, begins) = levels.split_last()?;
        let samples = begins.iter().map(|l| T::sample(*l)).collect::<Option<Vec<T>>>()?;
        let (first, inner) = samples.split_first()?;
        let begins: Vec<u32> = samples.iter().map(|sample| sample.key()).collect();
        let end = T::end_key(*last)?;
        let in_order = begins.is_sorted() && u64::from(*begins.last()?) <= end;
        if !in_order || end <= first.key().into() || u32::try_from(begins.len()).is_err() {
            return None;
        }
        let last = (end - 1 - u64::from(first.key())) as u32;
        // The first level may be at minus infinity, from which there are no distances.
        let origin = samples.iter().copied().find(|l| l.is_origin()).unwrap_or(T::of_word(0, 0));
        let span = T::span(*levels.last()?, origin);
        let whole = Ranges { lower: first.key(), last, origin: origin.to_word(), ..EMPTY };
        let ranges = best(whole, span, inner);
        let entries = entries(&ranges, inner);
        Some(Self { ranges, entries, begins })
    }

    /// The bin of a sample, as the kernel finds it.
    pub(super) fn bin<T: Sample>(&self, sample: T) -> u32 {
        self.ranges.bin(sample, |bucket| self.entries[bucket as usize], &self.begins[1..])
    }

    /// The key of the largest sample that is counted.
    pub(super) fn last_key(&self) -> u32 {
        self.ranges.lower + self.ranges.last
    }
}

/// One bucket.
const EMPTY: Ranges = Ranges {
    lower: 0,
    last: 0,
    origin: 0,
    scale: 0.0,
    shift: Ranges::LINEAR,
    first_bucket: 0,
    last_bucket: 0,
    crowded: 0,
};

/// The fewest buckets that have a boundary each at most; else those whose fullest one has the fewest.
fn best<T: Sample>(whole: Ranges, span: f32, inner: &[T]) -> Ranges {
    let sizes = (0..).map(|k| MIN_BUCKETS << k).take_while(|size| *size <= MAX_BUCKETS);
    let all = sizes.flat_map(|n| [linear(whole, span, n), exponential(whole, span, n, inner)]);
    let mut best = (usize::MAX, whole);
    for ranges in all {
        let crowd = crowd(&ranges, inner);
        if crowd < best.0 {
            best = (crowd, ranges);
        }
        if crowd <= 1 {
            break;
        }
    }
    Ranges { crowded: u32::from(best.0 > 1), ..best.1 }
}

/// Buckets of equal width.
fn linear(whole: Ranges, span: f32, buckets: usize) -> Ranges {
    let scale = buckets as f32 / span;
    let scale = if scale.is_finite() { scale } else { 0.0 };
    Ranges { scale, last_bucket: buckets as u32 - 1, ..whole }
}

/// Buckets of equal bits: their widths double after a fixed number of buckets.
fn exponential<T: Sample>(whole: Ranges, span: f32, buckets: usize, inner: &[T]) -> Ranges {
    let origin = T::of_word(whole.origin, 0);
    let smallest = inner.iter().map(|level| level.above(origin)).filter(|above| *above > 0.0);
    let (low, high) = (smallest.fold(span, f32::min).to_bits(), span.to_bits());
    // The first bucket takes what is below the first boundary's.
    let first = |shift: u32| (low >> shift).saturating_sub(1);
    let fits = |shift: &u32| (high >> shift) - first(*shift) < buckets as u32;
    let shift = (0..Ranges::LINEAR).find(fits).unwrap_or(Ranges::LINEAR - 1);
    Ranges { shift, first_bucket: first(shift), last_bucket: buckets as u32 - 1, ..whole }
}

/// The number of boundaries in the fullest bucket.
fn crowd<T: Sample>(ranges: &Ranges, inner: &[T]) -> usize {
    let same = |a: &T, b: &T| ranges.bucket(*a) == ranges.bucket(*b);
    inner.chunk_by(same).map(<[T]>::len).max().unwrap_or(0)
}

/// For each bucket the number of boundaries in earlier ones, and the key of the next one.
fn entries<T: Sample>(ranges: &Ranges, inner: &[T]) -> Vec<Vec2<u32>> {
    let mut before = 0;
    let mut entry = |bucket| {
        while inner.get(before).is_some_and(|level| ranges.bucket(*level) < bucket) {
            before += 1;
        }
        let next = inner.get(before).map_or(u32::MAX, |level| level.key());
        Vec2::new(before as u32, next)
    };
    (0..=ranges.last_bucket).map(&mut entry).collect()
}
