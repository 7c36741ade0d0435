//! Operations that move data.

use bytemuck::{Pod, Zeroable};
use ferrowarp::DeviceBuffer;

use super::samples::{moved, share};
use super::tester::Tester;
use crate::element::Reduction;
use crate::error::DistResult;

/// Elements of each rank.
const SIZES: [usize; 3] = [0, 1, 515];
/// What uneven shares are multiplied with: all empty, small, larger.
const SCALES: [usize; 3] = [0, 1, 97];

pub(super) fn run(tester: &mut Tester<'_>) -> DistResult<()> {
    for len in SIZES {
        broadcast(tester, len)?;
        all_gather(tester, len)?;
        gather_and_scatter(tester, len)?;
        all_to_all(tester, len)?;
        ring(tester, len)?;
    }
    for scale in SCALES {
        all_gather_uneven(tester, scale)?;
        gather_and_scatter_uneven(tester, scale)?;
        all_to_all_uneven(tester, scale)?;
    }
    structures(tester)?;
    split(tester)?;
    waits(tester)
}

fn shares(tester: &Tester<'_>, scale: usize) -> Vec<usize> {
    (0..tester.ranks.size()).map(|rank| share(rank, scale)).collect()
}

/// The rank whose part an index is in, and the index there.
fn in_part(shares: &[usize], index: usize) -> (u32, usize) {
    let mut left = index;
    for (rank, share) in shares.iter().enumerate() {
        if left < *share {
            return (rank as u32, left);
        }
        left -= share;
    }
    unreachable!("the index is in one of the parts")
}

fn broadcast(tester: &mut Tester<'_>, len: usize) -> DistResult<()> {
    let ranks = tester.ranks;
    for root in [0, ranks.size() - 1] {
        let mut values = tester.own(len)?;
        ranks.broadcast(tester.stream(), &mut values, root)?;
        tester.compare("broadcast", &values, |index| moved(root, index))?;
    }
    Ok(())
}

fn all_gather(tester: &mut Tester<'_>, len: usize) -> DistResult<()> {
    let ranks = tester.ranks;
    let own = tester.own(len)?;
    let mut all = tester.poisoned(len * ranks.size() as usize)?;
    ranks.all_gather(tester.stream(), &own, &mut all)?;
    tester.compare("all-gather", &all, |index| moved((index / len) as u32, index % len))
}

fn all_gather_uneven(tester: &mut Tester<'_>, scale: usize) -> DistResult<()> {
    let (ranks, shares) = (tester.ranks, shares(tester, scale));
    let own = tester.own(shares[ranks.rank() as usize])?;
    let mut all = tester.poisoned(shares.iter().sum())?;
    ranks.all_gather_uneven(tester.stream(), &own, &mut all, &shares)?;
    let expected = |index| {
        let (rank, at) = in_part(&shares, index);
        moved(rank, at)
    };
    tester.compare("all-gather, uneven", &all, expected)
}

fn gather_and_scatter(tester: &mut Tester<'_>, len: usize) -> DistResult<()> {
    let (ranks, stream) = (tester.ranks, tester.stream());
    let (size, root) = (ranks.size() as usize, ranks.size() / 2);
    let is_root = ranks.rank() == root;
    let own = tester.own(len)?;
    let mut all = tester.poisoned(if is_root { len * size } else { 0 })?;
    ranks.gather(stream, &own, Some(&mut all), root)?;
    tester.compare("gather", &all, |index| moved((index / len) as u32, index % len))?;

    let all = tester.own(len * size)?;
    let mut part = tester.poisoned(len)?;
    ranks.scatter(stream, is_root.then_some(&all as _), &mut part, root)?;
    let start = len * ranks.rank() as usize;
    tester.compare("scatter", &part, |index| moved(root, start + index))
}

fn gather_and_scatter_uneven(tester: &mut Tester<'_>, scale: usize) -> DistResult<()> {
    let (ranks, stream, shares) = (tester.ranks, tester.stream(), shares(tester, scale));
    let (rank, total) = (ranks.rank() as usize, shares.iter().sum());
    let root = ranks.size() - 1;
    let is_root = ranks.rank() == root;
    let own = tester.own(shares[rank])?;
    let mut all = tester.poisoned(if is_root { total } else { 0 })?;
    let to = if is_root { Some(&mut all as _) } else { None };
    ranks.gather_uneven(stream, &own, to, &shares, root)?;
    let expected = |index| {
        let (rank, at) = in_part(&shares, index);
        moved(rank, at)
    };
    tester.compare("gather, uneven", &all, expected)?;

    let all = tester.own(total)?;
    let mut part = tester.poisoned(shares[rank])?;
    ranks.scatter_uneven(stream, Some(&all), &mut part, &shares, root)?;
    let start: usize = shares[..rank].iter().sum();
    tester.compare("scatter, uneven", &part, |index| moved(root, start + index))
}

fn all_to_all(tester: &mut Tester<'_>, len: usize) -> DistResult<()> {
    let ranks = tester.ranks;
    let own = tester.own(len * ranks.size() as usize)?;
    let mut all = tester.poisoned(own.len())?;
    ranks.all_to_all(tester.stream(), &own, &mut all)?;
    let start = len * ranks.rank() as usize;
    let expected = |index: usize| moved((index / len) as u32, start + index % len);
    tester.compare("all-to-all", &all, expected)
}

/// Each pair of ranks has a length of its own, in each direction, and some have none.
fn all_to_all_uneven(tester: &mut Tester<'_>, scale: usize) -> DistResult<()> {
    let ranks = tester.ranks;
    let (rank, size) = (ranks.rank(), ranks.size());
    let len = |from: u32, to: u32| share(from * 3 + to * 5, scale);
    let sent: Vec<_> = (0..size).map(|to| len(rank, to)).collect();
    let received: Vec<_> = (0..size).map(|from| len(from, rank)).collect();
    let own = tester.own(sent.iter().sum())?;
    let mut all = tester.poisoned(received.iter().sum())?;
    ranks.all_to_all_uneven(tester.stream(), &own, &sent, &mut all, &received)?;
    let expected = |index| {
        let (from, at) = in_part(&received, index);
        let start: usize = (0..rank).map(|to| len(from, to)).sum();
        moved(from, start + at)
    };
    tester.compare("all-to-all, uneven", &all, expected)
}

/// To the right and to the left at once, as one group.
fn ring(tester: &mut Tester<'_>, len: usize) -> DistResult<()> {
    let ranks = tester.ranks;
    let (rank, size) = (ranks.rank(), ranks.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let own = tester.own(len)?;
    let (mut of_left, mut of_right) = (tester.poisoned(len)?, tester.poisoned(len)?);
    let group = ranks.group().send(&own, right)?.receive(&mut of_left, left)?;
    group.send(&own, left)?.receive(&mut of_right, right)?.enqueue(tester.stream())?;
    tester.compare("send and receive", &of_left, |index| moved(left, index))?;
    tester.compare("send and receive", &of_right, |index| moved(right, index))
}

/// A structure of 12 bytes, which no backend has a type for.
#[derive(Clone, Copy, Debug, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Particle {
    place: [f32; 2],
    number: u32,
}

fn structures(tester: &mut Tester<'_>) -> DistResult<()> {
    const LEN: usize = 45;
    let (ranks, gpu) = (tester.ranks, tester.ranks.gpu());
    let of = |rank: u32, index: usize| Particle {
        place: [index as f32, rank as f32],
        number: rank * 1000 + index as u32,
    };
    let own: Vec<_> = (0..LEN).map(|index| of(ranks.rank(), index)).collect();
    let own = DeviceBuffer::from_slice(gpu, &own)?;
    let mut all = DeviceBuffer::zeroed(gpu, LEN * ranks.size() as usize)?;
    ranks.all_gather(gpu, &own, &mut all)?;
    let found = all.to_vec()?;
    let differs =
        |(index, found): (usize, &Particle)| *found != of((index / LEN) as u32, index % LEN);
    let wrong = found.iter().enumerate().filter(|own| differs(*own)).count();
    tester.count("structures", found.len(), wrong);
    Ok(())
}

/// Even and odd ranks apart, in reverse order; the last one with none.
fn split(tester: &mut Tester<'_>) -> DistResult<()> {
    const LEN: usize = 9;
    let ranks = tester.ranks;
    let (rank, size) = (ranks.rank(), ranks.size());
    let is_in = |rank: u32| size == 1 || rank + 1 < size;
    let colour = is_in(rank).then_some(rank % 2);
    let Some(some) = ranks.split(colour, -(rank as i32))? else {
        tester.count("split", 1, usize::from(is_in(rank)));
        return Ok(());
    };
    let members: Vec<u32> =
        (0..size).rev().filter(|own| is_in(*own) && own % 2 == rank % 2).collect();
    tester.count("split", 1, usize::from(some.members() != members));
    let own = tester.own(LEN)?;
    let mut all = tester.poisoned(LEN * members.len())?;
    some.all_gather(tester.stream(), &own, &mut all)?;
    tester.compare("split", &all, |index| moved(members[index / LEN], index % LEN))?;
    let mut sum = tester.words(LEN, |_| u64::from(rank))?;
    some.all_reduce_in_place(tester.stream(), &mut sum, Reduction::Sum)?;
    let expected: u64 = members.iter().map(|rank| u64::from(*rank)).sum();
    tester.compare("split", &sum, |_| expected)?;
    some.synchronize(tester.stream())
}

fn waits(tester: &mut Tester<'_>) -> DistResult<()> {
    let ranks = tester.ranks;
    ranks.barrier(tester.stream())?;
    let all = ranks.all_gather_host(tester.stream(), &[u64::from(ranks.rank()), 7])?;
    let expected: Vec<u64> = (0..ranks.size()).flat_map(|rank| [u64::from(rank), 7]).collect();
    tester.count("values of the host", all.len(), usize::from(all != expected));
    Ok(())
}
