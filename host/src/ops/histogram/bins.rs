//! The bins of a histogram: which samples each takes, prepared on the device.

use std::ops::Range;

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance};
use kernels_gpu::histogram::bins::{Binning, Even, EvenFloats, Sample};
use kernels_gpu::histogram::shared::{histogram_bytes, histogram_ranges, histogram_shared};
use kernels_gpu::histogram::{histogram_global, histogram_search};

use super::table::Table;
use super::{blocks, shared_grid, strided};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::sealed::Sealed;
use crate::ops::views::As;
use crate::stream::{AsStream, Stream};

/// Bins for samples of `T`: `u8`, `u16`, `u32` or `f32`. Made once, used for any number of histograms.
///
/// Up to about 57,000 are counted in shared memory, the fast way (the exact number is the device's); with more, each sample is
/// an addition to global memory. Bytes are always counted the fast way.
#[derive(Debug)]
pub struct Bins<T: Countable> {
    rule: Rule<T>,
    /// Of bytes: the bin of each value.
    map: Option<DeviceBuffer<u32>>,
    n_bins: u32,
}

#[derive(Debug)]
enum Rule<T: Countable> {
    Even(T::Even),
    Ranges(Box<Boundaries>),
}

/// The rule of bins, for samples on the host.
pub(in crate::ops) enum HostRule<'a, T: Countable> {
    Even(T::Even),
    Ranges(&'a Table),
}

impl<T: Countable> HostRule<'_, T> {
    /// The sample's bin, as the kernels find it; a number past the last bin for a sample that is not counted.
    pub(in crate::ops) fn bin(&self, sample: T) -> u32 {
        match self {
            Self::Even(even) => even.bin(sample),
            Self::Ranges(table) => table.bin(sample),
        }
    }
}

/// Bins between boundaries, on the device.
#[derive(Debug)]
struct Boundaries {
    table: Table,
    entries: DeviceBuffer<cuda_std::vector::Vec2<u32>>,
    begins: DeviceBuffer<u32>,
}

impl<T: Countable> Bins<T> {
    /// `n_bins` bins of equal width that cover `levels`: bin `b` begins at `start + b * width / n_bins`. Integers are
    /// divided exactly, and their end may be one past the type's largest value, as in `0..256` for bytes; how
    /// floats are rounded says [`EvenFloats`](kernels_gpu::histogram::bins::EvenFloats).
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for no bins, or levels that are empty or not finite, or past
    /// 2³²; errors of the driver.
    pub fn even(on: &impl AsStream, levels: Range<T::Level>, n_bins: u32) -> GpuResult<Self> {
        let even = T::even(levels, n_bins).ok_or_else(|| {
            invalid(
                "there has to be a bin, and the upper level has to be above the lower one, \
                 both finite",
            )
        })?;
        let map = byte_map(on, |sample| even.bin(sample))?;
        Ok(Self { rule: Rule::Even(even), map, n_bins })
    }

    /// Bins between neighbours of `levels: [bins + 1]`, which are in ascending order; between equal ones lies an empty bin. Bin
    /// `b` takes the samples from `levels[b]` to below `levels[b + 1]`. The last level of integers may be one past the
    /// type's largest value; levels of floats may be infinite.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for fewer than two levels, for levels out of order, NaN, or other
    /// than the type's values, or if the last level is not above the first; errors of the driver.
    pub fn ranges(on: &impl AsStream, levels: &[T::Level]) -> GpuResult<Self> {
        let table = Table::new::<T>(levels).ok_or_else(|| {
            invalid(
                "there have to be two levels or more, values of the samples' type in ascending \
                 order",
            )
        })?;
        let map = byte_map(on, |sample: T| table.bin(sample))?;
        let n_bins = table.begins.len() as u32;
        let boundaries = Boundaries {
            entries: DeviceBuffer::from_slice(on, &table.entries)?,
            begins: DeviceBuffer::from_slice(on, &table.begins)?,
            table,
        };
        Ok(Self { rule: Rule::Ranges(Box::new(boundaries)), map, n_bins })
    }

    /// The number of bins.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n_bins as usize
    }

    /// Whether there are no bins: never.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n_bins == 0
    }

    /// The rule alone, for samples on the host.
    pub(in crate::ops) fn rule(&self) -> HostRule<'_, T> {
        match &self.rule {
            Rule::Even(even) => HostRule::Even(*even),
            Rule::Ranges(boundaries) => HostRule::Ranges(&boundaries.table),
        }
    }

    /// Blocks and shared memory of the fast kernel, or `None` if the bins do not fit.
    fn grid(&self, stream: &Stream, n_samples: usize) -> Option<Grid1> {
        let buckets = match &self.rule {
            Rule::Even(_) => 0,
            Rule::Ranges(boundaries) => boundaries.entries.len(),
        };
        shared_grid::<T>(stream, n_samples, self.len(), buckets)
    }
}

impl<T: Countable<Level = u64>> Bins<T> {
    /// `n_bins` bins of which a sample is the number: for `u8`, `u16` and `u32`.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) for no bins; errors of the driver.
    pub fn given(on: &impl AsStream, n_bins: u32) -> GpuResult<Self> {
        Self::even(on, 0..u64::from(n_bins), n_bins)
    }
}

fn invalid(reason: &str) -> GpuError {
    GpuError::InvalidArgument {
        operation: "making the bins of a histogram",
        reason: reason.to_owned(),
    }
}

/// The bin of each of the 256 values, where samples are bytes: these are counted by value.
fn byte_map<T: Sample>(
    on: &impl AsStream,
    bin: impl Fn(T) -> u32,
) -> GpuResult<Option<DeviceBuffer<u32>>> {
    if size_of::<T>() > 1 {
        return Ok(None);
    }
    let map: Vec<u32> = (0..=u8::MAX).map(|byte| bin(T::of_word(byte.into(), 0))).collect();
    DeviceBuffer::from_slice(on, &map).map(Some)
}

/// What can be counted: `u8`, `u16`, `u32` and `f32`.
#[diagnostic::on_unimplemented(
    message = "the kernels `histogram_shared` and `histogram_global` have no instance for samples of `{Self}`",
    note = "they have instances for `u8`, `u16`, `u32` and `f32`"
)]
pub trait Countable: Sample<Even: Sync> + Sync + Sealed {
    /// Bins of equal width, if the levels have them.
    #[doc(hidden)]
    fn even(levels: Range<Self::Level>, n_bins: u32) -> Option<Self::Even>;

    /// The sample of a level, if it is one.
    #[doc(hidden)]
    fn sample(level: Self::Level) -> Option<Self>;

    /// The key of an upper level, which may be past the last sample.
    #[doc(hidden)]
    fn end_key(level: Self::Level) -> Option<u64>;

    /// The sample as the first one in a word.
    #[doc(hidden)]
    fn to_word(self) -> u32;

    /// Whether distances from the sample are numbers.
    #[doc(hidden)]
    fn is_origin(self) -> bool;

    /// The largest distance from `origin` below a level.
    #[doc(hidden)]
    fn span(level: Self::Level, origin: Self) -> f32;

    /// Counts by the fastest kernel for the samples and the bins.
    #[doc(hidden)]
    fn add(
        stream: &Stream,
        samples: &impl DeviceRead<Self>,
        bins: &Bins<Self>,
        out: &mut impl DeviceWrite<u32>,
    ) -> GpuResult<()>;
}

/// Counts by one addition to global memory for each sample.
pub(super) fn add_globally<T: Countable>(
    stream: &Stream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()>
where
    histogram_global<T, T::Even>: Instance,
    histogram_search<T>: Instance,
{
    let grid = strided(samples.len());
    match &bins.rule {
        Rule::Even(even) => {
            histogram_global::<T, T::Even>::launch(stream, grid, samples, *even, out)
        }
        Rule::Ranges(boundaries) => {
            let Boundaries { table, begins, .. } = &**boundaries;
            histogram_search::<T>::launch(stream, grid, samples, begins, table.last_key(), out)
        }
    }
}

/// Counts in shared memory, where the bins fit.
fn add_by_bins<T: Countable>(
    stream: &Stream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()>
where
    histogram_shared<T, T::Even>: Instance,
    histogram_ranges<T>: Instance,
    histogram_global<T, T::Even>: Instance,
    histogram_search<T>: Instance,
{
    let Some(grid) = bins.grid(stream, samples.len()) else {
        return add_globally(stream, samples, bins, out);
    };
    match &bins.rule {
        Rule::Even(even) => {
            histogram_shared::<T, T::Even>::launch(stream, grid, samples, *even, out)
        }
        Rule::Ranges(boundaries) => {
            let Boundaries { table, entries, begins } = &**boundaries;
            let (inner, ranges) = (begins.slice(1..), table.ranges);
            histogram_ranges::<T>::launch(stream, grid, samples, ranges, entries, &inner, out)
        }
    }
}

/// Counts bytes by value.
fn add_by_value<T: Countable>(
    stream: &Stream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    let map = bins.map.as_ref().expect("the bins of bytes have a map");
    let grid = blocks::<T>(stream, samples.len(), 0);
    histogram_bytes::launch(stream, grid, &As::new(samples), map, out)
}

macro_rules! countable_integers {
    ($($ty:ty: $add:ident;)*) => {$(
        impl Countable for $ty {
            fn even(levels: Range<u64>, n_bins: u32) -> Option<Even> {
                Even::new(levels, n_bins)
            }

            fn sample(level: u64) -> Option<Self> {
                level.try_into().ok()
            }

            fn end_key(level: u64) -> Option<u64> {
                (level <= u64::from(<$ty>::MAX) + 1).then_some(level)
            }

            fn to_word(self) -> u32 {
                self.into()
            }

            fn is_origin(self) -> bool {
                true
            }

            fn span(level: u64, origin: Self) -> f32 {
                level.saturating_sub(1).saturating_sub(origin.into()) as f32
            }

            fn add(
                stream: &Stream,
                samples: &impl DeviceRead<Self>,
                bins: &Bins<Self>,
                out: &mut impl DeviceWrite<u32>,
            ) -> GpuResult<()> {
                $add(stream, samples, bins, out)
            }
        }
    )*};
}

countable_integers! {
    u8: add_by_value;
    u16: add_by_bins;
    u32: add_by_bins;
}

impl Countable for f32 {
    fn even(levels: Range<f32>, n_bins: u32) -> Option<EvenFloats> {
        EvenFloats::new(levels, n_bins)
    }

    fn sample(level: f32) -> Option<Self> {
        (!level.is_nan()).then_some(level)
    }

    fn end_key(level: f32) -> Option<u64> {
        Self::sample(level).map(|level| level.key().into())
    }

    fn to_word(self) -> u32 {
        self.to_bits()
    }

    fn is_origin(self) -> bool {
        self.is_finite()
    }

    fn span(level: f32, origin: Self) -> f32 {
        level.above(origin)
    }

    fn add(
        stream: &Stream,
        samples: &impl DeviceRead<Self>,
        bins: &Bins<Self>,
        out: &mut impl DeviceWrite<u32>,
    ) -> GpuResult<()> {
        add_by_bins(stream, samples, bins, out)
    }
}
