//! The selections against loops on the CPU: exact, whatever order the blocks start in.

use bytemuck::Pod;
use cuda_std::launch::Instance;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::select::{self, Above, Flagged, Nonzero, Selector, Unique};
use ferrowarp::ops::{Number, Scratch};
use kernels_gpu::select::{run_lengths, tile_len};
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{SIZES, gpu, poisoned, rng, upload};

/// Around one tile of `T`, and around the 32 tiles of a group.
fn sizes<T>() -> Vec<usize> {
    let tile = tile_len::<T>();
    let tiles = [tile - 1, tile, tile + 1, 3 * tile + 77, 32 * tile, 33 * tile + 1];
    SIZES.into_iter().take(11).chain(tiles).collect()
}

/// Percentages that are kept.
const KEPT: [u32; 5] = [0, 1, 50, 99, 100];

/// Selects and partitions `x`, of which element `i` is kept if `keeps(i)`.
#[track_caller]
fn check<T: Pod + PartialEq>(
    selector: impl Selector<T> + Copy,
    x: &[T],
    keeps: impl Fn(usize) -> bool,
    what: &str,
) {
    let (kept, mut others) = reference::select::split(x, keeps);
    let on_device = upload(x);
    let found = select::by(gpu(), selector, &on_device).unwrap().to_vec().unwrap();
    assert!(found == kept, "{what}: {} of {}", found.len(), kept.len());
    let (parts, count) = select::partition(gpu(), selector, &on_device).unwrap();
    others.reverse();
    let parts = parts.to_vec().unwrap();
    assert!(count == kept.len() && parts == [kept, others].concat(), "{what}: partition");
}

/// Random flags, so many of 100 set, with any other bits.
fn flags(rng: &mut StdRng, n: usize, percent: u32) -> Vec<u8> {
    let mut flag = || if rng.random_ratio(percent, 100) { rng.random_range(1..=255) } else { 0 };
    (0..n).map(|_| flag()).collect()
}

/// Elements of any bits at every size and share, by flags.
fn by_flags<T: Pod + PartialEq>(rng: &mut StdRng)
where
    for<'a> Flagged<'a, DeviceBuffer<u8>>: Selector<T>,
{
    for n in sizes::<T>() {
        let bytes: Vec<u8> = (0..n * size_of::<T>()).map(|_| rng.random()).collect();
        let x: Vec<T> = bytemuck::pod_collect_to_vec(&bytes);
        for percent in if n > 20_000 { &KEPT[2..3] } else { &KEPT[..] } {
            let flags = flags(rng, n, *percent);
            let what = format!("{percent}% of {n} elements of {} bytes", size_of::<T>());
            check(Flagged(&upload(&flags)), &x, |i| flags[i] != 0, &what);
        }
    }
}

#[test]
fn flagged_words() {
    by_flags::<u32>(&mut rng());
}

#[test]
fn flagged_doubles() {
    by_flags::<u64>(&mut rng());
}

#[test]
fn flagged_bytes() {
    let mut rng = rng();
    for n in [0, 1, 33, 16_383, 16_385, 40_000] {
        let (x, flags): (Vec<i8>, _) =
            ((0..n).map(|_| rng.random()).collect(), flags(&mut rng, n, 40));
        check(Flagged(&upload(&flags)), &x, |i| flags[i] != 0, &format!("{n} bytes"));
    }
}

/// Flags come to shared memory beside the elements, where both begin at a multiple of 16 bytes.
#[test]
fn flags_begin_anywhere() {
    let mut rng = rng();
    let n = 2 * tile_len::<u32>() + 100;
    let (x, all): (Vec<u32>, _) =
        ((0..n).map(|_| rng.random()).collect(), flags(&mut rng, n + 16, 50));
    let on_device = upload(&all);
    for from in [0, 1, 4, 16] {
        let flags = on_device.slice(from..from + n);
        check(Flagged(&flags), &x, |i| all[from + i] != 0, &format!("flags from {from}"));
    }
}

#[test]
fn above_a_threshold() {
    let mut rng = rng();
    for n in sizes::<u32>() {
        let x: Vec<u32> = (0..n).map(|_| rng.random()).collect();
        check(Above(1 << 31), &x, |i| x[i] > 1 << 31, &format!("{n} elements"));
    }
    let x: Vec<i32> = (0..9000).map(|_| rng.random_range(-5..5)).collect();
    check(Above(-2), &x, |i| x[i] > -2, "signed");
    let mut x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    (x[7], x[4000], x[5000]) = (f32::INFINITY, f32::NEG_INFINITY, -0.0);
    check(Above(0.0), &x, |i| x[i] > 0.0, "floats");
    x[8000] = f32::NAN;
    let found = select::by(gpu(), Above(f32::NEG_INFINITY), &upload(&x)).unwrap();
    assert_eq!(found.len(), 9000 - 2, "neither a NaN nor the infinity itself is greater");
}

#[test]
fn not_zero() {
    let mut rng = rng();
    for n in [0, 1, 100, 4096, 20_001] {
        let x: Vec<u8> = (0..n).map(|_| rng.random_range(0..3)).collect();
        check(Nonzero, &x, |i| x[i] != 0, "bytes");
        let x: Vec<i32> = x.iter().map(|&x| i32::from(x) - 1).collect();
        check(Nonzero, &x, |i| x[i] != 0, "words");
        let mut x: Vec<f32> = x.iter().map(|&x| -(x as f32)).collect();
        if let Some(first) = x.first_mut() {
            *first = f32::from_bits(1);
        }
        check(Nonzero, &x, |i| x[i] != 0.0, "floats, a subnormal and zeros of either sign");
    }
}

/// Random runs of lengths up to `longest`.
fn random_runs(rng: &mut StdRng, n: usize, longest: usize) -> Vec<u8> {
    let mut x = Vec::with_capacity(n);
    while x.len() < n {
        let (value, length) = (rng.random_range(0..4), rng.random_range(1..=longest));
        x.extend(std::iter::repeat_n(value, length.min(n - x.len())));
    }
    x
}

/// Both ways to look at runs, of elements that are made of small numbers.
#[track_caller]
fn check_runs<T: Number + PartialEq>(small: &[u8], of: impl Fn(u8) -> T)
where
    Unique: Selector<T>,
    run_lengths<T::Bits>: Instance,
{
    let x: Vec<T> = small.iter().map(|&x| of(x)).collect();
    let runs = reference::select::runs(&x);
    check(Unique, &x, |i| i == 0 || x[i] != x[i - 1], "unique");
    let (values, lengths) = select::run_lengths(gpu(), &upload(&x)).unwrap();
    let found = values.to_vec().unwrap().into_iter().zip(lengths.to_vec().unwrap());
    assert!(found.eq(runs.iter().copied()), "{} elements, {} runs", x.len(), runs.len());
}

#[test]
fn runs_of_equal_elements() {
    let mut rng = rng();
    for (n, longest) in [(0, 1), (1, 1), (5000, 1), (9000, 3), (20_001, 300), (70_000, 30_000)] {
        let small = random_runs(&mut rng, n, longest);
        check_runs(&small, |x| x);
        check_runs(&small, |x| u32::from(x) << 30);
        check_runs(&small, |x| -i64::from(x));
        check_runs(&small, |x| f64::from(x) + 0.5);
    }
    // One run through many tiles, and its end.
    let mut one = vec![7u8; 150_000];
    check_runs(&one, u32::from);
    one[149_999] = 8;
    check_runs(&one, u32::from);
    check_runs(&one, |x| x);
}

#[test]
fn floats_are_compared_by_their_bits() {
    let x = [0.0, -0.0, f32::NAN, f32::NAN, 1.0];
    let found = select::by(gpu(), Unique, &upload(&x)).unwrap().to_vec().unwrap();
    let bits: Vec<u32> = found.iter().map(|x| x.to_bits()).collect();
    assert_eq!(bits, [0.0, -0.0, f32::NAN, 1.0].map(f32::to_bits));
}

#[test]
fn any_alignment_and_room() {
    let mut rng = rng();
    let x: Vec<u32> = (0..20_000).map(|_| rng.random()).collect();
    let (on_device, mut scratch) = (upload(&x), Scratch::new(gpu()).unwrap());
    for (from, to, room) in [(1, 0, 20_000), (0, 1, 19_999), (3, 3, 5000), (5, 2, 0)] {
        let (mut out, mut count) = (poisoned::<u32>(20_000), poisoned::<u64>(1));
        let poison = out.to_vec().unwrap()[0];
        let (source, mut target) = (on_device.slice(from..), out.slice_mut(to..to + room));
        let above = Above(1 << 31);
        select::by_into(gpu(), above, &source, &mut target, &mut count, &mut scratch).unwrap();
        let kept = reference::select::split(&x[from..], |i| x[from + i] > 1 << 31).0;
        assert_eq!(count.to_vec().unwrap(), [kept.len() as u64]);
        let (found, fits) = (out.to_vec().unwrap(), kept.len().min(room));
        assert_eq!(found[to..to + fits], kept[..fits]);
        assert!(found[..to].iter().chain(&found[to + fits..]).all(|&left| left == poison));
    }
}

#[test]
fn plain_form() {
    let mut rng = rng();
    for n in [0, 1, 255, 256, 257, 5000] {
        let x: Vec<u32> = (0..n).map(|_| rng.random()).collect();
        let (mut out, mut count) = (poisoned(n), poisoned(1));
        select::running_into(gpu(), Above(1 << 30), &upload(&x), &mut out, &mut count).unwrap();
        let kept = reference::select::split(&x, |i| x[i] > 1 << 30).0;
        assert_eq!(count.to_vec().unwrap(), [kept.len() as u64]);
        assert_eq!(out.to_vec().unwrap()[..kept.len()], kept);
    }
}

/// Scratch that selections of several lengths, none among them, and run lengths share.
#[test]
fn scratch_serves_again() {
    let mut scratch = Scratch::new(gpu()).unwrap();
    let tile = tile_len::<u32>();
    for n in [20 * tile + 1, 0, 3, 0, 0, 20 * tile, tile + 5, 33 * tile] {
        let x: Vec<u32> = (0..n as u32).map(|i| i % 7 / 3).collect();
        let (on_x, mut out) = (upload(&x), poisoned::<u32>(n));
        let (mut lengths, mut count) = (poisoned::<u32>(n), poisoned::<u64>(1));
        select::by_into(gpu(), Nonzero, &on_x, &mut out, &mut count, &mut scratch).unwrap();
        let kept = x.iter().filter(|&&x| x != 0).copied().collect::<Vec<_>>();
        assert_eq!(count.to_vec().unwrap(), [kept.len() as u64], "of {n}");
        assert!(out.to_vec().unwrap()[..kept.len()] == kept, "of {n}");
        let runs = reference::select::runs(&x);
        let to = (&mut out, &mut lengths, &mut count);
        select::run_lengths_into(gpu(), &on_x, to.0, to.1, to.2, &mut scratch).unwrap();
        assert_eq!(count.to_vec().unwrap(), [runs.len() as u64], "runs of {n}");
        let found = out.to_vec().unwrap().into_iter().zip(lengths.to_vec().unwrap());
        assert!(found.take(runs.len()).eq(runs.iter().copied()), "runs of {n}");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let (x, mut scratch) = (upload(&[1u32; 100]), Scratch::new(gpu()).unwrap());
    let flags = upload(&[1u8; 99]);
    let short = select::by(gpu(), Flagged(&flags), &x).unwrap_err().to_string();
    assert_eq!(short, "the flags of a selection: 100 elements are needed, 99 were given");
    let (mut out, mut count) = (poisoned(99), poisoned(1));
    let parts = select::partition_into(gpu(), Nonzero, &x, &mut out, &mut count, &mut scratch);
    let expected = "partition: 100 elements are needed, 99 were given";
    assert_eq!(parts.unwrap_err().to_string(), expected);
    let mut counts = poisoned(2);
    let two = select::by_into(gpu(), Nonzero, &x, &mut out, &mut counts, &mut scratch);
    let expected = "the count of a selection: 1 elements are needed, 2 were given";
    assert_eq!(two.unwrap_err().to_string(), expected);
}

#[test]
#[ignore = "needs 10 GB of device memory"]
fn more_than_four_billion_elements() {
    let n = (1usize << 32) + 5;
    let mut x = vec![0u8; n];
    let places = [3, 1 << 31, (1 << 32) - 1, 1 << 32, n - 1];
    for (value, &place) in (1..).zip(&places) {
        x[place] = value;
    }
    let x = DeviceBuffer::from_slice(gpu(), &x).unwrap();
    assert_eq!(select::by(gpu(), Nonzero, &x).unwrap().to_vec().unwrap(), [1, 2, 3, 4, 5]);
    let (values, lengths) = select::run_lengths(gpu(), &x).unwrap();
    assert_eq!(values.to_vec().unwrap(), [0, 1, 0, 2, 0, 3, 4, 0, 5]);
    let lengths = lengths.to_vec().unwrap();
    assert_eq!(lengths, [3, 1, (1 << 31) - 4, 1, (1 << 31) - 2, 1, 1, 3, 1]);
}
