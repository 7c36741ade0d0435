//! The scans against a loop on the CPU, whatever order the blocks start in.
//!
//! Integers are exact. A float sum that is a whole number below 2^24 is exact too; other ones are compared
//! with sums in f64. Its error: an element's sum passes through at most 4 additions in its pack, 5 over the lanes,
//! 8 over the warp's packs, 3 over the warps, 5 over the tiles of a group, one for each group of 2^18 elements, and 2 to
//! join tile and warp with what comes before: fewer than 64 up to 2^23 elements, each within 2^-24 of the sum of magnitudes
//! up to there.

use bytemuck::Pod;
use std::process::Command;

use cuda_std::launch::Grid1;
use cuda_std::{bf16, f16};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::scan::{self, Compose, Form, Max, Min, ScanOperator, Sum};
use ferrowarp::ops::select::{self, Above};
use kernels_gpu::scan::carry::Segmented;
use kernels_gpu::scan::look_ahead::KEPT_WORDS;
use kernels_gpu::scan::ring::SQUAD;
use kernels_gpu::scan::{self as kernels, scan_by_key, scan_tiles, scratch_len, shared_bytes};
use rand::RngExt;

use crate::support::{SIZES, floats, gpu, poisoned, rng, upload};

const FORMS: [Form; 2] = [Form::Inclusive, Form::Exclusive];

/// Elements in a tile of a scan that is not one of segments.
fn tile_len<T>() -> usize {
    kernels::tile_len::<T, u32>()
}

/// Around one tile of `T`, a warp's part of it, and the 32 tiles of a group.
fn sizes<T>() -> Vec<usize> {
    let tile = tile_len::<T>();
    let tiles = [1, 2, 32, 33].into_iter().flat_map(|n| [n * tile - 1, n * tile, n * tile + 1]);
    let part = tile / SQUAD;
    SIZES.into_iter().take(13).chain([part - 1, part, part + 1]).chain(tiles).collect()
}

fn found<T: Pod, O: ScanOperator<T>>(operator: O, form: Form, x: &[T]) -> Vec<T> {
    scan::by(gpu(), operator, form, &upload(x)).unwrap().to_vec().unwrap()
}

/// Scans random elements of every size in both forms, and compares with joins in `J`.
#[track_caller]
fn exact<T, J, O>(
    operator: O,
    sizes: &[usize],
    start: J,
    join: impl Fn(J, T) -> J,
    lower: fn(J) -> T,
) where
    T: Pod + PartialEq + std::fmt::Debug,
    J: Copy,
    O: ScanOperator<T> + Copy,
{
    let mut rng = rng();
    for &n in sizes {
        let mut bytes = vec![0u8; n * size_of::<T>()];
        rng.fill(&mut bytes[..]);
        let x: Vec<T> = bytemuck::pod_collect_to_vec(&bytes);
        for form in FORMS {
            let joined = reference::scan::by(&x, start, &join, form == Form::Inclusive);
            let expected: Vec<T> = joined.into_iter().map(lower).collect();
            assert!(found(operator, form, &x) == expected, "{n} elements, {form:?}");
        }
    }
}

#[test]
fn sums_of_integers() {
    let few = |tile: usize| vec![0, 1, 33, tile - 1, tile, 3 * tile + 5];
    exact(Sum, &sizes::<u32>(), 0u32, u32::wrapping_add, |sum| sum);
    exact(Sum, &few(tile_len::<u8>()), 0u64, |sum, x: u8| sum + u64::from(x), |sum| sum as u8);
    exact(Sum, &few(tile_len::<u8>()), 0i64, |sum, x: i8| sum + i64::from(x), |sum| sum as i8);
    exact(Sum, &few(tile_len::<u16>()), 0u64, |sum, x: u16| sum + u64::from(x), |sum| sum as u16);
    exact(Sum, &few(tile_len::<u16>()), 0i64, |sum, x: i16| sum + i64::from(x), |sum| sum as i16);
    exact(Sum, &few(tile_len::<u32>()), 0i64, |sum, x: i32| sum + i64::from(x), |sum| sum as i32);
    exact(Sum, &few(tile_len::<u64>()), 0u64, u64::wrapping_add, |sum| sum);
    exact(Sum, &few(tile_len::<u64>()), 0i128, |sum, x: i64| sum + i128::from(x), |sum| sum as i64);
}

#[test]
fn largest_and_smallest() {
    let sizes = [0, 1, 33, 4095, 4097, 40_000];
    exact(Max, &sizes, i32::MIN, i32::max, |max| max);
    exact(Max, &sizes, 0, u32::max, |max| max);
    exact(Min, &sizes, i32::MAX, i32::min, |min| min);
    exact(Min, &sizes, u32::MAX, u32::min, |min| min);
    let x: Vec<f32> = floats(&mut rng(), 10_001).iter().map(|x| 1.0 / x).collect();
    for form in FORMS {
        let is_inclusive = form == Form::Inclusive;
        let highest = reference::scan::by(&x, f32::NEG_INFINITY, f32::max, is_inclusive);
        assert_eq!(found(Max, form, &x), highest);
        assert_eq!(
            found(Min, form, &x),
            reference::scan::by(&x, f32::INFINITY, f32::min, is_inclusive)
        );
    }
}

/// Affine maps one behind the other: what comes first matters.
#[test]
fn operators_need_not_commute() {
    let compose =
        |[a, b]: [u32; 2], [c, d]: [u32; 2]| [a.wrapping_mul(c), b.wrapping_mul(c).wrapping_add(d)];
    exact(Compose, &[0, 1, 33, 2047, 2049, 70_001], [1, 0], compose, |map| map);
    // A recurrence: each number is half of the one before, and one more.
    let halves = found(Compose, Form::Inclusive, &[[0.5f32, 1.0]; 5000]);
    assert_eq!((halves[0], halves[1]), ([0.5, 1.0], [0.25, 1.5]));
    assert!((halves[4999][1] - 2.0).abs() < 1e-5);
}

/// A block that takes a tile for the first time when 300 were said: more than it looks up at a time.
#[test]
fn a_block_that_begins_late() {
    let tile = tile_len::<u32>();
    let (said, n) = (300, 302 * tile - 5);
    let x: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let sums = reference::scan::by(&x, 0, u32::wrapping_add, true);
    // The ticket, and of each tile the sum of its own, with the bit that says so.
    let own = |tile: &[u32]| 1 << 32 | u64::from(tile.iter().copied().fold(0, u32::wrapping_add));
    let mut states = vec![said as u64];
    states.extend(x.chunks(tile).take(said).map(own));
    states.resize(scratch_len::<u32, u32>(n), 0);
    let (mut states, mut out) = (upload(&states), poisoned::<u32>(n));
    let poison = out.to_vec().unwrap()[0];
    let grid = Grid1::new(2).shared_mem(shared_bytes(0) as u32);
    // SAFETY: the states are as a scan has them that has taken so many tiles.
    unsafe {
        scan_tiles::<u32, Sum>::launch(gpu(), grid, &upload(&x), false, &mut states, &mut out)
    }
    .unwrap();
    let found = out.to_vec().unwrap();
    assert!(found[..said * tile].iter().all(|&left| left == poison));
    assert!(found[said * tile..] == sums[said * tile..]);
}

/// Scans of several lengths with the same words, of which one half holds what an earlier scan could have left.
#[test]
fn words_serve_again() {
    let tile = tile_len::<u32>();
    let half = scratch_len::<u32, u32>(40 * tile) / 2;
    // As if the scan before had used all of the second half.
    let mut words = vec![0u64; 1 + half];
    words[0] = (half as u64) << 32;
    words.extend(vec![1 << 32 | 12_345; half]);
    let mut words = upload(&words);
    for tiles in [2, 40, 1, 1, 39, 40, 3, 40] {
        let n = tiles * tile - 7;
        let x: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
        let mut out = poisoned::<u32>(n);
        let grid = Grid1::new(tiles.min(3) as u32).shared_mem(shared_bytes(0) as u32);
        // SAFETY: the words are as a scan left them.
        unsafe {
            scan_tiles::<u32, Sum>::launch(gpu(), grid, &upload(&x), true, &mut words, &mut out)
        }
        .unwrap();
        let sums = reference::scan::by(&x, 0, u32::wrapping_add, false);
        assert!(out.to_vec().unwrap() == sums, "{tiles} tiles");
    }
}

#[test]
fn float_sums_are_near() {
    let mut rng = rng();
    for n in sizes::<f32>() {
        let x = floats(&mut rng, n);
        let sums = reference::scan::by(&x, 0.0, |sum: f64, x| sum + f64::from(x), true);
        let sizes = reference::scan::by(&x, 0.0, |sum: f64, x: f32| sum + f64::from(x.abs()), true);
        for (i, found) in found(Sum, Form::Inclusive, &x).into_iter().enumerate() {
            let allowed = 64.0 * 2.0_f64.powi(-24) * sizes[i];
            let error = (f64::from(found) - sums[i]).abs();
            assert!(error <= allowed, "{n} elements: {error:e} at {i}, allowed {allowed:e}");
        }
    }
}

#[test]
fn small_numbers_are_exact_in_every_float() {
    let mut rng = rng();
    for n in [1, 255, 4097, 9000, 20_001] {
        let x: Vec<i32> = (0..n).map(|_| rng.random_range(-3..=3)).collect();
        for form in FORMS {
            let sums = reference::scan::by(&x, 0, |sum, x: i32| sum + x, form == Form::Inclusive);
            let narrow: Vec<f32> = x.iter().map(|&x| x as f32).collect();
            let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
            let same =
                |found: Vec<f64>| found.into_iter().eq(sums.iter().map(|&sum| f64::from(sum)));
            assert!(same(found(Sum, form, &wide)), "f64, {n}");
            assert!(
                same(found(Sum, form, &narrow).into_iter().map(f64::from).collect()),
                "f32, {n}"
            );
            // Halves are added in f32, and each sum is rounded once.
            let halves: Vec<f16> = narrow.iter().map(|&x| f16::from_f32(x)).collect();
            let expected = sums.iter().map(|&sum| f16::from_f32(sum as f32));
            assert!(found(Sum, form, &halves).into_iter().eq(expected), "f16, {n}");
            let halves: Vec<bf16> = narrow.iter().map(|&x| bf16::from_f32(x)).collect();
            let expected = sums.iter().map(|&sum| bf16::from_f32(sum as f32));
            assert!(found(Sum, form, &halves).into_iter().eq(expected), "bf16, {n}");
        }
    }
}

#[test]
fn nan_and_infinity_stay_from_where_they_are() {
    let mut x = vec![1.0f32; 9000];
    (x[5000], x[8000]) = (f32::INFINITY, f32::NEG_INFINITY);
    let sums = found(Sum, Form::Inclusive, &x);
    assert_eq!((sums[4999], sums[5000], sums[7999]), (5000.0, f32::INFINITY, f32::INFINITY));
    assert!(sums[8000..].iter().all(|sum| sum.is_nan()));
    // Of a largest and a smallest, a NaN is no candidate.
    x[100] = f32::NAN;
    let highest = found(Max, Form::Inclusive, &x);
    assert_eq!((highest[100], highest[4999], highest[5000]), (1.0, 1.0, f32::INFINITY));
    assert_eq!(found(Max, Form::Inclusive, &[f32::NAN; 3]), [f32::NEG_INFINITY; 3]);
}

#[test]
fn every_alignment_of_input_and_output() {
    let mut rng = rng();
    let x: Vec<u16> = (0..20_000).map(|_| rng.random()).collect();
    let (on_device, mut scratch) = (upload(&x), Scratch::new(gpu()).unwrap());
    for (from, to) in [(0, 1), (1, 0), (3, 3), (4, 4), (7, 2), (8, 8), (8, 0)] {
        let n = x.len() - 8;
        let mut out = poisoned::<u16>(x.len());
        let poison = out.to_vec().unwrap()[0];
        let (source, mut target) = (on_device.slice(from..from + n), out.slice_mut(to..to + n));
        scan::inclusive_into(gpu(), &source, &mut target, &mut scratch).unwrap();
        let sums = reference::scan::by(&x[from..from + n], 0, u16::wrapping_add, true);
        let found = out.to_vec().unwrap();
        assert_eq!(found[to..to + n], sums, "from {from} to {to}");
        assert!(found[..to].iter().chain(&found[to + n..]).all(|&left| left == poison));
    }
}

/// The fingerprint of the sums of 300,007 floats.
fn sums_of_lcg() -> u64 {
    let mut state = 1_u32;
    let x: Vec<f32> = (0..300_007)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / 16_777_216.0 - 0.5
        })
        .collect();
    fingerprint(&found(Sum, Form::Inclusive, &x))
}

/// What is added to what depends on the length alone: this is one number, found once on the emulator.
const SUMS_OF_LCG: u64 = 10_774_256_745_531_508_897;

#[test]
fn the_same_bits_on_every_device_and_again_and_again() {
    assert_eq!([sums_of_lcg(), sums_of_lcg()], [SUMS_OF_LCG; 2]);
}

/// Blocks from the last to the first and in random orders, on one CPU thread and on all.
#[test]
fn in_whatever_order_blocks_run() {
    for (schedule, one_cpu) in
        [("reversed", true), ("reversed", false), ("random:1", true), ("random:2", false)]
    {
        // Only Linux has the program that starts another on one CPU.
        let one_cpu = one_cpu && cfg!(target_os = "linux");
        let program = std::env::current_exe().unwrap();
        let mut command = Command::new(if one_cpu { "taskset".into() } else { program.clone() });
        if one_cpu {
            command.arg("--cpu-list").arg(first_cpu()).arg(program);
        }
        command.env("FERROWARP_SCHEDULE", schedule);
        passes_alone(command, "under_a_schedule", schedule);
    }
}

/// Runs one of the tests that are ignored here, on the emulator, in the process that `command` starts.
fn passes_alone(mut command: Command, test: &str, what: &str) {
    let test = format!("scan::{test}");
    command
        .args(["--ignored", "--exact", &test, "--nocapture"])
        .env("FERROWARP_DEVICE", "emulator");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{what}: {text}{errors}");
}

/// A tile that is taken already, and of which nobody says anything: the emulator does not wait for it either.
#[test]
fn a_tile_that_nobody_works_on_is_reported() {
    let program = Command::new(std::env::current_exe().unwrap());
    passes_alone(program, "without_the_first_tile", "a process of its own");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn without_the_first_tile() {
    let n = 3 * tile_len::<u32>();
    let mut states = vec![0; scratch_len::<u32, u32>(n)];
    states[0] = 1;
    let (x, mut states, mut out) = (upload(&vec![1; n]), upload(&states), poisoned::<u32>(n));
    let grid = Grid1::new(2).shared_mem(shared_bytes(0) as u32);
    // SAFETY: the states are as a scan has them that has taken a tile.
    unsafe { scan_tiles::<u32, Sum>::launch(gpu(), grid, &x, false, &mut states, &mut out) }
        .unwrap();
    let error = gpu().synchronize().unwrap_err().to_string();
    assert!(error.contains("deadlock") && error.contains("again and again"), "{error}");
    // Their device is lost, and says so at every drop.
    std::mem::forget((x, states, out));
}

/// The number of a CPU that this process may use.
fn first_cpu() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    list.trim().chars().take_while(char::is_ascii_digit).collect()
}

#[test]
#[ignore = "run in processes of its own by the test above"]
fn under_a_schedule() {
    let n = 34 * tile_len::<u64>() + 5;
    let x: Vec<u64> = (0..n as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let expected = reference::scan::by(&x, 0, u64::wrapping_add, false);
    assert!(found(Sum, Form::Exclusive, &x) == expected);
    assert_eq!(sums_of_lcg(), SUMS_OF_LCG);
    let small: Vec<u32> = x.iter().map(|x| (x >> 61) as u32).collect();
    let keys: Vec<u32> = (0..n as u32).map(|i| i / 1000).collect();
    let is_head = |i: usize| i.is_multiple_of(1000);
    let sums = reference::scan::segments(&small, 0, |a, b| a + b, is_head, true);
    let found = scan::by_key(gpu(), Sum, Form::Inclusive, &upload(&small), &upload(&keys)).unwrap();
    assert!(found.to_vec().unwrap() == sums);
    let (kept, mut others) = reference::select::split(&small, |i| small[i] > 2);
    others.reverse();
    let (parts, count) = select::partition(gpu(), Above(2), &upload(&small)).unwrap();
    assert!(count == kept.len() && parts.to_vec().unwrap() == [kept, others].concat());
    let (values, lengths) = select::run_lengths(gpu(), &upload(&small)).unwrap();
    let found = values.to_vec().unwrap().into_iter().zip(lengths.to_vec().unwrap());
    assert!(found.eq(reference::select::runs(&small)));
}

/// A number that other bits anywhere change.
fn fingerprint<T: Pod>(found: &[T]) -> u64 {
    let bytes: &[u8] = bytemuck::cast_slice(found);
    let mix = |hash: u64, &byte: &u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[test]
fn plain_form() {
    let mut rng = rng();
    for n in SIZES.into_iter().take(14) {
        let x: Vec<u32> = (0..n).map(|_| rng.random()).collect();
        for form in FORMS {
            let mut out = poisoned(n);
            scan::running_into(gpu(), Sum, form, &upload(&x), &mut out).unwrap();
            let sums = reference::scan::by(&x, 0, u32::wrapping_add, form == Form::Inclusive);
            assert_eq!(out.to_vec().unwrap(), sums, "{n} elements, {form:?}");
        }
        let x = floats(&mut rng, n);
        let mut out: DeviceBuffer<f32> = poisoned(n);
        scan::running_into(gpu(), Max, Form::Inclusive, &upload(&x), &mut out).unwrap();
        assert_eq!(
            out.to_vec().unwrap(),
            reference::scan::by(&x, f32::NEG_INFINITY, f32::max, true)
        );
    }
}

/// Flags of segments of random lengths, and the offsets at which they begin.
fn random_segments(rng: &mut impl RngExt, n: usize, mean: u32) -> (Vec<u8>, Vec<u64>) {
    let heads: Vec<u8> = (0..n).map(|_| u8::from(rng.random_ratio(1, mean))).collect();
    let offsets = (0..n).filter(|&i| heads[i] != 0).map(|i| i as u64).collect();
    (heads, offsets)
}

#[test]
fn segments_are_told_by_flags_offsets_and_keys() {
    let mut rng = rng();
    for (n, mean) in [(0, 1), (1, 1), (4097, 3), (9000, 1), (20_000, 5000), (70_001, 40_000)] {
        let (heads, mut offsets) = random_segments(&mut rng, n, mean);
        let x: Vec<i32> = (0..n).map(|_| rng.random_range(-9..=9)).collect();
        let floats: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        let wide: Vec<f64> = x.iter().map(|&x| f64::from(x)).collect();
        let keys = reference::scan::by(&heads, 0u32, |key, head| key + u32::from(head), true);
        let wide_keys: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 32).collect();
        // Empty segments have an offset twice; one behind the last element has one past the end.
        offsets.extend(offsets.first().copied());
        offsets.push(n as u64);
        for form in FORMS {
            let is_head = |i: usize| heads[i] != 0;
            let sums =
                reference::scan::segments(&x, 0, |a, b| a + b, is_head, form == Form::Inclusive);
            let float_sums: Vec<f32> = sums.iter().map(|&sum| sum as f32).collect();
            let wide_sums: Vec<f64> = sums.iter().map(|&sum| f64::from(sum)).collect();
            let (x, floats, flags) = (upload(&x), upload(&floats), upload(&heads));
            let (keys, offsets) = (upload(&keys), upload(&offsets));
            let told = [
                scan::flagged(gpu(), Sum, form, &x, &flags),
                scan::segments(gpu(), Sum, form, &x, &offsets),
                scan::by_key(gpu(), Sum, form, &x, &keys),
            ];
            for found in told {
                assert!(found.unwrap().to_vec().unwrap() == sums, "{n} elements, {form:?}");
            }
            let told = [
                scan::flagged(gpu(), Sum, form, &floats, &flags),
                scan::segments(gpu(), Sum, form, &floats, &offsets),
                scan::by_key(gpu(), Sum, form, &floats, &keys),
                scan::by_key(gpu(), Sum, form, &floats, &upload(&wide_keys)),
            ];
            for found in told {
                assert!(found.unwrap().to_vec().unwrap() == float_sums, "{n} elements, {form:?}");
            }
            let found = scan::segments(gpu(), Sum, form, &upload(&wide), &offsets).unwrap();
            assert!(found.to_vec().unwrap() == wide_sums, "{n} elements, {form:?}");
        }
    }
}

/// Flags and keys come to shared memory beside the elements, where both begin at a multiple of 16 bytes.
#[test]
fn what_tells_segments_begins_anywhere() {
    let mut rng = rng();
    let n = 3 * kernels::tile_len::<u32, Segmented<u32>>() + 100;
    let (heads, _) = random_segments(&mut rng, n + 8, 7);
    let x: Vec<u32> = (0..n + 8).map(|_| rng.random()).collect();
    let keys = reference::scan::by(&heads, 0u32, |key, head| key + u32::from(head), true);
    let (values, flags, on_device) = (upload(&x), upload(&heads), upload(&keys));
    for (from, told) in [(0, 0), (4, 4), (0, 1), (0, 4), (1, 0), (3, 3), (4, 0)] {
        let (x, heads) = (&x[from..from + n], &heads[told..told + n]);
        let is_head = |i: usize| heads[i] != 0;
        let sums = reference::scan::segments(x, 0, u32::wrapping_add, is_head, true);
        let (values, flags) = (values.slice(from..from + n), flags.slice(told..told + n));
        let keys = on_device.slice(told..told + n);
        let found = scan::flagged(gpu(), Sum, Form::Inclusive, &values, &flags).unwrap();
        assert!(found.to_vec().unwrap() == sums, "flags from {told}, elements from {from}");
        let found = scan::by_key(gpu(), Sum, Form::Inclusive, &values, &keys).unwrap();
        assert!(found.to_vec().unwrap() == sums, "keys from {told}, elements from {from}");
    }
}

/// Of elements with wide keys beside them, the least shared memory holds one tile.
#[test]
fn one_stage() {
    let n = 5 * kernels::tile_len::<f32, Segmented<f32>>() + 3;
    let keys: Vec<u64> = (0..n as u64).map(|i| i / 1000).collect();
    let (x, mut out) = (upload(&vec![1.0f32; n]), poisoned::<f32>(n));
    let mut states = upload(&vec![0u64; scratch_len::<f32, Segmented<f32>>(n)]);
    let grid = Grid1::new(2).shared_mem(shared_bytes(0) as u32);
    let keys = upload(&keys);
    // SAFETY: the states are 0.
    unsafe {
        scan_by_key::<f32, u64, Sum>::launch(gpu(), grid, &x, &keys, false, &mut states, &mut out)
    }
    .unwrap();
    assert!(out.to_vec().unwrap().into_iter().eq((0..n).map(|i| (i % 1000 + 1) as f32)));
}

/// Segments that begin with a tile, end with one, and go through several, with the elements around them.
#[test]
fn segments_and_tiles() {
    let tile = kernels::tile_len::<f32, Segmented<f32>>();
    for n in [tile - 1, tile, tile + 1, 2 * tile, 33 * tile + 1] {
        for begins in [vec![tile], vec![tile - 1, tile + 1], vec![0, tile / 2], vec![n - 1]] {
            let heads: Vec<u8> = (0..n).map(|i| u8::from(begins.contains(&i))).collect();
            let keys = reference::scan::by(&heads, 0u32, |key, head| key + u32::from(head), true);
            let wide: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 32).collect();
            let is_head = |i: usize| heads[i] != 0;
            let sums =
                reference::scan::segments(&vec![1.0f32; n], 0.0, |a, b| a + b, is_head, false);
            let x = upload(&vec![1.0f32; n]);
            let told = [
                scan::by_key(gpu(), Sum, Form::Exclusive, &x, &upload(&keys)),
                scan::by_key(gpu(), Sum, Form::Exclusive, &x, &upload(&wide)),
                scan::flagged(gpu(), Sum, Form::Exclusive, &x, &upload(&heads)),
            ];
            for found in told {
                assert!(found.unwrap().to_vec().unwrap() == sums, "{n} elements, {begins:?}");
            }
        }
    }
}

/// What stands before a segment, an infinity for one, is not seen in it.
#[test]
fn segments_do_not_touch() {
    let mut x = vec![1.0f32; 9000];
    (x[10], x[5000]) = (f32::INFINITY, f32::NAN);
    let offsets = upload(&[0u64, 11, 5001]);
    let sums = scan::segments(gpu(), Sum, Form::Inclusive, &upload(&x), &offsets).unwrap();
    let sums = sums.to_vec().unwrap();
    assert_eq!((sums[10], sums[11], sums[4999]), (f32::INFINITY, 1.0, 4989.0));
    assert!(sums[5000].is_nan());
    assert_eq!((sums[5001], sums[8999]), (1.0, 3999.0));
}

#[test]
fn scratch_grows_and_serves_again() {
    let mut scratch = Scratch::new(gpu()).unwrap();
    // The last but one has more states than are kept.
    let large = KEPT_WORDS / 2 * tile_len::<u64>();
    for n in [17, 5 * 4096, 3 * 4096 + 1, 40 * 4096, large, 17 * 4096] {
        let x = vec![3u64; n];
        let mut out = poisoned(n);
        scan::exclusive_into(gpu(), &upload(&x), &mut out, &mut scratch).unwrap();
        assert!(out.to_vec().unwrap().into_iter().eq((0..n as u64).map(|i| 3 * i)), "{n} elements");
    }
}

#[test]
fn lengths_that_do_not_fit_are_errors() {
    let x = upload(&[1u32; 100]);
    let mut scratch = Scratch::new(gpu()).unwrap();
    let short = scan::exclusive_into(gpu(), &x, &mut poisoned(99), &mut scratch);
    assert_eq!(short.unwrap_err().to_string(), "scan: 100 elements are needed, 99 were given");
    let keys = scan::by_key(gpu(), Sum, Form::Inclusive, &x, &upload(&[1u32; 101])).unwrap_err();
    let expected = "the keys of a scan: 100 elements are needed, 101 were given";
    assert_eq!(keys.to_string(), expected);
}

#[test]
#[ignore = "needs 10 GB of device memory"]
fn more_than_four_billion_elements() {
    let n = (1usize << 32) + 5;
    let x = DeviceBuffer::from_slice(gpu(), &vec![1u8; n]).unwrap();
    let sums = scan::inclusive(gpu(), &x).unwrap().to_vec().unwrap();
    let wrong = sums.iter().enumerate().position(|(i, &sum)| sum != (i + 1) as u8);
    assert_eq!(wrong, None);
}
