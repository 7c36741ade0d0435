//! Collectives of a block, against plain loops.

use block_kernels::scans::affine;
use block_kernels::{scans, sorts, tiles};
use bytemuck::Pod;
use cuda_std::f16;
use cuda_std::launch::Grid1;
use cuda_std_tests::{done, download, poisoned, run_alone, upload};
use ferrowarp::DeviceBuffer;
use std::fmt::Debug;

cuda_std_tests::device!("block");

/// Bits without order, by Marsaglia's xorshift.
fn bits(n: usize, seed: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..n).map(|_| next()).collect()
}

/// All values up to each one, joined in order.
fn running<T: Copy>(values: &[T], op: impl Fn(T, T) -> T) -> Vec<T> {
    let mut sum: Option<T> = None;
    let mut next = |value| *sum.insert(sum.map_or(value, |sum| op(sum, value)));
    values.iter().map(|&value| next(value)).collect()
}

#[test]
fn reductions_join_in_order() {
    macro_rules! check {
        ($($kernel:ident $threads:literal)*) => {$({
            let x = bits($threads, $threads);
            let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 4 * $threads));
            done(scans::$kernel::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
            let all = *running(&x, affine).last().unwrap();
            let largest = x.iter().map(|&x| x as f32).fold(f32::MIN, f32::max);
            for (thread, results) in download(&out).chunks(4).enumerate() {
                let first = if thread == 0 { all } else { 1 };
                let expected = [all, first, x[$threads * 2 / 3], largest.to_bits().into()];
                assert_eq!(results, expected, "thread {thread} of {}", $threads);
            }
        })*};
    }
    check!(reduce_32 32 reduce_64 64 reduce_96 96 reduce_256 256 reduce_288 288);
    check!(reduce_640 640 reduce_1024 1024);
}

#[test]
fn numbers_are_summed_and_compared() {
    macro_rules! check {
        ($($kernel:ident $threads:literal)*) => {$({
            let x = bits($threads, 7 * $threads);
            let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 8 * $threads));
            done(scans::$kernel::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
            // Whole numbers below 2^14: sums of 1024 are exact.
            let floats: Vec<f32> = x.iter().map(|&x| (x >> 50) as f32).collect();
            let largest = floats.iter().copied().fold(0.0, f32::max);
            let place = floats.iter().position(|&x| x == largest).unwrap() as u64;
            let expected = [
                x.iter().fold(0, |a: u64, &b| a.wrapping_add(b)),
                floats.iter().sum::<f32>().to_bits().into(),
                x.iter().fold(0, |a: u8, &b| a.wrapping_add(b as u8)).into(),
                *x.iter().min().unwrap(),
                x.iter().map(|&x| x as i32).min().unwrap().cast_unsigned().into(),
                largest.to_bits().into(),
                x.iter().map(|&x| x as u16).max().unwrap().into(),
                place << 32 | u64::from(largest.to_bits()),
            ];
            assert_eq!(download(&out), expected.repeat($threads), "{} threads", $threads);
        })*};
    }
    check!(numbers_32 32 numbers_160 160 numbers_1024 1024);
}

#[test]
fn a_block_in_a_plane_joins_in_order() {
    let x = bits(192, 3);
    let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 192));
    done(scans::reduce_planar::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
    assert_eq!(download(&out), vec![*running(&x, affine).last().unwrap(); 192]);
}

#[test]
fn scans_join_in_order() {
    macro_rules! check {
        ($($kernel:ident $threads:literal $items:literal)*) => {$({
            const N: usize = $threads * $items;
            let x = bits(N, N as u64);
            let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 4 * N + 3 * $threads));
            done(scans::$kernel::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
            let out = download(&out);
            let inclusive = running(&x, affine);
            let total = inclusive[N - 1];
            let after = |initial: u64| {
                let mut all = running(&[&[initial], &x[..]].concat(), affine);
                all.pop();
                all
            };
            assert_eq!(out[..N], inclusive, "inclusive, {} × {}", $threads, $items);
            assert_eq!(out[N..2 * N], after(5 << 32 | 7), "exclusive, {N}");
            assert_eq!(out[2 * N..3 * N], after(affine(3 << 32 | 1, total)), "prefix, {N}");
            assert_eq!(out[3 * N..4 * N], running(&x, u64::wrapping_add), "sums, {N}");
            assert_eq!(out[4 * N..], vec![total; 3 * $threads], "totals, {N}");
        })*};
    }
    check!(scan_32_1 32 1 scan_96_3 96 3 scan_256_4 256 4 scan_320_2 320 2 scan_1024_1 1024 1);
    check!(scan_128_17 128 17);
}

#[test]
fn a_scan_goes_on_from_tile_to_tile() {
    for n in [1usize, 127, 128, 129, 1009] {
        let x: Vec<u32> = bits(n, 9).iter().map(|&x| x as u32).collect();
        let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), n));
        done(scans::running_scan::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
        let mut expected = running(&[&[0], &x[..]].concat(), u32::wrapping_add);
        expected.pop();
        assert_eq!(download(&out), expected, "{n} elements");
    }
}

#[test]
fn collectives_follow_at_once() {
    for rounds in [0u32, 1, 4] {
        let mut out = poisoned(gpu(), 256);
        done(scans::in_a_row::launch(gpu(), Grid1::new(1), rounds, &mut out));
        let mut values: Vec<u32> = (1..=256).collect();
        for _ in 0..rounds {
            let sum = values.iter().fold(0, |a: u32, &b| a.wrapping_add(b));
            values = (0..256).map(|thread| sum ^ thread).collect();
            values = running(&values, u32::wrapping_add);
            let before = values.clone();
            (0..256).for_each(|t| values[t] ^= if t > 0 { before[t - 1] } else { 77 });
            let chosen = values[200];
            values.iter_mut().for_each(|value| *value = value.wrapping_mul(3) ^ chosen);
            let before = values.clone();
            (0..256).for_each(|t| values[t] ^= *before.get(t + 1).unwrap_or(&55));
        }
        assert_eq!(download(&out), values, "{rounds} rounds");
    }
}

#[test]
fn neighbours_are_found() {
    macro_rules! check {
        ($($kernel:ident $threads:literal $items:literal)*) => {$({
            const N: usize = $threads * $items;
            let x: Vec<i32> = bits(N, 5).iter().map(|x| (x % 3) as i32 - 1).collect();
            let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 4 * N));
            done(scans::$kernel::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
            let out = download(&out);
            let first = |thread: usize| x[thread * $items];
            for thread in 0..$threads {
                let left = if thread == 0 { -2 } else { first(thread - 1) };
                let right = if thread + 1 == $threads { -3 } else { first(thread + 1) };
                assert_eq!((out[thread], out[N + thread]), (left, right), "thread {thread} of {N}");
            }
            for i in 0..N {
                let before = i.checked_sub(1).map(|i| x[i]);
                let head = before.is_none_or(|before| before != x[i]);
                let difference = before.map_or(x[i], |before| x[i] - before);
                let found = (out[2 * N + i], out[3 * N + i]);
                assert_eq!(found, (i32::from(head), difference), "item {i} of {N}");
            }
        })*};
    }
    check!(neighbours_32_1 32 1 neighbours_96_5 96 5 neighbours_1024_2 1024 2);
}

/// Tiles that make sorting hard: without order, in order, reversed, all equal, few values, extremes.
fn hard_tiles(n: usize) -> Vec<u64> {
    let mut random = bits(n, n as u64);
    let mut up = random.clone();
    up.sort_unstable();
    let down: Vec<u64> = up.iter().rev().copied().collect();
    let few: Vec<u64> = random.iter().map(|x| (x >> 7 & 3).wrapping_mul(u64::MAX / 3)).collect();
    let ends: Vec<u64> = random.iter().map(|x| if x & 8 == 0 { 0 } else { u64::MAX }).collect();
    let one_bit: Vec<u64> = random.iter().map(|x| 1 << (x % 64)).collect();
    for tile in [up, down, vec![0x8181_8181_8181_8181; n], few, ends, one_bit] {
        random.extend(tile);
    }
    random
}

/// Sorts on the device and here, by `order` of the keys that the bits stand for.
macro_rules! sort {
    ($($kernel:ident $bits:ty, $n:expr, |$x:ident| $key:expr;)*) => {$({
        let x: Vec<$bits> = hard_tiles($n).iter().map(|&x| (x >> (64 - <$bits>::BITS)) as $bits).collect();
        let blocks = Grid1::new((x.len() / $n) as u32);
        let x_gpu = upload(gpu(), &x);
        let (mut up, mut down) = (poisoned(gpu(), x.len()), poisoned(gpu(), x.len()));
        done(sorts::$kernel::launch(gpu(), blocks, &x_gpu, &mut up, &mut down));
        let mut expected = x.clone();
        let compare = |a: &$bits, b: &$bits| {
            let key = |$x: $bits| $key;
            key(*a).total_order(&key(*b))
        };
        expected.chunks_mut($n).for_each(|tile| tile.sort_by(compare));
        assert_eq!(download(&up), expected, "up, {}", stringify!($kernel));
        expected.chunks_mut($n).for_each(<[$bits]>::reverse);
        assert_eq!(download(&down), expected, "down, {}", stringify!($kernel));
    })*};
}

/// The order in which keys are sorted.
trait TotalOrder {
    fn total_order(&self, other: &Self) -> std::cmp::Ordering;
}

macro_rules! orders {
    ($($compare:ident: $($ty:ty)*;)*) => {$($(
        impl TotalOrder for $ty {
            fn total_order(&self, other: &Self) -> std::cmp::Ordering {
                self.$compare(other)
            }
        }
    )*)*};
}

orders! {
    cmp: u8 i8 u16 i16 u32 i32 u64 i64;
    total_cmp: f16 f32 f64;
}

#[test]
fn keys_are_sorted() {
    sort! {
        sort_u8 u8, 64 * 7, |x| x;
        sort_i8 u8, 32, |x| x as i8;
        sort_u16 u16, 96 * 5, |x| x;
        sort_i16 u16, 128 * 4, |x| x as i16;
        sort_u32 u32, 256 * 8, |x| x;
        sort_i32 u32, 64 * 15, |x| x as i32;
        sort_u64 u64, 128 * 3, |x| x;
        sort_i64 u64, 96 * 2, |x| x as i64;
        sort_u32_1024 u32, 1024 * 2, |x| x;
    }
}

#[test]
fn floats_are_sorted_in_total_order() {
    sort! {
        sort_f16 u16, 64 * 3, |x| f16::from_bits(x);
        sort_f32 u32, 128 * 9, |x| f32::from_bits(x);
        sort_f64 u64, 64 * 4, |x| f64::from_bits(x);
    }
}

#[test]
fn pairs_keep_the_order_of_equal_keys() {
    macro_rules! check {
        ($($kernel:ident $key:ty, $value:ty, $n:expr, $descending:literal;)*) => {$({
            // Few different keys, and values that say where they came from.
            let x: Vec<$key> = hard_tiles($n).iter().map(|&x| (x >> 40) as $key / 5).collect();
            let y: Vec<$value> = (0..x.len()).map(|i| i as $value).collect();
            let blocks = Grid1::new((x.len() / $n) as u32);
            let (x_gpu, y_gpu) = (upload(gpu(), &x), upload(gpu(), &y));
            let (mut keys, mut values) = (poisoned(gpu(), x.len()), poisoned(gpu(), x.len()));
            done(sorts::$kernel::launch(gpu(), blocks, &x_gpu, &y_gpu, &mut keys, &mut values));
            let mut expected: Vec<($key, $value)> = x.into_iter().zip(y).collect();
            for tile in expected.chunks_mut($n) {
                tile.sort_by(|a, b| if $descending { b.0.cmp(&a.0) } else { a.0.cmp(&b.0) });
            }
            let found: Vec<_> = download(&keys).into_iter().zip(download(&values)).collect();
            assert_eq!(found, expected, "{}", stringify!($kernel));
        })*};
    }
    check! {
        pairs_u8_u32 u8, u32, 96 * 4, false;
        pairs_i32_u16 i32, u16, 128 * 6, false;
        pairs_u16_u64 u16, u64, 64 * 5, true;
    }
}

#[test]
fn ranks_are_a_stable_permutation() {
    // Digits have more bits than the four that count.
    let digits: Vec<u32> = bits(480, 11).iter().map(|&x| x as u32).collect();
    let (digits_gpu, mut out) = (upload(gpu(), &digits), poisoned(gpu(), 480));
    done(sorts::ranks::launch(gpu(), Grid1::new(1), &digits_gpu, &mut out));
    let mut order: Vec<usize> = (0..480).collect();
    order.sort_by_key(|&i| digits[i] % 16);
    let mut expected = vec![0u32; 480];
    order.iter().enumerate().for_each(|(rank, &i)| expected[i] = rank as u32);
    assert_eq!(download(&out), expected);
}

#[test]
fn bins_are_counted() {
    for n in [0usize, 1, 79, 80, 81, 5000] {
        let x: Vec<u32> = bits(n, 2).iter().map(|x| (x % 100 * (x % 7) / 6) as u32).collect();
        let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 100));
        done(sorts::histogram::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
        let mut expected = vec![0u32; 100];
        x.iter().for_each(|&bin| expected[bin as usize] += if bin % 2 == 0 { 2 } else { 1 });
        assert_eq!(download(&out), expected, "{n} samples");
    }
}

/// Copies of inputs of every hard length, in a grid of two blocks.
fn copied<T: Pod + PartialEq + Debug>(
    tile: usize,
    value: impl Fn(u64) -> T,
    launch: impl Fn(u32, T, &ferrowarp::DeviceBuffer<T>, [&mut ferrowarp::DeviceBuffer<T>; 3]),
) {
    for len in [1, tile - 1, tile, tile + 1, 2 * tile, 5 * tile + 3] {
        for from in [0, 1, 4] {
            let x: Vec<T> = bits(len, 4).into_iter().map(&value).collect();
            let x_gpu = upload(gpu(), &x);
            let [mut a, mut b, mut c] = [(); 3].map(|()| poisoned(gpu(), len));
            let from = from.min(len);
            launch(from as u32, value(7), &x_gpu, [&mut a, &mut b, &mut c]);
            let mut expected = x[from..].to_vec();
            expected.resize(len, value(7));
            for (out, name) in [(a, "first"), (b, "second"), (c, "third")] {
                assert_eq!(download(&out), expected, "{name} of {len} from {from}");
            }
        }
    }
}

#[test]
fn tiles_come_back_as_they_went() {
    macro_rules! check {
        ($($kernel:ident $tile:expr, $value:expr;)*) => {$(
            copied($tile, $value, |from, fallback, x, [a, b, c]| {
                done(tiles::$kernel::launch(gpu(), Grid1::new(2), from, fallback, x, a, b, c));
            });
        )*};
    }
    check! {
        copy_u8 64 * 5, |x| x as u8;
        copy_u16 96 * 2, |x| x as u16;
        copy_u32 128 * 4, |x| x as u32;
        copy_f64 32 * 3, |x| (x >> 20) as f64;
        copy_u32_33 64 * 33, |x| x as u32;
    }
}

#[test]
fn vectors_come_back_as_they_went() {
    macro_rules! check {
        ($($kernel:ident $tile:expr, $value:expr;)*) => {$(
            copied($tile, $value, |from, fallback, x, outs| {
                for out in outs {
                    done(tiles::$kernel::launch(gpu(), Grid1::new(2), from, fallback, x, out));
                }
            });
        )*};
    }
    check! {
        vectors_u8 64 * 8, |x| x as u8;
        vectors_f32 128 * 4, |x| (x >> 44) as f32;
        vectors_u64 32 * 12, |x| x;
    }
}

#[test]
fn the_second_store_stands() {
    let mut out = poisoned(gpu(), 192);
    done(tiles::stored_twice::launch(gpu(), Grid1::new(1), &mut out));
    assert_eq!(download(&out), (0..192).map(|i| 1000 + i / 3).collect::<Vec<u32>>());
}

#[test]
fn a_sort_by_some_bits_leaves_the_others_alone() {
    macro_rules! check {
        ($($kernel:ident $key:ty, $value:ty, $n:expr, |$k:ident| $seen:expr;)*) => {$({
            let x: Vec<$key> = hard_tiles($n).iter().map(|&x| x as $key).collect();
            let y: Vec<$value> = (0..x.len()).map(|i| i as $value).collect();
            let blocks = Grid1::new((x.len() / $n) as u32);
            let (x_gpu, y_gpu) = (upload(gpu(), &x), upload(gpu(), &y));
            let (mut keys, mut values) = (poisoned(gpu(), x.len()), poisoned(gpu(), x.len()));
            done(sorts::$kernel::launch(gpu(), blocks, &x_gpu, &y_gpu, &mut keys, &mut values));
            let mut expected: Vec<($key, $value)> = x.into_iter().zip(y).collect();
            for tile in expected.chunks_mut($n) {
                tile.sort_by_key(|($k, _)| $seen);
            }
            let found: Vec<_> = download(&keys).into_iter().zip(download(&values)).collect();
            assert_eq!(found, expected, "{}", stringify!($kernel));
        })*};
    }
    check! {
        bits_u32 u32, u32, 96 * 5, |k| k >> 7 & 0x3ff;
        // The sign is the highest bit, and negative numbers come first.
        bits_i16 i16, u16, 64 * 3, |k| k >> 13;
        bits_u64 u64, u16, 64 * 4, |k| std::cmp::Reverse(k >> 20 & ((1 << 41) - 1));
    }
}

#[test]
fn a_key_may_be_narrower_than_its_bits() {
    let x: Vec<u8> = bits(256, 5).iter().map(|&x| x as u8).collect();
    let (x_gpu, mut out) = (upload(gpu(), &x), poisoned(gpu(), 256));
    done(sorts::wide_bits::launch(gpu(), Grid1::new(1), &x_gpu, &mut out));
    let mut expected = x;
    expected.sort_unstable();
    assert_eq!(download(&out), expected);
}

/// With the `memory` check alone: the others name the cause, a barrier that threads have left before.
#[test]
fn a_sort_that_threads_have_left_stays_in_its_memory() {
    run_alone("left_early", &[("FERROWARP_CHECK", "memory")]);
}

#[test]
#[ignore = "in a process of its own, with other checks"]
fn left_early() {
    let mut out = poisoned::<u32>(gpu(), 512);
    done(sorts::left_early::launch(gpu(), Grid1::new(1), &mut out));
    // The keys are the threads' numbers or anything; the tiles of those that left are as they were.
    assert_eq!(download(&out)[256..], [0xa5a5_a5a5; 256]);
}

#[test]
fn a_panic_before_a_sort_is_an_error_and_the_device_lives_on() {
    // A stream of its own: whoever waits for a kernel that panicked is told.
    let stream = gpu().create_stream().unwrap();
    let x = DeviceBuffer::from_slice(&stream, &[7u32; 500]).unwrap();
    let mut out = DeviceBuffer::<u32>::zeroed(&stream, 512).unwrap();
    done(sorts::after_a_panic::launch(&stream, Grid1::new(1), &x, &mut out));
    let error = stream.synchronize().expect_err("500 elements for 512");
    let panic = error.panic().unwrap_or_else(|| panic!("not a panic: {error}"));
    assert!(panic.message.contains("the len is 500"), "{panic}");
    let x = DeviceBuffer::from_slice(&stream, &[7u32; 512]).unwrap();
    done(sorts::after_a_panic::launch(&stream, Grid1::new(1), &x, &mut out));
    assert_eq!(download(&out), [7; 512]);
}
