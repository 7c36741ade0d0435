//! Which bin a sample belongs to.

use bytemuck::{Pod, Zeroable};
use core::ops::Range;
use cuda_std::intrinsics::float2uint_rz;
use cuda_std::vector::Vec2;

/// The bin of a sample that is in none.
pub const NONE: u32 = u32::MAX;
/// Most buckets of [`Ranges`]: what their table takes of shared memory stays below 32 KiB.
pub const MAX_BUCKETS: usize = 4096;

/// A value that can be counted: `u8`, `u16`, `u32` or `f32`.
pub trait Sample: Pod {
    /// What bounds a range of samples: wide enough for one past the largest.
    type Level: Copy + PartialOrd;
    /// Bins of equal width between two levels.
    type Even: Binning<Self> + core::fmt::Debug;
    /// Samples in a word of 32 bits.
    const PER_WORD: usize;

    /// Sample `k` of a word as it lies in memory.
    fn of_word(word: u32, k: usize) -> Self;

    /// The place in the order of all values: `a <= b` exactly if `a.key() <= b.key()`. Zero has one key, whatever
    /// its sign; a NaN's is beyond the infinity of its sign.
    fn key(self) -> u32;

    /// About how far the sample is above `origin`, never less for a larger sample; 0 below it.
    fn above(self, origin: Self) -> f32;
}

macro_rules! integer_sample {
    ($($ty:ty, $per_word:literal;)*) => {$(
        impl Sample for $ty {
            type Level = u64;
            type Even = Even;
            const PER_WORD: usize = $per_word;

            #[inline(always)]
            fn of_word(word: u32, k: usize) -> Self {
                (word >> (k * 8 * size_of::<Self>())) as Self
            }

            #[inline(always)]
            fn key(self) -> u32 {
                u32::from(self)
            }

            #[inline(always)]
            fn above(self, origin: Self) -> f32 {
                u32::from(self.saturating_sub(origin)) as f32
            }
        }
    )*};
}

integer_sample! {
    u8, 4;
    u16, 2;
    u32, 1;
}

impl Sample for f32 {
    type Level = f32;
    type Even = EvenFloats;
    const PER_WORD: usize = 1;

    #[inline(always)]
    fn of_word(word: u32, _: usize) -> Self {
        Self::from_bits(word)
    }

    #[inline(always)]
    fn key(self) -> u32 {
        // -0.0 + 0.0 is 0.0.
        let bits = (self + 0.0).to_bits();
        let flip = ((bits as i32 >> 31) as u32) | 1 << 31;
        bits ^ flip
    }

    #[inline(always)]
    fn above(self, origin: Self) -> f32 {
        // `max` makes 0 of a NaN.
        (self - origin).max(0.0)
    }
}

/// A rule that puts samples into bins. A type of its own, with a rule of its own, makes a histogram of its own.
pub trait Binning<T>: Copy {
    /// The sample's bin, [`NONE`] or any other number past the last bin for a sample that is not counted.
    fn bin(self, sample: T) -> u32;
}

/// Bins of equal width for integers: `⌊(sample - lower) * n_bins / width⌋`, exactly.
///
/// The quotient `n_bins / width` is a whole part and 64 bits behind the point, rounded up: too large by
/// less than 2⁻⁶⁴, which a distance below 2³² makes to less than 2⁻³², and no product with a width of at most 2³²
/// is that close below a whole number without being one. `0..n` in `n` bins are the samples' own numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Even {
    fraction: u64,
    whole: u32,
    lower: u32,
    /// The largest sample that is counted, from `lower`.
    last: u32,
    /// The number of bins.
    pub n_bins: u32,
}

impl Even {
    /// `n_bins` bins from `levels.start` to below `levels.end`; `None` unless the range has a value and ends at
    /// 2³² at most, and there is a bin.
    #[must_use]
    pub fn new(levels: Range<u64>, n_bins: u32) -> Option<Self> {
        let Range { start, end } = levels;
        if start >= end || end > 1 << 32 || n_bins == 0 {
            return None;
        }
        let (width, bins) = (u128::from(end - start), u128::from(n_bins));
        Some(Self {
            fraction: ((bins % width) << 64).div_ceil(width) as u64,
            whole: (bins / width) as u32,
            lower: start as u32,
            last: (end - start - 1) as u32,
            n_bins,
        })
    }
}

impl<T: Sample> Binning<T> for Even {
    #[inline(always)]
    fn bin(self, sample: T) -> u32 {
        let distance = sample.key().wrapping_sub(self.lower);
        let (high, low) = (self.fraction >> 32, self.fraction & 0xffff_ffff);
        let wide = u64::from(distance);
        let behind = (wide * high + ((wide * low) >> 32)) >> 32;
        let bin = distance.wrapping_mul(self.whole).wrapping_add(behind as u32);
        if distance <= self.last { bin } else { NONE }
    }
}

/// Bins of equal width for floats: `⌊(sample - lower) * scale⌋` in f32, with `scale = n_bins / (upper - lower)` rounded to
/// f32, and the last bin for what rounds up to the upper level. Samples below `lower`, at `upper`, above it, and NaN are
/// not counted.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct EvenFloats {
    lower: f32,
    upper: f32,
    scale: f32,
    /// The number of bins.
    pub n_bins: u32,
}

impl EvenFloats {
    /// `n_bins` bins from `levels.start` to below `levels.end`; `None` unless the range has a value, the levels and
    /// their distance are finite, and there is a bin.
    #[must_use]
    pub fn new(levels: Range<f32>, n_bins: u32) -> Option<Self> {
        let Range { start: lower, end: upper } = levels;
        let scale = (f64::from(n_bins) / (f64::from(upper) - f64::from(lower))) as f32;
        let fits = lower < upper && (upper - lower).is_finite() && scale.is_finite() && n_bins > 0;
        fits.then_some(Self { lower, upper, scale, n_bins })
    }
}

impl Binning<f32> for EvenFloats {
    #[inline(always)]
    fn bin(self, sample: f32) -> u32 {
        let place = float2uint_rz((sample - self.lower) * self.scale) as u32;
        let bin = place.min(self.n_bins - 1);
        // Not `&&`: one branch, at the count. A NaN compares as false.
        if (sample >= self.lower) & (sample < self.upper) { bin } else { NONE }
    }
}

/// Where a search among boundaries begins: the range of the samples is cut into buckets, by their distance from
/// an origin or by that distance's exponent and first bits. A table says for each bucket how many inner boundaries
/// lie in earlier buckets, and the key of the next one. So most samples compare with one boundary; where a bucket has
/// several of them, a sample searches among those.
///
/// The bucket of a larger sample is never smaller, so boundaries in earlier buckets are below the sample, and those in
/// later ones above it.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
pub struct Ranges {
    /// Key of the first boundary.
    pub lower: u32,
    /// The key of the largest sample that is counted, from `lower`.
    pub last: u32,
    /// What distances are measured from: a sample as the first in a word.
    pub origin: u32,
    /// Buckets for a distance of 1, where they are of equal width.
    pub scale: f32,
    /// Bits of a distance to drop, or [`LINEAR`](Self::LINEAR).
    pub shift: u32,
    /// What the smallest distance leaves after the shift.
    pub first_bucket: u32,
    /// The last entry of the table.
    pub last_bucket: u32,
    /// 1 if some bucket has more than one boundary, else 0.
    pub crowded: u32,
}

impl Ranges {
    /// The shift of buckets of equal width.
    pub const LINEAR: u32 = 32;

    /// Whether buckets are of equal width, with at most one boundary each.
    #[must_use]
    #[inline(always)]
    pub const fn is_simple(&self) -> bool {
        self.shift == Self::LINEAR && self.crowded == 0
    }

    /// The bucket of a sample.
    #[inline(always)]
    pub fn bucket<T: Sample>(&self, sample: T) -> u32 {
        if self.shift == Self::LINEAR {
            return self.linear_bucket(sample);
        }
        let distance = sample.above(T::of_word(self.origin, 0)).to_bits();
        (distance >> (self.shift & 31)).saturating_sub(self.first_bucket).min(self.last_bucket)
    }

    #[inline(always)]
    fn linear_bucket<T: Sample>(&self, sample: T) -> u32 {
        let distance = sample.above(T::of_word(self.origin, 0));
        (float2uint_rz(distance * self.scale) as u32).min(self.last_bucket)
    }

    /// The bin of a sample. `entry` gives the table's entry of a bucket; `inner: [bins - 1]` are the keys of the
    /// boundaries but the first and the last, in order.
    #[inline(always)]
    pub fn bin<T: Sample>(
        &self,
        sample: T,
        entry: impl Fn(u32) -> Vec2<u32>,
        inner: &[u32],
    ) -> u32 {
        let bucket = self.bucket(sample);
        let before = entry(bucket);
        if self.crowded == 0 {
            return self.bin_in(sample, before, inner.len() as u32);
        }
        let key = sample.key();
        if key.wrapping_sub(self.lower) > self.last {
            return NONE;
        }
        let is_last = bucket == self.last_bucket;
        let end = if is_last { inner.len() as u32 } else { entry(bucket + 1).x };
        let own = inner.get(before.x as usize..end as usize).unwrap_or(&[]);
        before.x + own.partition_point(|level| *level <= key) as u32
    }

    /// [`bin`](Self::bin) where [`is_simple`](Self::is_simple).
    #[inline(always)]
    pub fn simple_bin<T: Sample>(
        &self,
        sample: T,
        entry: impl Fn(u32) -> Vec2<u32>,
        last_bin: u32,
    ) -> u32 {
        self.bin_in(sample, entry(self.linear_bucket(sample)), last_bin)
    }

    /// The bin of a sample whose bucket has one boundary at most.
    #[inline(always)]
    fn bin_in<T: Sample>(&self, sample: T, entry: Vec2<u32>, last_bin: u32) -> u32 {
        let key = sample.key();
        // There is no bin behind the last, whatever the key of a boundary that is not there.
        let bin = (entry.x + u32::from(key >= entry.y)).min(last_bin);
        if key.wrapping_sub(self.lower) <= self.last { bin } else { NONE }
    }
}
