//! The sorts against the standard library's stable sort, bit for bit.

mod digits;
mod groups;
mod segments;

use std::ops::Range;

use std::cmp::Ordering;
use std::fmt::Debug;

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::sort::{self, Extreme, SortKey, SortOptions, SortValue};
use kernels_gpu::sort::pass;
use rand::Rng;
use rand::rngs::StdRng;

use crate::support::{gpu, poisoned, rng, upload};

const TILE: usize = pass::THREADS * pass::SHORT;
const LONG_TILE: usize = pass::THREADS * pass::LONG;
/// As long as the tiles of short arrays of `u32`, and of `u64`.
const FEW: usize = pass::THREADS * pass::FEW_SHORT;
const FEW_LONG: usize = pass::THREADS * pass::FEW_LONG;
const BOTH: [SortOptions; 2] = [SortOptions::ASCENDING, SortOptions::DESCENDING];

/// Around a warp, the rows of a block, a tile and several, with ragged ends.
const SIZES: [usize; 18] = [
    0,
    1,
    2,
    31,
    32,
    33,
    32 * pass::FEW_SHORT + 1,
    32 * pass::SHORT + 1,
    FEW - 1,
    FEW,
    FEW + 1,
    LONG_TILE,
    TILE - 1,
    TILE,
    TILE + 1,
    3 * FEW + 17,
    2 * TILE + 17,
    5 * TILE - 5,
];

/// A key that the tests compare as the library promises.
trait Compared: SortKey + Debug {
    fn order(&self, other: &Self) -> Ordering;

    /// Any bits.
    fn any(rng: &mut StdRng) -> Self {
        let mut bytes = [0; 8];
        rng.fill_bytes(&mut bytes);
        bytemuck::pod_read_unaligned(&bytes[..size_of::<Self>()])
    }
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
    u16: Ord::cmp;
    u32: Ord::cmp;
    u64: Ord::cmp;
    i8: Ord::cmp;
    i16: Ord::cmp;
    i32: Ord::cmp;
    i64: Ord::cmp;
    f16: f16::total_cmp;
    bf16: bf16::total_cmp;
    f32: f32::total_cmp;
    f64: f64::total_cmp;
}

/// The expected keys, and the places where they come from.
fn expected<K: Compared>(keys: &[K], options: SortOptions) -> (Vec<K>, Vec<usize>) {
    let descending = options == SortOptions::DESCENDING;
    let places = reference::sort::places(keys, K::order, descending);
    (places.iter().map(|&place| keys[place]).collect(), places)
}

#[track_caller]
fn same<T: Pod + Debug>(found: &DeviceBuffer<T>, expected: &[T], what: &str) {
    let found = found.to_vec().unwrap();
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let differ = bytemuck::bytes_of(found) != bytemuck::bytes_of(expected);
        assert!(!differ, "{what}: element {i} is {found:?} instead of {expected:?}");
    }
}

#[track_caller]
fn check_keys<K: Compared>(keys: &[K], what: &str) {
    for options in BOTH {
        let mut out = poisoned(keys.len());
        let mut scratch = Scratch::new(gpu()).unwrap();
        sort::sort_into(gpu(), &upload(keys), &mut out, options, &mut scratch).unwrap();
        same(&out, &expected(keys, options).0, what);
    }
}

#[track_caller]
fn check_pairs<K: Compared, V: SortValue + Debug>(
    keys: &[K],
    value: impl Fn(usize) -> V,
    what: &str,
) {
    let values: Vec<V> = (0..keys.len()).map(&value).collect();
    for options in BOTH {
        let (mut out_keys, mut out_values) = (poisoned(keys.len()), poisoned(keys.len()));
        let (device_keys, device_values) = (upload(keys), upload(&values));
        sort::sort_pairs_into(
            gpu(),
            (&device_keys, &device_values),
            (&mut out_keys, &mut out_values),
            options,
            &mut Scratch::new(gpu()).unwrap(),
        )
        .unwrap();
        let (sorted, places) = expected(keys, options);
        same(&out_keys, &sorted, what);
        let sorted: Vec<V> = places.into_iter().map(&value).collect();
        same(&out_values, &sorted, what);
    }
}

fn random<K: Compared>(rng: &mut StdRng, n: usize) -> Vec<K> {
    (0..n).map(|_| K::any(rng)).collect()
}

#[test]
fn every_size() {
    let mut rng = rng();
    for n in SIZES {
        check_keys(&random::<u32>(&mut rng, n), &format!("{n} keys"));
    }
    for n in [FEW_LONG - 1, FEW_LONG, FEW_LONG + 1] {
        check_pairs(&random::<u64>(&mut rng, n), |i| i as f64, &format!("{n} pairs"));
    }
}

/// From short arrays to longer ones, whose tiles are longer.
#[test]
#[ignore = "takes minutes on the emulator"]
fn sizes_behind_which_tiles_are_longer() {
    let mut rng = rng();
    let (most, most_long) = (pass::FEW_TILES * FEW, pass::FEW_TILES * FEW_LONG);
    for n in [most - 1, most, most + 1] {
        check_pairs(&random::<u32>(&mut rng, n), |i| i as f32, &format!("{n} pairs"));
    }
    for n in [most_long - 1, most_long, most_long + 1] {
        check_pairs(&random::<u64>(&mut rng, n), |i| i as f64, &format!("{n} pairs"));
    }
}

#[test]
fn every_type_of_key() {
    fn check<K: Compared>(rng: &mut StdRng) {
        let name = std::any::type_name::<K>();
        check_keys(&random::<K>(rng, TILE + 123), name);
        check_pairs(&random::<K>(rng, 700), |i| i as u32, name);
    }
    let mut rng = rng();
    check::<u8>(&mut rng);
    check::<u16>(&mut rng);
    check::<u64>(&mut rng);
    check::<i8>(&mut rng);
    check::<i16>(&mut rng);
    check::<i32>(&mut rng);
    check::<i64>(&mut rng);
    check::<f16>(&mut rng);
    check::<bf16>(&mut rng);
    check::<f32>(&mut rng);
    check::<f64>(&mut rng);
}

#[test]
fn values_of_eight_bytes_follow_keys_of_any_size() {
    fn check<K: Compared>(rng: &mut StdRng) {
        let name = std::any::type_name::<K>();
        check_pairs(&random::<K>(rng, LONG_TILE + 321), |i| i as f64 - 0.5, name);
    }
    let mut rng = rng();
    check::<u8>(&mut rng);
    check::<i16>(&mut rng);
    check::<f32>(&mut rng);
    check::<u64>(&mut rng);
}

/// Keys that a radix sort may stumble over.
fn patterns(rng: &mut StdRng, n: usize) -> Vec<(&'static str, Vec<u32>)> {
    let of = |key: &mut dyn FnMut(usize) -> u32| (0..n).map(key).collect::<Vec<u32>>();
    vec![
        ("all equal", of(&mut |_| 0x0102_0304)),
        ("all last", of(&mut |_| u32::MAX)),
        ("in order", of(&mut |i| i as u32)),
        ("reversed", of(&mut |i| (n - i) as u32)),
        ("few", of(&mut |_| rng.next_u32() % 3)),
        ("a lowest digit", of(&mut |_| rng.next_u32() | 0xffff_ff00)),
        ("a highest digit", of(&mut |_| rng.next_u32() << 24)),
        ("a middle digit", of(&mut |_| rng.next_u32() & 0x00ff_0000)),
        ("two digits apart", of(&mut |_| rng.next_u32() & 0xff00_ff00)),
        ("one other", of(&mut |i| if i == n / 2 { 7 } else { 0x0700_0000 })),
        ("skewed", of(&mut |_| rng.next_u32() & rng.next_u32() & rng.next_u32() & rng.next_u32())),
    ]
}

#[test]
fn keys_that_hurt() {
    let mut rng = rng();
    for (name, keys) in patterns(&mut rng, TILE + 777) {
        check_keys(&keys, name);
    }
}

#[test]
fn equal_keys_keep_their_order() {
    let mut rng = rng();
    for (name, keys) in patterns(&mut rng, LONG_TILE + 555) {
        check_pairs(&keys, |i| i as u32, name);
        let x = upload(&keys);
        for options in BOTH {
            let places = sort::argsort(gpu(), &x, options).unwrap();
            let expected: Vec<u32> = expected(&keys, options).1.iter().map(|&i| i as u32).collect();
            same(&places, &expected, name);
        }
    }
}

#[test]
fn special_floats_stand_in_total_order() {
    let special = [
        f32::NAN,
        -f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        0.0,
        -0.0,
        1.0,
        -1.0,
        f32::MIN_POSITIVE,
        -f32::from_bits(1),
        f32::MAX,
        f32::MIN,
        f32::from_bits(0x7f80_0001),
    ];
    let keys: Vec<f32> = special.into_iter().cycle().take(2000).collect();
    check_keys(&keys, "f32");
    check_pairs(&keys, |i| i as u32, "f32");
    check_keys(&keys.iter().map(|&x| f64::from(x)).collect::<Vec<_>>(), "f64");
}

#[test]
fn some_bits_are_sorted_by_and_the_others_are_not_looked_at() {
    let mut rng = rng();
    let keys = random::<u32>(&mut rng, TILE + 99);
    for bits in [0..1, 31..32, 4..20, 3..12, 8..16, 0..32] {
        let mask = ((1u64 << bits.end) - (1u64 << bits.start)) as u32;
        let masked: Vec<u32> = keys.iter().map(|key| key & mask).collect();
        for options in BOTH {
            let places = expected(&masked, options).1;
            let expected: Vec<u32> = places.iter().map(|&place| keys[place]).collect();
            let found = sort::sort(gpu(), &upload(&keys), options.bits(bits.clone())).unwrap();
            same(&found, &expected, &format!("bits {bits:?}"));
        }
    }
}

/// Keys and numbers for values, each where it is; the keys' bits beside `bits` are not looked at.
#[track_caller]
fn check_in_place<K: Compared + Into<u64>>(keys: &[K], bits: Range<u32>, what: &str) {
    let mask = u64::MAX >> (64 - bits.end) & u64::MAX << bits.start;
    let masked: Vec<u64> = keys.iter().map(|&key| key.into() & mask).collect();
    let what = &format!("{what}, bits {bits:?}");
    let scratch = &mut Scratch::new(gpu()).unwrap();
    for options in BOTH {
        let places = expected(&masked, options).1;
        let sorted: Vec<K> = places.iter().map(|&place| keys[place]).collect();
        let options = options.bits(bits.clone());
        let mut x = upload(keys);
        sort::sort_in_place(gpu(), &mut x, options, scratch).unwrap();
        same(&x, &sorted, what);
        let (mut x, mut y) = (upload(keys), upload(&(0..keys.len() as u32).collect::<Vec<_>>()));
        sort::sort_pairs_in_place(gpu(), &mut x, &mut y, options, scratch).unwrap();
        same(&x, &sorted, what);
        same(&y, &places.iter().map(|&place| place as u32).collect::<Vec<_>>(), what);
    }
}

#[test]
fn keys_and_values_come_in_order_where_they_are() {
    let mut rng = rng();
    for (name, keys) in patterns(&mut rng, 1500) {
        check_in_place(&keys, 0..32, name);
    }
    for n in [0, 1, 33, LONG_TILE + 1, TILE + 5] {
        check_in_place(&random::<u32>(&mut rng, n), 0..24, &format!("{n} keys"));
        check_in_place(&random::<u8>(&mut rng, n), 0..8, &format!("{n} bytes"));
    }
    for bits in [0..64, 8..64, 60..64] {
        check_in_place(&random::<u64>(&mut rng, 5000), bits, "u64");
    }
    let keys = random::<f32>(&mut rng, TILE + 1);
    let mut x = upload(&keys);
    sort::sort_in_place(gpu(), &mut x, BOTH[1], &mut Scratch::new(gpu()).unwrap()).unwrap();
    same(&x, &expected(&keys, BOTH[1]).0, "f32");
}

#[test]
fn keys_may_begin_anywhere() {
    let mut rng = rng();
    let bytes = random::<u8>(&mut rng, 3000);
    let words = random::<u32>(&mut rng, 3000);
    let (device_bytes, device_words) = (upload(&bytes), upload(&words));
    for first in [1, 2, 3, 5, 15, 17] {
        let sorted =
            |found: DeviceBuffer<u8>| same(&found, &expected(&bytes[first..], BOTH[0]).0, "u8");
        sorted(sort::sort(gpu(), &device_bytes.slice(first..), BOTH[0]).unwrap());
        let found = sort::sort(gpu(), &device_words.slice(first..2900), BOTH[1]).unwrap();
        same(&found, &expected(&words[first..2900], BOTH[1]).0, "u32");
    }
}

#[test]
fn scratch_serves_sorts_of_any_kind() {
    let mut rng = rng();
    let mut scratch = Scratch::new(gpu()).unwrap();
    for n in [2 * TILE, 100, TILE + 1] {
        let (words, longs) = (random::<u32>(&mut rng, n), random::<i64>(&mut rng, n / 2));
        let mut out = poisoned(n);
        sort::sort_into(gpu(), &upload(&words), &mut out, BOTH[0], &mut scratch).unwrap();
        same(&out, &expected(&words, BOTH[0]).0, "u32");
        let mut out = poisoned(n / 2);
        sort::argsort_into(gpu(), &upload(&longs), &mut out, BOTH[0], &mut scratch).unwrap();
        let places: Vec<u32> = expected(&longs, BOTH[0]).1.iter().map(|&i| i as u32).collect();
        same(&out, &places, "i64");
    }
    let before = scratch.size_bytes();
    scratch.reserve(gpu(), sort::scratch_bytes::<u32>(2 * TILE)).unwrap();
    assert_eq!(scratch.size_bytes(), before);
}

#[test]
fn the_plain_form_sorts_alike() {
    let mut rng = rng();
    let mut cases = patterns(&mut rng, 2500);
    cases.extend([0, 1, 1023, 1024, 1025].map(|n| ("random", random::<u32>(&mut rng, n))));
    for (name, keys) in cases {
        let values: Vec<u32> = (0..keys.len() as u32).collect();
        for (options, mask) in
            [(BOTH[0], u32::MAX), (BOTH[1], u32::MAX), (BOTH[0].bits(2..11), 0x7fc)]
        {
            let (mut out_keys, mut out_values) = (poisoned(keys.len()), poisoned(keys.len()));
            let out = (&mut out_keys, &mut out_values);
            let (x, y) = (upload(&keys), upload(&values));
            let mut scratch = Scratch::new(gpu()).unwrap();
            sort::plain_into(gpu(), (&x, &y), out, options, &mut scratch).unwrap();
            let masked: Vec<u32> = keys.iter().map(|key| key & mask).collect();
            let places = reference::sort::places(&masked, Ord::cmp, options == BOTH[1]);
            same(&out_keys, &places.iter().map(|&i| keys[i]).collect::<Vec<_>>(), name);
            same(&out_values, &places.iter().map(|&i| i as u32).collect::<Vec<_>>(), name);
        }
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let x = upload(&[1u32; 100]);
    let scratch = &mut Scratch::new(gpu()).unwrap();
    let short = sort::sort_into(gpu(), &x, &mut poisoned(99), BOTH[0], scratch);
    assert_eq!(short.unwrap_err().to_string(), "sorting: 100 elements are needed, 99 were given");
    let short = sort::argsort_into(gpu(), &x, &mut poisoned(99), BOTH[0], scratch);
    let line = "the indices of a sort: 100 elements are needed, 99 were given";
    assert_eq!(short.unwrap_err().to_string(), line);
    let short = sort::sort_pairs(gpu(), &x, &upload(&[1u64; 99]), BOTH[0]).map(drop);
    let line = "the values of a sort: 100 elements are needed, 99 were given";
    assert_eq!(short.unwrap_err().to_string(), line);
    let short = sort::sort_pairs_in_place(
        gpu(),
        &mut upload(&[1u32; 100]),
        &mut poisoned::<u32>(99),
        BOTH[0],
        scratch,
    );
    assert_eq!(short.unwrap_err().to_string(), line);
    let offsets = upload(&[0u64, 100]);
    let short = sort::segmented_sort_pairs(gpu(), &x, &upload(&[1u32; 101]), &offsets, BOTH[0]);
    let line = "the values of a sort of segments: 100 elements are needed, 101 were given";
    assert_eq!(short.map(drop).unwrap_err().to_string(), line);
    let backwards = Range { start: 9, end: 4 };
    for bits in [5..5, 0..33, backwards] {
        let wrong = sort::sort(gpu(), &x, BOTH[0].bits(bits.clone())).map(drop).unwrap_err();
        let line = format!("sorting: bits {}..{} of a key of 32 bits: ", bits.start, bits.end);
        assert!(wrong.to_string().starts_with(&line), "{wrong}");
    }
}

#[track_caller]
fn check_top<K: Compared>(keys: &[K], k: usize, what: &str) {
    let x = upload(keys);
    for (options, which) in [(BOTH[0], Extreme::Smallest), (BOTH[1], Extreme::Largest)] {
        let (mut out, mut places) = (poisoned(k), poisoned(k));
        let results = (&mut out, &mut places);
        let mut scratch = Scratch::new(gpu()).unwrap();
        sort::top_k_into(gpu(), &x, results, which, &mut scratch).unwrap();
        let (sorted, order) = expected(keys, options);
        let what = format!("{what}, {k} of {}", keys.len());
        same(&out, &sorted[..k], &what);
        let order: Vec<u32> = order[..k].iter().map(|&place| place as u32).collect();
        same(&places, &order, &what);
    }
}

#[test]
fn the_first_few_are_found_with_their_places() {
    let mut rng = rng();
    for (name, keys) in patterns(&mut rng, 9001) {
        for k in [1, 33, 4500, 9001] {
            check_top(&keys, k, name);
        }
    }
    for n in [0, 1, 31, 32, 33, 4095, 4096, 4097, 40 * 4096 + 3] {
        check_top(&random::<u32>(&mut rng, n), n.min(100), "random");
        check_top(&random::<u32>(&mut rng, n), 0, "random");
    }
}

#[test]
fn the_first_few_of_every_type() {
    fn check<K: Compared>(rng: &mut StdRng) {
        check_top(&random::<K>(rng, 4444), 77, std::any::type_name::<K>());
    }
    let mut rng = rng();
    check::<u8>(&mut rng);
    check::<i16>(&mut rng);
    check::<f16>(&mut rng);
    check::<i32>(&mut rng);
    check::<f32>(&mut rng);
    check::<u64>(&mut rng);
    check::<f64>(&mut rng);
}

#[test]
fn more_than_there_are_is_an_error() {
    let x = upload(&[1u32; 100]);
    let error = sort::top_k(gpu(), &x, 101, Extreme::Largest).map(drop).unwrap_err();
    let line = "finding the first keys: 101 of 100 keys are more than there are";
    assert_eq!(error.to_string(), line);
    let scratch = &mut Scratch::new(gpu()).unwrap();
    let results = (&mut poisoned(5), &mut poisoned(4));
    let error = sort::top_k_into(gpu(), &x, results, Extreme::Largest, scratch).unwrap_err();
    let line = "the indices of the first keys: 5 elements are needed, 4 were given";
    assert_eq!(error.to_string(), line);
}

/// The emulator starts and interleaves blocks in other orders; tiles take tickets, so none waits for one that
/// cannot start. A GPU has an order of its own, and ignores the variable.
#[test]
fn any_order_of_blocks_will_do() {
    for schedule in ["reversed", "random:1", "random:2", "sequential"] {
        let program = std::env::current_exe().unwrap();
        let run = std::process::Command::new(program)
            .args(["sort::several_tiles_look_back", "--exact", "--include-ignored"])
            .env("FERROWARP_SCHEDULE", schedule)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&run.stdout);
        assert!(run.status.success() && text.contains("1 passed"), "{schedule}: {text}");
    }
}

#[test]
fn several_tiles_look_back() {
    let mut rng = rng();
    let keys: Vec<u16> = random(&mut rng, 5 * TILE + 5);
    check_keys(&keys, "u16");
    check_keys(&random::<u32>(&mut rng, 3 * FEW + 5), "u32");
    check_top(&keys, 9999, "u16");
}

/// Five groups of tiles, and places of more than 32 bits.
#[test]
#[ignore = "needs 14 GB of device memory"]
fn more_than_two_to_the_32_keys() {
    let n = (1usize << 32) + 12_345;
    let key = |i: usize| ((i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    let keys: Vec<u8> = (0..n).map(key).collect();
    let mut counts = [0usize; 256];
    keys.iter().for_each(|&key| counts[usize::from(key)] += 1);
    let found = sort::sort(gpu(), &upload(&keys), BOTH[0]).unwrap().to_vec().unwrap();
    assert!(found.is_sorted());
    let mut sorted = [0usize; 256];
    found.iter().for_each(|&key| sorted[usize::from(key)] += 1);
    assert_eq!(sorted, counts);
}
