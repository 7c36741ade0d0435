//! Reductions and histograms.

use std::cmp::Ordering;
use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::Instance;
use ferrowarp::ops::histogram::{Bins, Countable};
use ferrowarp::ops::reduce::Element;
use kernels_gpu::reduce::{reduce_extreme, reduce_place, reduce_product, reduce_sum};

use super::tester::Tester;
use crate::error::DistResult;
use crate::ops::{Shares, histogram, reduce};

/// Elements of a rank.
const SIZES: [usize; 7] = [0, 1, 31, 32, 33, 257, 1009];

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    for size in SIZES {
        for shares in tester.splits(size) {
            integers(tester, &shares)?;
            floats(tester, &shares)?;
            histograms(tester, &shares)?;
        }
    }
    Ok(())
}

fn integers(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let words = |tester: &mut Tester<'_>| tester.random.values(shares.total(), |word| word);
    let x = words(tester);
    let narrow: Vec<u32> = x.iter().map(|word| *word as u32).collect();
    let sum = reference::reduce::sum_integers(&narrow) as u32;
    // Odd factors: a product that is not 0.
    let odd: Vec<u32> = narrow.iter().map(|word| word | 1).collect();
    let product = reference::reduce::product_integers(&odd) as u32;
    sums(tester, shares, &narrow, sum)?;
    products(tester, shares, &odd, product)?;
    extremes(tester, shares, &narrow, (u32::MAX, u32::MIN))?;
    let signed: Vec<i32> = narrow.iter().map(|word| *word as i32 >> 28).collect();
    sums(tester, shares, &signed, reference::reduce::sum_i32(&signed))?;
    extremes(tester, shares, &signed, (i32::MAX, i32::MIN))?;
    let sum = reference::reduce::sum_integers(&x) as u64;
    sums(tester, shares, &x, sum)?;
    extremes(tester, shares, &x, (u64::MAX, u64::MIN))?;
    let signed: Vec<i64> = x.iter().map(|word| *word as i64).collect();
    sums(tester, shares, &signed, sum as i64)?;
    extremes(tester, shares, &signed, (i64::MAX, i64::MIN))
}

/// Small whole numbers, of which every type has exact sums in any order; NaN among those of which the extremes are wanted.
fn floats(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let small = tester.random.values(shares.total(), |word| (word % 9) as f64 - 4.0);
    let sum = reference::reduce::sum(small.iter().copied()) + 0.0;
    let f32s: Vec<f32> = small.iter().map(|x| *x as f32).collect();
    sums(tester, shares, &small, sum)?;
    sums(tester, shares, &f32s, sum as f32)?;
    sums(tester, shares, &small.iter().map(|x| f16::from_f64(*x)).collect::<Vec<_>>(), sum as f32)?;
    sums(
        tester,
        shares,
        &small.iter().map(|x| bf16::from_f64(*x)).collect::<Vec<_>>(),
        sum as f32,
    )?;
    let twos: Vec<f64> = small.iter().map(|x| if *x > 0.0 { 2.0 } else { -1.0 }).collect();
    let product = twos.iter().take(100).product::<f64>();
    let twos: Vec<f64> =
        twos.iter().enumerate().map(|(at, x)| if at < 100 { *x } else { 1.0 }).collect();
    products(tester, shares, &twos, product)?;
    // 0 is left out: of zeros of both signs the kernels choose by the sign.
    let value =
        |word: u64| if word.is_multiple_of(5) { f64::NAN } else { (word >> 40) as f64 - 8e6 + 0.5 };
    let mixed = tester.random.values(shares.total(), value);
    extremes(tester, shares, &mixed, (f64::INFINITY, f64::NEG_INFINITY))?;
    let mixed: Vec<f32> = mixed.iter().map(|x| *x as f32).collect();
    extremes(tester, shares, &mixed, (f32::INFINITY, f32::NEG_INFINITY))?;
    rounded_sums(tester, shares)
}

/// Sums that round: within the error of any order of additions, with the same bits on all ranks and in each run.
fn rounded_sums(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let x = tester.random.values(shares.total(), |word| word as i32 as f32 * 1e-9);
    let (own, gpu) = (tester.upload(&x, shares)?, tester.gpu());
    let first = reduce::sum(tester.ranks, gpu, &own, &mut tester.scratch)?;
    let again = reduce::sum(tester.ranks, gpu, &own, &mut tester.scratch)?;
    let of_all = tester.ranks.all_gather_host(gpu, &[first])?;
    let mut expected = vec![first; of_all.len()];
    // n additions, each with a relative error of half an ULP, of sums not larger than that of the magnitudes.
    let bound = x.len() as f64 * f64::from(f32::EPSILON) * reference::reduce::sum_of_magnitudes(&x);
    if (f64::from(first) - reference::reduce::sum_f32(&x)).abs() > bound
        || again.to_bits() != first.to_bits()
    {
        expected[0] = f32::NAN;
    }
    tester.compare_host("reduce: sum", "rounded", &of_all, &expected);
    Ok(())
}

fn sums<T: Element + Debug>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    all: &[T],
    expected: T::Total,
) -> DistResult<()>
where
    T::Total: Element<Total = T::Total> + Debug,
    reduce_sum<T::Number>: Instance,
    reduce_sum<<T::Total as Element>::Number>: Instance,
{
    let own = tester.upload(all, shares)?;
    let found = reduce::sum(tester.ranks, tester.gpu(), &own, &mut tester.scratch)?;
    tester.compare_host("reduce: sum", case::<T>(shares), &[found], &[expected]);
    Ok(())
}

fn products<T: Element + Debug>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    all: &[T],
    expected: T,
) -> DistResult<()>
where
    reduce_product<T::Number>: Instance,
{
    let own = tester.upload(all, shares)?;
    let found = reduce::product(tester.ranks, tester.gpu(), &own, &mut tester.scratch)?;
    tester.compare_host("reduce: product", case::<T>(shares), &[found], &[expected]);
    Ok(())
}

/// Extremes and their indices. `of_none`: the smallest and the largest of no elements.
fn extremes<T: Element + Debug + PartialOrd>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    all: &[T],
    of_none: (T, T),
) -> DistResult<()>
where
    reduce_extreme<T::Ordered>: Instance,
    reduce_place<T::Ordered>: Instance,
{
    let (own, gpu, ranks) = (tester.upload(all, shares)?, tester.gpu(), tester.ranks);
    let order = |a: T, b: T| a.partial_cmp(&b);
    let least = reference::reduce::first_place(all, order);
    let greatest = reference::reduce::first_place(all, |a, b| order(a, b).map(Ordering::reverse));
    let value = |place: Option<usize>, of_none| place.map_or(of_none, |place| all[place]);
    let found = [
        reduce::min(ranks, gpu, &own, &mut tester.scratch)?,
        reduce::max(ranks, gpu, &own, &mut tester.scratch)?,
    ];
    let expected = [value(least, of_none.0), value(greatest, of_none.1)];
    tester.compare_host("reduce: min, max", case::<T>(shares), &found, &expected);
    let found = [reduce::argmin(ranks, gpu, &own)?, reduce::argmax(ranks, gpu, &own)?];
    let index = |place: Option<u64>| place.unwrap_or(u64::MAX);
    let expected = [least, greatest].map(|place| index(place.map(|place| place as u64)));
    tester.compare_host("reduce: argmin, argmax", case::<T>(shares), &found.map(index), &expected);
    Ok(())
}

fn histograms(tester: &mut Tester<'_>, shares: &Shares) -> DistResult<()> {
    let (gpu, n) = (tester.gpu(), shares.total());
    let bytes = tester.random.values(n, |word| word as u8 & 0x9f);
    counts(
        tester,
        shares,
        &bytes,
        &Bins::given(gpu, 256)?,
        &reference::histogram::histogram(&bytes),
    )?;
    let levels = [0.0f32, 0.1, 0.5, 0.5, 0.75, 2.0];
    let value =
        |word: u64| if word.is_multiple_of(7) { f32::NAN } else { (word >> 44) as f32 / 400_000.0 };
    let samples = tester.random.values(n, value);
    let expected = reference::histogram::ranges(&samples, &levels);
    counts(tester, shares, &samples, &Bins::ranges(gpu, &levels)?, &expected)?;
    let expected = reference::histogram::even_floats(&samples, 0.25..2.0, 100);
    counts(tester, shares, &samples, &Bins::even(gpu, 0.25..2.0, 100)?, &expected)
}

fn counts<T: Countable + Pod>(
    tester: &mut Tester<'_>,
    shares: &Shares,
    all: &[T],
    bins: &Bins<T>,
    expected: &[u64],
) -> DistResult<()> {
    let (own, gpu) = (tester.upload(all, shares)?, tester.gpu());
    let found = histogram::totals(tester.ranks, gpu, &own, bins)?;
    tester.compare_host("histogram", case::<T>(shares), &found, expected);
    let found = histogram::count(tester.ranks, gpu, &own, bins)?;
    let expected: Vec<u32> = expected.iter().map(|count| *count as u32).collect();
    tester.compare("histogram", case::<T>(shares), &found, &expected)
}

fn case<T>(shares: &Shares) -> String {
    format!("{} in shares of {:?}", std::any::type_name::<T>(), shares.lens())
}
