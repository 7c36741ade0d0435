//! Operations that reduce: all types, all reductions.

use cuda_std::half::{bf16, f16};
use ferrowarp::DeviceBuffer;

use super::samples::{Number, reduced, sample, share};
use super::tester::Tester;
use crate::element::Reduction;
use crate::error::DistResult;

/// Elements of each rank: none, one, about a warp, more than a block.
const SIZES: [usize; 4] = [0, 1, 33, 1025];

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    of_type::<i8>(tester)?;
    of_type::<u8>(tester)?;
    of_type::<i32>(tester)?;
    of_type::<u32>(tester)?;
    of_type::<i64>(tester)?;
    of_type::<u64>(tester)?;
    of_type::<f16>(tester)?;
    of_type::<bf16>(tester)?;
    of_type::<f32>(tester)?;
    of_type::<f64>(tester)
}

fn of_type<T: Number>(tester: &mut Tester<'_>) -> DistResult<()> {
    for reduction in Reduction::ALL {
        for len in SIZES {
            all_reduce::<T>(tester, reduction, len)?;
        }
        reduce::<T>(tester, reduction)?;
        scatter::<T>(tester, reduction)?;
    }
    Ok(())
}

/// What this rank gives.
fn given<T: Number>(
    tester: &Tester<'_>,
    how: Reduction,
    len: usize,
) -> DistResult<DeviceBuffer<T>> {
    let (rank, ranks) = (tester.ranks.rank(), tester.ranks.size());
    let values: Vec<T> =
        (0..len).map(|index| T::of(sample::<T>(how, rank, index, ranks))).collect();
    Ok(DeviceBuffer::from_slice(tester.ranks.gpu(), &values)?)
}

/// A result that is wrong until it is written.
fn poisoned<T: Number>(tester: &Tester<'_>, len: usize) -> DistResult<DeviceBuffer<T>> {
    Ok(DeviceBuffer::from_slice(tester.ranks.gpu(), &vec![T::of(99); len])?)
}

/// How far an average may be from the exact one: each rank's term may be rounded when it is divided, and each sum of two.
/// All is exact but averages.
fn tolerance<T: Number>(how: Reduction, ranks: u32) -> f64 {
    let largest = f64::from(ranks) + 8.0;
    if how == Reduction::Average { T::EPSILON * f64::from(ranks + 1) * largest } else { 0.0 }
}

fn all_reduce<T: Number>(tester: &mut Tester<'_>, how: Reduction, len: usize) -> DistResult<()> {
    let (ranks, stream) = (tester.ranks, tester.stream());
    let (size, within) = (ranks.size(), tolerance::<T>(how, ranks.size()));
    let expected = |index| reduced::<T>(how, index, size);
    let mut own = given::<T>(tester, how, len)?;
    let mut all = poisoned::<T>(tester, len)?;
    ranks.all_reduce(stream, &own, &mut all, how)?;
    tester.compare_within("all-reduce", &all, expected, within)?;
    // On another stream than the buffer's, of a part of it.
    if len > 1 {
        let other = ranks.gpu().create_stream()?;
        let first = T::of(sample::<T>(how, ranks.rank(), 0, size));
        ranks.all_reduce_in_place(&other, &mut own.slice_mut(1..), how)?;
        let expected = |index| if index == 0 { first } else { expected(index) };
        return tester.compare_within("all-reduce in place", &own, expected, within);
    }
    ranks.all_reduce_in_place(stream, &mut own, how)?;
    tester.compare_within("all-reduce in place", &own, expected, within)
}

fn reduce<T: Number>(tester: &mut Tester<'_>, how: Reduction) -> DistResult<()> {
    const LEN: usize = 77;
    let (ranks, stream) = (tester.ranks, tester.stream());
    let (size, within) = (ranks.size(), tolerance::<T>(how, ranks.size()));
    let root = size - 1;
    let own = given::<T>(tester, how, LEN)?;
    let mut all = poisoned::<T>(tester, LEN)?;
    ranks.reduce(stream, &own, Some(&mut all), how, root)?;
    let is_root = ranks.rank() == root;
    // Others keep what they have.
    let expected = |index| if is_root { reduced(how, index, size) } else { T::of(99) };
    tester.compare_within("reduce", &all, expected, within)
}

fn scatter<T: Number>(tester: &mut Tester<'_>, how: Reduction) -> DistResult<()> {
    const LEN: usize = 21;
    let (ranks, stream) = (tester.ranks, tester.stream());
    let (size, rank, within) = (ranks.size(), ranks.rank(), tolerance::<T>(how, ranks.size()));
    let own = given::<T>(tester, how, LEN * size as usize)?;
    let mut part = poisoned::<T>(tester, LEN)?;
    ranks.reduce_scatter(stream, &own, &mut part, how)?;
    let expected = |index| reduced(how, LEN * rank as usize + index, size);
    tester.compare_within("reduce-scatter", &part, expected, within)?;

    let shares: Vec<usize> = (0..size).map(|rank| share(rank, 3)).collect();
    let start: usize = shares[..rank as usize].iter().sum();
    let own = given::<T>(tester, how, shares.iter().sum())?;
    let mut part = poisoned::<T>(tester, shares[rank as usize])?;
    ranks.reduce_scatter_uneven(stream, &own, &mut part, &shares, how)?;
    let expected = |index| reduced(how, start + index, size);
    tester.compare_within("reduce-scatter, uneven", &part, expected, within)
}
