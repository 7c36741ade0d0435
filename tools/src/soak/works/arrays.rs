//! Operations on arrays in memory of the pool.

use ferrowarp::Stream;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::sort::{SortOptions, sort};
use ferrowarp::ops::{self, histogram, reduce, scan};

use super::super::error::SoakError;
use super::super::random::Random;
use super::super::site::Site;

/// Elements at most: a sum of whole numbers below 128 stays exact in f32.
const MOST: usize = 20_000;

pub(super) fn run(site: &Site, random: &mut Random) -> Result<(), SoakError> {
    let operation = [updated, sorted, scanned, summed, counted][random.below(5)];
    site.on_a_stream(random, |stream, random| operation(site, stream, random))
}

fn updated(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let (n, alpha) = (random.len(MOST), random.below(9) as f32);
    let (x, y) = (random.wholes(n), random.wholes(n));
    let on_x = DeviceBuffer::from_slice_in(&site.memory, on, &x)?;
    let mut on_y = DeviceBuffer::from_slice_in(&site.memory, on, &y)?;
    ops::saxpy(on, alpha, &on_x, &mut on_y)?;
    site.counts.same("saxpy", &on_y.to_vec()?, &reference::saxpy::saxpy(alpha, &x, &y))
}

fn sorted(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST / 4);
    let mut keys = random.words(n);
    let on_keys = DeviceBuffer::from_slice_in(&site.memory, on, &keys)?;
    let found = sort(on, &on_keys, SortOptions::ASCENDING)?.to_vec()?;
    keys.sort_unstable();
    site.counts.same("sort", &found, &keys)
}

fn scanned(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let x = random.words(n);
    let on_x = DeviceBuffer::from_slice_in(&site.memory, on, &x)?;
    let found = scan::inclusive(on, &on_x)?.to_vec()?;
    let mut sum = 0u32;
    let expected: Vec<u32> = x
        .iter()
        .map(|x| {
            sum = sum.wrapping_add(*x);
            sum
        })
        .collect();
    site.counts.same("scan", &found, &expected)
}

fn summed(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let x = random.wholes(n);
    let on_x = DeviceBuffer::from_slice_in(&site.memory, on, &x)?;
    let found = f64::from(reduce::sum(on, &on_x)?);
    site.counts.same("sum", &[found], &[reference::reduce::sum_f32(&x)])
}

fn counted(site: &Site, on: &Stream, random: &mut Random) -> Result<(), SoakError> {
    let n = random.len(MOST);
    let bytes: Vec<u8> = random.words(n).iter().map(|word| *word as u8).collect();
    let on_bytes = DeviceBuffer::from_slice_in(&site.memory, on, &bytes)?;
    let found = histogram::histogram(on, &on_bytes)?.to_vec()?;
    let found: Vec<u64> = found.into_iter().map(u64::from).collect();
    site.counts.same("histogram", &found, &reference::histogram::histogram(&bytes))
}
