//! Every operation over ranks against plain loops, as real processes, started as those of `collectives`.
//!
//! The seed of the data is printed where a result is wrong; `FERROWARP_SEED` takes it again.

#[path = "collectives/launcher.rs"]
mod launcher;
#[path = "ops/products.rs"]
mod products;
#[path = "collectives/program.rs"]
mod program;
#[path = "domains/samples.rs"]
mod samples;

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use bytemuck::Pod;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::SortValue;
use ferrowarp::{DeviceBuffer, Gpu};
use ferrowarp_dist::ops::{self, Shares, scan, sort, transpose};
use ferrowarp_dist::{Backend, Communicator, DistError, DistResult, World};

fn main() -> ExitCode {
    program::main("ops", check_all)
}

fn check_all(world: &World) -> DistResult<()> {
    let gpu = world.gpu()?;
    let ranks = Communicator::new(world, &gpu)?;
    // Rank 0's seed is that of all.
    let seed = ranks.all_gather_host(&gpu, &[seed()])?[0];
    let checked = ops::self_test(&ranks, seed, &mut |line| eprintln!("{line}"))?;
    assert!(checked.len() >= 10, "{} operations", checked.len());
    assert!(checked.iter().all(|row| row.wrong == 0), "{world}: wrong results, seed {seed}");
    lengths_are_checked(&ranks, &gpu)?;
    products::check(&ranks, seed)?;
    large_transposes(&ranks, &gpu)?;
    large_sorts(&ranks, &gpu, seed)?;
    ranks.barrier(&gpu)?;
    if world.rank() == 0 {
        let (count, size) = (checked.len(), world.size());
        println!("{count} operations are right, ranks: {size}, over {}", ranks.backend());
    }
    Ok(())
}

fn seed() -> u64 {
    let given = std::env::var("FERROWARP_SEED").ok();
    let now =
        || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| now.as_micros() as u64);
    given.map_or_else(now, |seed| seed.parse().expect("FERROWARP_SEED is a number"))
}

/// A length that does not fit is an error on this rank, and nothing is enqueued.
fn lengths_are_checked(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    let ten = DeviceBuffer::from_slice(gpu, &[1u32; 10])?;
    let mut scratch = Scratch::new(gpu)?;
    let each = |len| Shares::given(vec![len; ranks.size() as usize]);
    let refused = |error: Option<DistError>, says: &str| {
        let text = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(says), "{says}: {text}");
    };
    let too_few = scan::inclusive(ranks, gpu, &ten, &each(9), &mut scratch).err();
    refused(too_few, "the share of this rank has 10 elements, and must have 9");
    let shares = Shares::given(vec![10; ranks.size() as usize + 1]);
    let no_rank = scan::inclusive(ranks, gpu, &ten, &shares, &mut scratch).err();
    refused(no_rank, "the list of shares");
    let pairs = (&ten, &ten.slice(1..));
    let pairs = sort::sort_pairs(ranks, gpu, pairs, sort::Options::ASCENDING, &mut scratch).err();
    refused(pairs, "the values of this rank has 9 elements, and must have 10");
    let odd = transpose::transpose(ranks, gpu, &ten, &each(3), &each(1)).err();
    refused(odd, "the rows of this rank has 10 elements");
    Ok(())
}

/// Matrices that are exchanged in chunks: whole tiles and ragged ones, uneven shares, all sizes of elements. They take long where
/// the devices are emulated.
fn large_transposes(ranks: &Communicator, gpu: &Gpu) -> DistResult<()> {
    if !matches!(ranks.backend(), Backend::Nccl { .. }) {
        return Ok(());
    }
    large_transpose(ranks, gpu, (8192, 4096), |i| i as u32)?;
    large_transpose(ranks, gpu, (4099, 5003), |i| (i as u32).wrapping_mul(7))?;
    large_transpose(ranks, gpu, (12_345, 9001), |i| (i ^ (i >> 8) ^ (i >> 16)) as u8)?;
    large_transpose(ranks, gpu, (9000, 6002), |i| (i ^ (i >> 16)) as u16)?;
    large_transpose(ranks, gpu, (70, 300_007), |i| i as u64)
}

fn large_transpose<T: Pod + PartialEq>(
    ranks: &Communicator,
    gpu: &Gpu,
    (height, width): (usize, usize),
    value: impl Fn(usize) -> T,
) -> DistResult<()> {
    // Rank 1 has a little more than the others.
    let uneven = |total: usize| {
        let mut lens = Shares::even(total, ranks.size()).lens().to_vec();
        if let [first, second, ..] = lens.as_mut_slice() {
            let moved = *first / 9;
            (*first, *second) = (*first - moved, *second + moved);
        }
        Shares::given(lens)
    };
    let own = ranks.rank();
    for (rows, columns) in [
        (Shares::even(height, ranks.size()), Shares::even(width, ranks.size())),
        (uneven(height), uneven(width)),
    ] {
        let first = rows.start_of(own) * width;
        let values: Vec<T> = (first..first + rows.len_of(own) * width).map(&value).collect();
        let x = DeviceBuffer::from_slice(gpu, &values)?;
        // Two at once: the second one must not disturb the first.
        let turned = [
            transpose::transpose(ranks, gpu, &x, &rows, &columns)?,
            transpose::transpose(ranks, gpu, &x, &rows, &columns)?,
        ];
        ranks.synchronize(gpu)?;
        for turned in turned {
            let found = turned.to_vec()?;
            assert_eq!(found.len(), columns.len_of(own) * height);
            for (row, column) in found.chunks(height).zip(columns.start_of(own)..) {
                let expected = (0..height).map(|row| value(row * width + column));
                let is_right = row.iter().copied().eq(expected);
                assert!(
                    is_right,
                    "{height} x {width} of {} bytes, column {column}",
                    size_of::<T>()
                );
            }
        }
    }
    Ok(())
}

/// Sorts whose messages have several chunks, of keys that are spread, that share their highest bits, and of which most are equal.
/// They take long where the devices are emulated.
fn large_sorts(ranks: &Communicator, gpu: &Gpu, seed: u64) -> DistResult<()> {
    if !matches!(ranks.backend(), Backend::Nccl { .. }) {
        return Ok(());
    }
    let word = |at: usize| (at as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
    let len = 9_000_001;
    large_sort(ranks, gpu, len, |at| (word(at) >> 7) as u32, |at| at as u32)?;
    large_sort(ranks, gpu, len, |at| (word(at) >> 8) as u32 & 0x0703_ffff, |at| at as u64)?;
    large_sort(
        ranks,
        gpu,
        len,
        |at| if at % 9 > 0 { 77 } else { word(at) as u32 },
        |at| at as u32,
    )?;
    large_sort(ranks, gpu, len, word, |at| at as u32)?;
    large_sort(ranks, gpu, 5_000_003, |at| word(at) as i64, |at| at as u64)?;
    large_sort(ranks, gpu, 10, |at| word(at) as u32, |at| at as u32)
}

/// Sorts about `len` keys a rank, alone and with values, in every method; shares are kept, and made even.
fn large_sort<K: sort::RankKey + Ord, V: SortValue + PartialEq>(
    ranks: &Communicator,
    gpu: &Gpu,
    len: usize,
    key: impl Fn(usize) -> K,
    value: impl Fn(usize) -> V,
) -> DistResult<()> {
    let lens = (0..ranks.size() as usize).map(|rank| len - len / 7 * (rank % 2));
    let shares = Shares::given(lens.collect());
    let own = shares.range(ranks.rank());
    let (keys, values): (Vec<K>, Vec<V>) = own.map(|at| (key(at), value(at))).unzip();
    let mut sorted: Vec<(K, usize)> = (0..shares.total()).map(|at| (key(at), at)).collect();
    sorted.sort_unstable();
    let x = DeviceBuffer::from_slice(gpu, &keys)?;
    let y = DeviceBuffer::from_slice(gpu, &values)?;
    let mut scratch = Scratch::new(gpu)?;
    let even = sort::Options::ASCENDING;
    let kept = even.keep_shares();
    let methods = [sort::Method::ExchangeFirst, sort::Method::SortFirst];
    for options in methods.map(|method| kept.method(method)).into_iter().chain([even, even]) {
        let after = match options.keeps_shares() {
            true => shares.clone(),
            false => Shares::even(shares.total(), ranks.size()),
        };
        let expected = &sorted[after.range(ranks.rank())];
        let alone = sort::sort(ranks, gpu, &x, options, &mut scratch)?;
        let (with_values, moved) = sort::sort_pairs(ranks, gpu, (&x, &y), options, &mut scratch)?;
        ranks.synchronize(gpu)?;
        for found in [alone, with_values] {
            assert!(found.to_vec()?.iter().eq(expected.iter().map(|(key, _)| key)), "{options:?}");
        }
        let moved = moved.to_vec()?;
        assert!(moved.iter().copied().eq(expected.iter().map(|(_, at)| value(*at))), "{options:?}");
    }
    Ok(())
}
