//! Histograms, beside CUB's and PyTorch's.

use crate::bench::check::Fault;
use crate::bench::{Case, Random, Scale, check, data, rig};
use ferrowarp::Gpu;
use ferrowarp::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::histogram::{self, Bins, Countable};

/// Values of the bins' `u32` samples.
const GIVEN: u32 = 2000;

pub(super) fn cases(scale: &Scale) -> Vec<Case> {
    let mut cases: Vec<Case> = scale.ladder().into_iter().map(bytes).collect();
    for n in scale.lens() {
        cases.push(even::<u16>(n, |gpu| Bins::even(gpu, 0..1 << 16, 1000)));
        cases.push(even::<u32>(n, |gpu| Bins::even(gpu, 0..1 << 32, 5000)));
        cases.push(even::<f32>(n, |gpu| Bins::even(gpu, -0.5..0.5, 256)));
        cases.push(ranges("range", n, jittered));
        cases.push(ranges("range-squares", n, squares));
        cases.push(given(n));
        cases.push(same(n));
        cases.push(plain(n));
    }
    cases
}

/// 257 levels in -0.5..=0.5 at nearly equal distances.
fn jittered(k: u32) -> f32 {
    let jitter = if k.is_multiple_of(2) { 0.0 } else { 0.3 };
    (k as f32 + jitter) / 256.0 - 0.5
}

/// 257 levels in -0.5..=0.5 that are dense at the lower end.
fn squares(k: u32) -> f32 {
    (k as f32 / 256.0).powi(2) - 0.5
}

/// A case whose samples are all in some bin, and whose counts are `expected`, where it is worth the time to know them.
fn case<T: Countable + Random>(
    form: &'static str,
    n: usize,
    bins: impl Fn(&Gpu) -> GpuResult<Bins<T>> + 'static,
    samples: impl Fn(&Gpu, u32) -> GpuResult<DeviceBuffer<T>> + 'static,
    expected: impl Fn(&[T]) -> Option<Vec<u64>> + Copy + 'static,
) -> Case {
    Case::new(["histogram", form, T::NAME], [n], n * size_of::<T>(), move |gpu, seed| {
        let bins = bins(gpu)?;
        let counts = data::poisoned::<u32>(gpu, bins.len())?;
        rig(
            (samples(gpu, seed)?, bins, counts),
            |(_, _, counts), _| data::poison(counts),
            |(x, bins, counts), gpu| histogram::count_into(gpu, x, bins, counts),
            move |(x, _, counts), _| {
                let counts: Vec<u64> = counts.to_vec()?.into_iter().map(u64::from).collect();
                check::near("number of counts", counts.iter().sum::<u64>() as f64, n as f64, 0.0)?;
                let expected = if n <= 1 << 20 { expected(&x.to_vec()?) } else { None };
                expected.map_or(Ok(()), |expected| same_counts(&counts, &expected))
            },
        )
    })
}

fn same_counts(found: &[u64], expected: &[u64]) -> Result<(), Fault> {
    match found.iter().zip(expected).position(|(found, expected)| found != expected) {
        Some(bin) => Err(check::element(bin, found[bin], expected[bin])),
        None => Ok(()),
    }
}

fn bytes(n: usize) -> Case {
    let bins = |gpu: &Gpu| Bins::even(gpu, 0..256, 256);
    let samples = move |gpu: &Gpu, seed| data::random::<u8>(gpu, n, seed);
    case("even", n, bins, samples, |x| Some(reference::histogram::histogram(x).to_vec())).goal_if(
        n >= 1 << 28,
        "CUB",
        1.8,
    )
}

fn even<T: Countable + Random>(n: usize, bins: fn(&Gpu) -> GpuResult<Bins<T>>) -> Case {
    case("even", n, bins, move |gpu, seed| data::random::<T>(gpu, n, seed), |_| None).goal_if(
        n >= 1 << 28,
        "CUB",
        1.0,
    )
}

fn ranges(form: &'static str, n: usize, level: fn(u32) -> f32) -> Case {
    let levels = move || -> Vec<f32> { (0..=256).map(level).collect() };
    let bins = move |gpu: &Gpu| Bins::ranges(gpu, &levels());
    let samples = move |gpu: &Gpu, seed| data::random::<f32>(gpu, n, seed);
    case(form, n, bins, samples, move |x| Some(reference::histogram::ranges(x, &levels()))).goal_if(
        n >= 1 << 28,
        "CUB",
        2.0,
    )
}

fn given(n: usize) -> Case {
    let bins = |gpu: &Gpu| Bins::given(gpu, GIVEN);
    let samples = move |gpu: &Gpu, seed| data::random_below(gpu, n, seed, GIVEN);
    case::<u32>("given", n, bins, samples, |_| None).goal_if(n >= 1 << 28, "CUB", 1.0)
}

/// All samples in one bin.
fn same(n: usize) -> Case {
    let bins = |gpu: &Gpu| Bins::even(gpu, 0..256, 256);
    case::<u8>("same", n, bins, move |gpu, _| DeviceBuffer::zeroed(gpu, n), |_| None).goal_if(
        n >= 1 << 28,
        "CUB",
        1.0,
    )
}

/// The plain form of bytes, by one addition to shared memory each.
fn plain(n: usize) -> Case {
    Case::new(["histogram", "plain", u8::NAME], [n], n, move |gpu, seed| {
        let state = (data::random::<u8>(gpu, n, seed)?, data::poisoned::<u32>(gpu, 256)?);
        rig(
            state,
            |(_, counts), _| data::poison(counts),
            |(x, counts), gpu| {
                *counts = histogram::histogram_private(gpu, x)?;
                Ok(())
            },
            move |(_, counts), _| {
                let sum: u64 = counts.to_vec()?.into_iter().map(u64::from).sum();
                check::near("number of counts", sum as f64, n as f64, 0.0)
            },
        )
    })
}
