//! The histograms against counts on the CPU: exact, and the fast form against the plain one.

use cuda_std::launch::Instance;
use ferrowarp::ops;
use ferrowarp::ops::histogram::{self, Bins, Countable};
use ferrowarp::{GpuError, Grid1};
use kernels_gpu::histogram::bins::{Even, EvenFloats};
use kernels_gpu::histogram::shared::{
    BLOCK, MIN_BLOCKS, VECTORS_PER_THREAD, histogram_bytes, histogram_shared, shared_bytes,
};
use kernels_gpu::histogram::{histogram_global, histogram_search};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{SIZES, bytes, gpu, poisoned, rng, upload};

/// Samples for several blocks, of which none has a tile.
const PAST_ONE_TILE: usize = 3 * 512 * 4 * 16 + 4099;
/// 16-byte vectors of a tile.
const TILE: usize = BLOCK * VECTORS_PER_THREAD;

/// Both forms, of all samples, and of those behind the first few, which lie otherwise in memory.
fn assert_bins<T: Countable>(samples: &[T], bins: &Bins<T>, expected: impl Fn(&[T]) -> Vec<u64>)
where
    histogram_global<T, T::Even>: Instance,
    histogram_search<T>: Instance,
{
    let on_device = upload(samples);
    for start in [0, 1, 3].map(|start: usize| start.min(samples.len())) {
        let part = on_device.slice(start..);
        let expected = expected(&samples[start..]);
        let mut found = poisoned(bins.len());
        histogram::count_into(gpu(), &part, bins, &mut found).unwrap();
        assert_eq!(widened(&found.to_vec().unwrap()), expected, "from sample {start}");

        let mut plain = upload(&vec![0; bins.len()]);
        histogram::add_globally_into(gpu(), &part, bins, &mut plain).unwrap();
        assert_eq!(widened(&plain.to_vec().unwrap()), expected, "plain, from sample {start}");
    }
}

fn widened(counts: &[u32]) -> Vec<u64> {
    counts.iter().copied().map(u64::from).collect()
}

fn assert_counts(image: &[u8]) {
    let image_gpu = upload(image);
    for counts in [ops::histogram, histogram::histogram_private] {
        let found = counts(gpu(), &image_gpu).unwrap().to_vec().unwrap();
        assert_eq!(widened(&found), reference::histogram::histogram(image));
    }
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        assert_counts(&bytes(&mut rng, n));
    }
}

#[test]
fn one_value_only_so_every_thread_wants_the_same_bin() {
    assert_counts(&[200; 100_000]);
    let same = vec![7_u32; 40_000];
    let bins = Bins::given(gpu(), 100).unwrap();
    assert_bins(&same, &bins, |x| reference::histogram::even_integers(wide(x), 0..100, 100));
}

fn wide<T: Copy + Into<u64>>(x: &[T]) -> impl Iterator<Item = u64> {
    x.iter().map(|x| (*x).into())
}

#[test]
fn given_bins() {
    let mut rng = rng();
    for (n, n_bins) in [(0, 3), (1, 1), (1000, 70_000), (PAST_ONE_TILE, 300), (9999, 256)] {
        let expected = u64::from(n_bins);
        let x: Vec<u16> = (0..n).map(|_| rng.random()).collect();
        let bins = Bins::given(gpu(), n_bins).unwrap();
        assert_bins(&x, &bins, |x| {
            reference::histogram::even_integers(wide(x), 0..expected, n_bins as usize)
        });
        let x: Vec<u32> = (0..n).map(|_| rng.random_range(0..2 * n_bins)).collect();
        let bins = Bins::given(gpu(), n_bins).unwrap();
        assert_bins(&x, &bins, |x| {
            reference::histogram::even_integers(wide(x), 0..expected, n_bins as usize)
        });
    }
}

#[test]
fn even_bins_of_integers_divide_exactly() {
    let mut rng = rng();
    let ends = [0, 1, u32::MAX, u32::MAX - 1, 1 << 31, (1 << 31) - 1];
    for (levels, n_bins) in [
        (0..1 << 32, 1000),
        (0..1 << 32, 3),
        (5..(1 << 32) - 1, 1023),
        (1 << 31..(1 << 31) + 7, 7),
        (100..200, 333),
        (0..4_294_967_291, 4096),
    ] {
        // The first and the last sample of a bin, where the division rounds.
        let width = levels.end - levels.start;
        let edges = (0..u64::from(n_bins)).map(|b| levels.start + b * width / u64::from(n_bins));
        let edges = edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]);
        let x: Vec<u32> = edges
            .map(|edge| edge as u32)
            .chain(ends)
            .chain((0..2000).map(|_| rng.random()))
            .collect();
        let bins = Bins::even(gpu(), levels.clone(), n_bins).unwrap();
        assert_bins(&x, &bins, |x| {
            reference::histogram::even_integers(wide(x), levels.clone(), n_bins as usize)
        });
    }
}

/// Five tiles and a ragged end, for the kernels themselves: three blocks, of which two have two tiles.
#[test]
fn whole_tiles_of_even_bins() {
    let mut rng = rng();
    let grid = |n_bins| Grid1::new(3).shared_mem(shared_bytes(n_bins, 0) as u32);
    let x = bytes(&mut rng, 5 * 16 * TILE + 1234);
    let map: Vec<u32> = (0..256).map(|byte| byte / 2).collect();
    let mut counts = upload(&[0; 128]);
    let on_device = upload(&x);
    histogram_bytes::launch(gpu(), Grid1::new(3), &on_device, &upload(&map), &mut counts).unwrap();
    let halves: Vec<u64> =
        reference::histogram::histogram(&x).chunks(2).map(|pair| pair.iter().sum()).collect();
    assert_eq!(widened(&counts.to_vec().unwrap()), halves);

    let x: Vec<u16> = (0..5 * 8 * TILE + 1234).map(|_| rng.random()).collect();
    let mut counts = upload(&[0; 700]);
    let even = Even::new(0..60_000, 700).unwrap();
    histogram_shared::launch(gpu(), grid(700), &upload(&x), even, &mut counts).unwrap();
    let expected = reference::histogram::even_integers(wide(&x), 0..60_000, 700);
    assert_eq!(widened(&counts.to_vec().unwrap()), expected);

    let x: Vec<f32> = (0..5 * 4 * TILE + 1234).map(|_| rng.random_range(-0.1..1.1)).collect();
    let mut counts = upload(&[0; 90]);
    let even = EvenFloats::new(0.0..1.0, 90).unwrap();
    histogram_shared::launch(gpu(), grid(90), &upload(&x), even, &mut counts).unwrap();
    let expected = reference::histogram::even_floats(&x, 0.0..1.0, 90);
    assert_eq!(widened(&counts.to_vec().unwrap()), expected);
}

/// A tile for each block that the device holds, and a ragged end.
#[test]
fn whole_tiles_of_ranges() {
    let mut rng = rng();
    let blocks = (gpu().info().multiprocessors * MIN_BLOCKS) as usize;
    let levels = [0.1, 0.4, 0.4, 0.55, 0.9_f32];
    let x: Vec<f32> = (0..(blocks + 1) * 4 * TILE + 777)
        .map(|i| if i % 7 == 0 { levels[i % 5] } else { rng.random_range(0.0..1.0) })
        .collect();
    let bins = Bins::ranges(gpu(), &levels).unwrap();
    let found = histogram::count(gpu(), &upload(&x), &bins).unwrap().to_vec().unwrap();
    assert_eq!(widened(&found), reference::histogram::ranges(&x, &levels));
}

#[test]
fn even_bins_of_bytes_and_halves_of_words() {
    let mut rng = rng();
    let x = bytes(&mut rng, 5003);
    let bins = Bins::even(gpu(), 10..256, 17).unwrap();
    assert_bins(&x, &bins, |x| reference::histogram::even_integers(wide(x), 10..256, 17));
    let x: Vec<u16> = (0..5003).map(|_| rng.random()).collect();
    let bins = Bins::even(gpu(), 0..65_536, 1000).unwrap();
    assert_bins(&x, &bins, |x| reference::histogram::even_integers(wide(x), 0..65_536, 1000));
}

/// Floats around the levels, and those that are in no bin.
fn awkward_floats(rng: &mut StdRng, levels: &[f32], n: usize) -> Vec<f32> {
    let (first, last) = (levels[0].max(-1e6), levels[levels.len() - 1].min(1e6));
    let span = last - first;
    let around = levels.iter().flat_map(|l| [l.next_down(), *l, l.next_up(), -l]);
    let special =
        [f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MIN, f32::MAX];
    around
        .chain(special)
        .chain([f32::from_bits(1), -f32::from_bits(1)])
        .chain((0..n).map(|_| rng.random_range(first - 0.1 * span..last + 0.1 * span)))
        .collect()
}

#[test]
fn even_bins_of_floats() {
    let mut rng = rng();
    for (levels, n_bins, n) in [
        (0.0..1.0, 256, PAST_ONE_TILE),
        (-3.0..5.0, 1000, 9000),
        (0.0..1.0, 3, 1000),
        (-1e-30..1e-30, 20, 1000),
        (-1.5e38..1.5e38, 12_345, 1000),
    ] {
        let x = awkward_floats(&mut rng, &[levels.start, levels.end], n);
        let bins = Bins::even(gpu(), levels.clone(), n_bins).unwrap();
        assert_bins(&x, &bins, |x| {
            reference::histogram::even_floats(x, levels.clone(), n_bins as usize)
        });
    }
}

#[test]
fn ranges_of_floats() {
    let mut rng = rng();
    let even: Vec<f32> = (0..=256).map(|k| k as f32 / 256.0).collect();
    let powers: Vec<f32> = (-100..100).map(|k| (k as f32 / 4.0).exp2()).collect();
    let both_signs: Vec<f32> =
        (-60..=60).map(|k: i32| (k.signum() as f32) * (k.abs() as f32).exp2()).collect();
    let crowded: Vec<f32> = (0..3000_u32).map(|k| f32::from_bits(1.0_f32.to_bits() + k)).collect();
    let crowded_far: Vec<f32> = [-1e30].into_iter().chain(crowded.clone()).chain([1e30]).collect();
    let infinite = vec![f32::NEG_INFINITY, -1.0, -0.0, 0.0, 0.0, 2.5, 2.5, f32::INFINITY];
    let nothing_finite = vec![f32::NEG_INFINITY, f32::INFINITY];
    let two = vec![-0.0, f32::from_bits(1)];
    for (levels, n) in [
        (even, 20_000),
        (powers, 3000),
        (both_signs, 3000),
        (crowded, 100),
        (crowded_far, 100),
        (infinite, 3000),
        (nothing_finite, 1000),
        (two, 10),
    ] {
        let x = awkward_floats(&mut rng, &levels, n);
        let bins = Bins::ranges(gpu(), &levels).unwrap();
        assert_bins(&x, &bins, |x| reference::histogram::ranges(x, &levels));
    }
}

#[test]
fn ranges_of_integers() {
    let mut rng = rng();
    let x: Vec<u32> =
        (0..6000).map(|k| rng.random::<u32>() >> (k % 32)).chain([0, u32::MAX]).collect();
    let powers: Vec<u64> = (0..33).map(|k| 1 << k).collect();
    let random = sorted((0..900).map(|_| rng.random::<u32>().into()));
    for levels in [powers, vec![0, 1 << 32], vec![5, 5, 6, 6, 6, 1000, u32::MAX.into()], random] {
        let bins = Bins::ranges(gpu(), &levels).unwrap();
        assert_bins(&x, &bins, |x| {
            reference::histogram::ranges(&wide(x).collect::<Vec<_>>(), &levels)
        });
    }
    let x: Vec<u16> = x.iter().map(|x| *x as u16).collect();
    let levels = sorted((0..300).map(|_| rng.random::<u16>().into()));
    let bins = Bins::ranges(gpu(), &levels).unwrap();
    assert_bins(&x, &bins, |x| reference::histogram::ranges(&wide(x).collect::<Vec<_>>(), &levels));
    let x: Vec<u8> = x.iter().map(|x| *x as u8).collect();
    let bins = Bins::ranges(gpu(), &[3, 77, 78, 256]).unwrap();
    assert_bins(&x, &bins, |x| {
        reference::histogram::ranges(&wide(x).collect::<Vec<_>>(), &[3, 77, 78, 256])
    });
}

fn sorted(levels: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut levels: Vec<u64> = levels.collect();
    levels.sort_unstable();
    levels
}

#[test]
fn counts_add_up_over_parts() {
    let x = upload(&[1_u32, 2, 2, 3, 3, 3]);
    let bins = Bins::given(gpu(), 4).unwrap();
    let mut counts = histogram::count(gpu(), &x, &bins).unwrap();
    histogram::add_into(gpu(), &x.slice(3..), &bins, &mut counts).unwrap();
    assert_eq!(counts.to_vec().unwrap(), [0, 1, 2, 6]);
}

#[test]
fn what_is_no_bin_is_an_error() {
    fn refused<T: Countable>(bins: Result<Bins<T>, GpuError>) {
        let error = bins.err().expect("these are no bins");
        assert!(matches!(error, GpuError::InvalidArgument { .. }), "{error}");
    }
    refused(Bins::<u32>::even(gpu(), 5..5, 3));
    refused(Bins::<u32>::even(gpu(), 0..5, 0));
    refused(Bins::<u32>::even(gpu(), 0..(1 << 32) + 1, 3));
    refused(Bins::<f32>::even(gpu(), 0.0..f32::NAN, 3));
    refused(Bins::<f32>::even(gpu(), f32::MIN..f32::MAX, 3));
    refused(Bins::<f32>::ranges(gpu(), &[1.0]));
    refused(Bins::<f32>::ranges(gpu(), &[1.0, 1.0]));
    refused(Bins::<f32>::ranges(gpu(), &[2.0, 1.0, 3.0]));
    refused(Bins::<f32>::ranges(gpu(), &[0.0, f32::NAN, 1.0]));
    refused(Bins::<u8>::ranges(gpu(), &[0, 256, 256]));
    refused(Bins::<u8>::ranges(gpu(), &[0, 257]));
    let says = Bins::<u8>::given(gpu(), 0).expect_err("there is no bin").to_string();
    assert!(says.starts_with("making the bins of a histogram: there has to be a bin"), "{says}");
    let bins = Bins::<u32>::given(gpu(), 4).unwrap();
    let mut out = upload(&[0; 5]);
    let error = histogram::count_into(gpu(), &upload(&[1_u32]), &bins, &mut out).unwrap_err();
    assert!(matches!(error, GpuError::SizeMismatch { expected: 4, found: 5, .. }), "{error}");
}

#[test]
#[ignore = "needs 10 GB of device memory"]
fn more_than_two_to_the_32_bytes() {
    let n = (1_usize << 32) + 77;
    let mut x = ferrowarp::DeviceBuffer::<u8>::zeroed(gpu(), n).unwrap();
    x.slice_mut(n - 5..).copy_from_host(&[9; 5]).unwrap();
    let bins = Bins::even(gpu(), 1..256, 255).unwrap();
    let counts = histogram::count(gpu(), &x, &bins).unwrap().to_vec().unwrap();
    assert_eq!((counts[8], counts.iter().sum::<u32>()), (5, 5));
}
