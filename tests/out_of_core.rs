//! The operations on host arrays against the CPU, with budgets so small that there are many tiles.
//!
//! Tolerance of a float sum: as in `reduce`, and an addition more for each tile.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::thread;

use bytemuck::Pod;
use cuda_driver::injection;
use cuda_std::number::{bf16, f16};
use ferrowarp::memory::PinnedBuffer;
use ferrowarp::ops::histogram::Bins;
use ferrowarp::ops::out_of_core::{HostElement, OutOfCore};
use ferrowarp::ops::sort::{Extreme, SortKey, SortOptions};
use ferrowarp::ops::{reduce, sort};
use ferrowarp::{DeviceBuffer, GpuError, GpuResult, RegisteredVec};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use crate::support::{floats, gpu, rng};

/// Device memory for tiles of about 1500 words, beside what a reduction takes, a sort, a histogram.
const BUDGET: usize = 64 << 10;
const SORT_BUDGET: usize = 96 << 10;
const COUNT_BUDGET: usize = 16 << 10;
/// For a few thousand keys, beside what a search for the top k takes.
const TOP_BUDGET: usize = 208 << 10;
/// Around a warp, the least tile and tiles of the budget; primes; many tiles.
const SIZES: [usize; 14] = [0, 1, 2, 31, 32, 33, 255, 256, 257, 1009, 1535, 1537, 9973, 60_013];

fn tiles(cpu_threads: usize) -> OutOfCore {
    OutOfCore::new(gpu()).with_budget(BUDGET).with_cpu_threads(cpu_threads)
}

fn sort_in_place<K: SortKey>(x: &mut [K], spare: &mut [K], options: SortOptions) -> GpuResult<()> {
    OutOfCore::new(gpu()).with_budget(SORT_BUDGET).sort_in_place(x, spare, options)
}

/// How many threads of the CPU to try: those of few tiles have nothing to do.
fn cpu_threads(n: usize) -> impl Iterator<Item = usize> {
    [0, 2].into_iter().take(if n > 30_000 { 2 } else { 1 })
}

/// Any bits.
fn any<T: Pod>(rng: &mut StdRng) -> T {
    let mut bytes = [0; 8];
    rng.fill_bytes(&mut bytes);
    bytemuck::pod_read_unaligned(&bytes[..size_of::<T>()])
}

fn bits<T: Pod>(value: &T) -> &[u8] {
    bytemuck::bytes_of(value)
}

#[track_caller]
fn same<T: Pod + Debug>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(
            bits(found) == bits(expected),
            "{what}: element {i} is {found:?}, not {expected:?}"
        );
    }
}

macro_rules! extremes {
    ($rng:ident: $($ty:ty)*) => {$(
        for n in SIZES {
            let x: Vec<$ty> = (0..n).map(|_| any($rng)).collect();
            let on_device = DeviceBuffer::from_slice(gpu(), &x).unwrap();
            for threads in cpu_threads(n) {
                let (tiles, what) = (tiles(threads), format!("{} {n}, {threads}", stringify!($ty)));
                let expected = [reduce::min(gpu(), &on_device), reduce::max(gpu(), &on_device)];
                let found = [tiles.min(&x).unwrap(), tiles.max(&x).unwrap()];
                same(&found, &expected.map(Result::unwrap), &what);
                let expected = [reduce::argmin(gpu(), &on_device), reduce::argmax(gpu(), &on_device)];
                let found = [tiles.argmin(&x), tiles.argmax(&x)];
                assert_eq!(found.map(Result::unwrap), expected.map(Result::unwrap), "{what}");
            }
        }
    )*};
}

#[test]
fn extremes_are_those_of_the_whole_array() {
    let rng = &mut rng();
    extremes!(rng: f16 bf16 f32 f64 i32 u32 i64 u64);
}

#[test]
fn extremes_of_equal_elements_zeros_and_nothing() {
    for threads in [0, 2] {
        let tiles = tiles(threads);
        let x = vec![7_u32; 40_000];
        assert_eq!((tiles.argmin(&x).unwrap(), tiles.argmax(&x).unwrap()), (Some(0), Some(0)));
        let mut x = vec![f32::NAN; 40_000];
        assert_eq!((tiles.argmin(&x).unwrap(), tiles.argmax(&x).unwrap()), (None, None));
        assert_eq!(
            (tiles.min(&x).unwrap(), tiles.max(&x).unwrap()),
            (f32::INFINITY, f32::NEG_INFINITY)
        );
        (x[1000], x[20_000], x[39_999]) = (0.0, -0.0, 0.0);
        assert!(
            tiles.min(&x).unwrap().is_sign_negative() && tiles.max(&x).unwrap().is_sign_positive()
        );
        assert_eq!(
            (tiles.argmin(&x).unwrap(), tiles.argmax(&x).unwrap()),
            (Some(1000), Some(1000))
        );
    }
}

#[track_caller]
fn check_integers<T>(rng: &mut StdRng, wrapped: impl Fn(i128) -> T)
where
    T: HostElement<Total = T> + Into<i128> + Debug,
    kernels_gpu::reduce::reduce_sum<T::Number>: cuda_std::launch::Instance,
    kernels_gpu::reduce::reduce_product<T::Number>: cuda_std::launch::Instance,
{
    for n in SIZES {
        let x: Vec<T> = (0..n).map(|_| any(rng)).collect();
        // An even number would soon make all of it 0.
        let odd: Vec<T> = x.iter().map(|&x| wrapped(x.into() | 1)).collect();
        for threads in [0, 2] {
            let sum = tiles(threads).sum(&x).unwrap();
            assert_eq!(sum, wrapped(reference::reduce::sum_integers(&x)), "{n}, {threads} threads");
            let product = tiles(threads).product(&odd).unwrap();
            let expected = wrapped(reference::reduce::product_integers(&odd).into());
            assert_eq!(product, expected, "{n}, {threads} threads");
        }
    }
}

#[test]
fn sums_and_products_of_integers_are_exact() {
    let mut rng = rng();
    check_integers(&mut rng, |x| x as i32);
    check_integers(&mut rng, |x| x as u32);
    check_integers(&mut rng, |x| x as i64);
    check_integers(&mut rng, |x| x as u64);
}

#[test]
fn sums_of_floats_are_close_and_the_same_in_every_run() {
    let mut rng = rng();
    for n in SIZES {
        let x = floats(&mut rng, n);
        let [first, second, shared] =
            [0, 0, 2].map(|threads| tiles(threads).sum(&x).unwrap().to_bits());
        assert_eq!((first, first), (second, shared), "{n}");
        let additions = n as f64 / 540_000.0 + 64.0 + n as f64 / 256.0;
        let tolerance = additions * 2f64.powi(-24) * reference::reduce::sum_of_magnitudes(&x);
        let (found, expected) = (f64::from(f32::from_bits(first)), reference::reduce::sum_f32(&x));
        assert!((found - expected).abs() <= tolerance, "{n}: {found} instead of {expected}");
        // Small numbers in f16 are added in f32, and exactly.
        let halves: Vec<f16> = (0..n).map(|i| f16::from_f32((i % 7) as f32)).collect();
        let expected: u32 = (0..n as u32).map(|i| i % 7).sum();
        assert_eq!(tiles(0).sum(&halves).unwrap(), expected as f32);
    }
    assert_eq!(tiles(0).product(&[1.5_f64, -2.0, 4.0]).unwrap(), -12.0);
}

#[test]
fn histograms_count_every_sample_once() {
    let mut rng = rng();
    for tiles in [0, 2].map(|threads| tiles(threads).with_budget(COUNT_BUDGET)) {
        for n in SIZES {
            let x: Vec<u8> = (0..n).map(|_| rng.random()).collect();
            let found = tiles.count(&x, &Bins::<u8>::given(gpu(), 256).unwrap()).unwrap();
            assert_eq!(found, reference::histogram::histogram(&x), "{n} bytes");
            let x: Vec<u32> = (0..n).map(|_| rng.random_range(0..1000)).collect();
            let found = tiles.count(&x, &Bins::<u32>::even(gpu(), 100..700, 77).unwrap()).unwrap();
            let wide = x.iter().map(|&x| u64::from(x));
            assert_eq!(found, reference::histogram::even_integers(wide, 100..700, 77), "{n} words");
            let levels = [-0.5_f32, -0.25, 0.0, 0.0, 0.125, 0.75];
            let mut x = floats(&mut rng, n);
            x.iter_mut().step_by(97).for_each(|x| *x = f32::NAN);
            let found = tiles.count(&x, &Bins::<f32>::ranges(gpu(), &levels).unwrap()).unwrap();
            assert_eq!(found, reference::histogram::ranges(&x, &levels), "{n} floats");
        }
    }
}

/// A key that the tests compare as the library promises.
trait Compared: SortKey + Debug {
    fn order(&self, other: &Self) -> Ordering;
}

macro_rules! compared {
    ($($ty:ty: $order:path;)*) => {$(
        impl Compared for $ty {
            fn order(&self, other: &Self) -> Ordering {
                $order(self, other)
            }
        }
    )*};
}

compared! {
    u8: Ord::cmp;
    i16: Ord::cmp;
    u32: Ord::cmp;
    i64: Ord::cmp;
    f16: f16::total_cmp;
    f32: f32::total_cmp;
    f64: f64::total_cmp;
}

#[track_caller]
fn check_top<K: Compared>(x: &[K], what: &str) {
    for which in [Extreme::Largest, Extreme::Smallest] {
        let descending = which == Extreme::Largest;
        let places = reference::sort::places(x, K::order, descending);
        let all = if x.len() > 100_000 { vec![100] } else { vec![0, 1, 100, 2000, x.len()] };
        for k in all.into_iter().filter(|k| *k <= x.len()) {
            for threads in cpu_threads(x.len()) {
                let (keys, indices) =
                    tiles(threads).with_budget(TOP_BUDGET).top_k(x, k, which).unwrap();
                let found: Vec<usize> = indices.iter().map(|&index| index as usize).collect();
                assert!(found == places[..k], "{what}, {k} of {}, {threads} threads", x.len());
                same(&keys, &found.iter().map(|&place| x[place]).collect::<Vec<K>>(), what);
            }
        }
    }
}

#[test]
fn the_top_k_are_those_of_a_stable_sort() {
    let mut rng = rng();
    for n in SIZES {
        check_top(&(0..n).map(|_| any(&mut rng)).collect::<Vec<u32>>(), "random");
    }
    check_top(&(0..150_001).map(|_| any(&mut rng)).collect::<Vec<u32>>(), "many");
    let n = 20_011;
    check_top(&(0..n).map(|_| any(&mut rng)).collect::<Vec<f32>>(), "any floats");
    check_top(&(0..n).map(|_| any(&mut rng)).collect::<Vec<f16>>(), "any halves");
    check_top(&(0..n).map(|_| any(&mut rng)).collect::<Vec<i64>>(), "long words");
    check_top(&(0..n).map(|_| rng.random_range(0..3)).collect::<Vec<u8>>(), "three values");
    check_top(&vec![5_u32; n], "one value");
    check_top(&(0..n as u32).collect::<Vec<u32>>(), "ascending");
}

#[track_caller]
fn check_sort<K: Compared>(keys: &[K], what: &str) {
    for options in [SortOptions::ASCENDING, SortOptions::DESCENDING] {
        let places = reference::sort::places(keys, K::order, options == SortOptions::DESCENDING);
        let expected: Vec<K> = places.into_iter().map(|place| keys[place]).collect();
        let (mut x, mut spare) = (keys.to_vec(), vec![K::zeroed(); keys.len()]);
        sort_in_place(&mut x, &mut spare, options).unwrap();
        same(&x, &expected, what);
    }
}

#[test]
fn sorts_are_those_of_the_whole_array() {
    let mut rng = rng();
    for n in SIZES {
        check_sort(&(0..n).map(|_| any(&mut rng)).collect::<Vec<u32>>(), "random");
    }
    let n = 20_011;
    check_sort(&(0..n).map(|_| any(&mut rng)).collect::<Vec<u8>>(), "bytes");
    check_sort(&(0..n).map(|_| any(&mut rng)).collect::<Vec<i16>>(), "short words");
    check_sort(&(0..n).map(|_| any(&mut rng)).collect::<Vec<f32>>(), "any floats");
    check_sort(&(0..n / 2).map(|_| any(&mut rng)).collect::<Vec<f64>>(), "any long floats");
    check_sort(&(0..n / 2).map(|_| any(&mut rng)).collect::<Vec<i64>>(), "long words");
}

#[test]
fn sorts_of_equal_skewed_and_sorted_keys() {
    let mut rng = rng();
    let n = 20_011;
    check_sort(&vec![u32::MAX; n], "one value");
    check_sort(&vec![0_u32; n], "zeros");
    check_sort(&(0..n).map(|_| rng.random_range(0..3)).collect::<Vec<u32>>(), "three values");
    check_sort(&(0..n as u32).collect::<Vec<u32>>(), "ascending");
    check_sort(&(0..n as u32).rev().collect::<Vec<u32>>(), "descending");
    // Nearly all keys are 9; some are anything.
    let skewed = |i| if i % 50 == 0 { any(&mut rng) } else { 9 };
    check_sort(&(0..n).map(skewed).collect::<Vec<u32>>(), "skewed");
}

/// The bits that are not sorted by are where a key comes from.
#[test]
fn a_sort_by_some_bits_is_stable() {
    let n = 20_011_u32;
    let keys: Vec<u32> = (0..n).map(|i| i << 8 | (i.wrapping_mul(2_654_435_761) >> 29)).collect();
    let options = SortOptions::ASCENDING.bits(0..8);
    let (mut x, mut spare) = (keys.clone(), vec![0; keys.len()]);
    sort_in_place(&mut x, &mut spare, options).unwrap();
    let mut expected = keys;
    expected.sort_by_key(|key| key & 0xff);
    assert!(x == expected);
}

#[test]
fn memory_that_is_page_locked_is_used_as_it_is() {
    let mut rng = rng();
    let keys: Vec<u32> = (0..30_011).map(|_| rng.random()).collect();
    let mut expected = keys.clone();
    expected.sort_unstable();
    let mut x = PinnedBuffer::from_slice(gpu(), &keys).unwrap();
    let mut spare = RegisteredVec::new(gpu(), vec![0_u32; keys.len()]).unwrap();
    assert_eq!(tiles(2).max(&x).unwrap(), expected[expected.len() - 1]);
    sort_in_place(&mut x, &mut spare, SortOptions::ASCENDING).unwrap();
    assert!(x[..] == expected[..]);
}

/// Tiles that are large enough for the ring of page-locked chunks.
#[test]
fn large_pageable_tiles_are_staged() {
    let n = 1_200_007_u32;
    // Keys of 16 bits take two passes on the device.
    let keys: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761) >> 16).collect();
    let tiles = OutOfCore::new(gpu()).with_budget(8_700_000);
    let expected = keys.iter().fold(0, |sum: u32, key| sum.wrapping_add(*key));
    assert_eq!(tiles.sum(&keys).unwrap(), expected);
    let (mut x, mut spare) = (keys.clone(), vec![0; keys.len()]);
    tiles.sort_in_place(&mut x, &mut spare, SortOptions::ASCENDING).unwrap();
    let mut expected = keys;
    expected.sort_unstable();
    assert!(x == expected);
}

#[test]
fn without_a_budget_the_devices_memory_decides() {
    let x: Vec<u32> = (0..100_000_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let tiles = OutOfCore::new(gpu());
    assert_eq!(
        tiles.argmax(&x).unwrap(),
        reference::reduce::first_place(&x, |a, b| Some(b.cmp(&a)))
    );
    let (mut sorted, mut spare) = (x.clone(), x.clone());
    tiles.sort_in_place(&mut sorted, &mut spare, SortOptions::ASCENDING).unwrap();
    assert!(sorted.is_sorted());
    // There was room for all keys at once, and so no need of runs.
    assert!(spare == x);
}

#[test]
fn misuse_is_an_error_that_says_what_would_do() {
    let x = vec![1_u32; 10_000];
    let small = OutOfCore::new(gpu()).with_budget(1000);
    let refused = small.sum(&x).unwrap_err().to_string();
    let least = refused.split("it takes ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
    let least: usize = least.parse().unwrap();
    assert_eq!(small.clone().with_budget(least).sum(&x).unwrap(), 10_000);
    small.clone().with_budget(least - 1).sum(&x).unwrap_err();
    let bins = Bins::<u32>::given(gpu(), 10).unwrap();
    for refused in [
        small.count(&x, &bins).map(drop),
        small.top_k(&x, 5, Extreme::Largest).map(drop),
        small.sort_in_place(&mut x.clone(), &mut x.clone(), SortOptions::ASCENDING),
    ] {
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("a budget of 1000 bytes of device memory is too small"), "{text}");
    }
    let refused = tiles(0)
        .with_budget(TOP_BUDGET)
        .top_k(&x, 10_001, Extreme::Smallest)
        .unwrap_err()
        .to_string();
    assert!(refused.contains("10001 of 10000 keys"), "{refused}");
    let mut keys = x.clone();
    let short = sort_in_place(&mut keys, &mut [0; 9999], SortOptions::ASCENDING);
    assert!(matches!(short, Err(GpuError::SizeMismatch { expected: 10_000, found: 9999, .. })));
    let bits = SortOptions::ASCENDING.bits(8..40);
    let wrong = sort_in_place(&mut keys, &mut x.clone(), bits);
    assert!(matches!(wrong, Err(GpuError::InvalidArgument { operation: "sorting", .. })));
}

#[test]
fn operations_run_side_by_side() {
    let x: Vec<u32> = (0..50_000_u32).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let expected = x.iter().fold(0, |sum: u32, key| sum.wrapping_add(*key));
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert_eq!(tiles(1).sum(&x).unwrap(), expected));
        }
    });
}

/// Each call of the driver fails once. A GPU's driver has no failures to order: there nothing fails.
#[test]
fn no_key_is_lost_by_a_failure() {
    let n = 9000;
    let keys: Vec<u32> = (0..n).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
    let mut expected = keys.clone();
    expected.sort_unstable();
    let sort = |x: &mut [u32], spare: &mut [u32]| sort_in_place(x, spare, SortOptions::ASCENDING);
    let (mut x, mut spare) = (keys.clone(), vec![0; keys.len()]);
    let (result, calls) = injection::watch(|| sort(&mut x, &mut spare));
    result.unwrap();
    let (mut first, mut second) = (0, 0);
    for nth in (0..calls.len()).step_by(23) {
        const INVALID_VALUE: i32 = 1;
        let (mut x, mut spare) = (keys.clone(), vec![0; keys.len()]);
        let (result, _) = injection::fail(nth, INVALID_VALUE, || sort(&mut x, &mut spare));
        let Err(error) = result else {
            assert!(x == expected, "call {nth}, {}", calls[nth].function);
            continue;
        };
        if error.to_string().contains("the second pass") {
            second += 1;
            spare.sort_unstable();
            assert!(spare == expected, "call {nth}, {}: {error}", calls[nth].function);
        } else {
            first += 1;
            assert!(x == keys, "call {nth}, {}: {error}", calls[nth].function);
        }
    }
    assert!(calls.is_empty() || (first > 0 && second > 0), "{first} and {second} failures");
}

/// The scratch of the operation on the device is the same as that of a tile.
#[test]
fn one_tile_is_the_operation_on_the_device() {
    let x = floats(&mut rng(), 100_000);
    let on_device = DeviceBuffer::from_slice(gpu(), &x).unwrap();
    let tiles = OutOfCore::new(gpu()).with_budget(8 << 20);
    let expected = reduce::sum(gpu(), &on_device).unwrap();
    assert_eq!(tiles.sum(&x).unwrap().to_bits(), expected.to_bits());
    let (keys, indices) = tiles.top_k(&x, 50, Extreme::Smallest).unwrap();
    let (expected, places) = sort::top_k(gpu(), &on_device, 50, Extreme::Smallest).unwrap();
    assert_eq!(keys, expected.to_vec().unwrap());
    assert!(indices.into_iter().eq(places.to_vec().unwrap().into_iter().map(u64::from)));
}
