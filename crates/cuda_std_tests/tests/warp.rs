//! Warps, tiles and coalesced groups, against plain loops over the lanes.

use cuda_std::launch::{Grid1, LaunchConfig, Linear};
use cuda_std::{bf16, f16};
use cuda_std_tests::{done, download, error_of, fails, on_gpu, poisoned, upload};
use ferrowarp::{DeviceBuffer, GpuResult};
use warp_kernels::{Affine, Pixel, groups, movers, tiles};

cuda_std_tests::device!("warp");

/// Two blocks of three warps.
const BLOCKS: usize = 2;
const BLOCK: usize = 96;
const THREADS: usize = BLOCKS * BLOCK;

/// Numbers of all magnitudes, some of them equal within a warp.
fn numbers(seed: u32) -> Vec<u32> {
    let number = |i: u32| {
        let mixed = (i + seed).wrapping_mul(0x9e37_79b9);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 13) >> (i % 29)
    };
    (0..THREADS as u32).map(number).collect()
}

/// The lanes of the warp of `thread` that are in its group, in order, as threads of the grid.
type Members = Vec<usize>;

/// A row of expected results: one for each thread, from its group's members and its rank in them.
fn row<R: Into<u64>>(of: &[Members], f: impl Fn(&[usize], usize) -> R) -> Vec<u64> {
    let result = |(thread, members): (usize, &Members)| {
        let rank = members.iter().position(|member| *member == thread).expect("a member");
        f(members, rank).into()
    };
    of.iter().enumerate().map(result).collect()
}

fn compare(found: &[u64], expected: &[Vec<u64>], what: &str) {
    assert_eq!(found.len(), expected.len() * THREADS);
    for (k, (found, expected)) in found.chunks(THREADS).zip(expected).enumerate() {
        assert_eq!(found, expected, "{what}: row {k}");
    }
}

/// The bits of the members for which `f` holds, at their places in the warp.
fn lanes(members: &[usize], f: impl Fn(usize) -> bool) -> u32 {
    members.iter().filter(|member| f(**member)).map(|member| 1 << (member % 32)).sum()
}

/// The members for which `f` holds, by rank.
fn ranks(members: &[usize], f: impl Fn(usize) -> bool) -> u32 {
    (0..members.len()).filter(|rank| f(members[*rank])).map(|rank| 1 << rank).sum()
}

fn composed(first: Affine, x: &[u32], members: &[usize]) -> u64 {
    members.iter().fold(first, |map, member| map.then(Affine::of(x[*member]))).bits()
}

fn signed(value: impl Into<i64>) -> u64 {
    value.into() as u64
}

fn float(value: f32) -> u32 {
    value.to_bits()
}

/// What every lane of a group gets from the numbers of its members.
fn joined<R>(x: &[u32], members: &[usize], f: impl Fn(u32) -> R, op: impl Fn(R, R) -> R) -> R {
    members.iter().map(|member| f(x[*member])).reduce(op).expect("at least one member")
}

/// Places, moves and votes of tiles, in the order of the kernel.
fn expected_of_places(n: usize, x: &[u32], of: &[Members]) -> Vec<Vec<u64>> {
    let in_block = |members: &[usize], rank: usize| members[rank] % BLOCK;
    let at = |members: &[usize], rank: usize| x[members[rank % n]];
    let or_own = |members: &[usize], rank: usize, other: Option<usize>| {
        x[*other.and_then(|other| members.get(other)).unwrap_or(&members[rank])]
    };
    vec![
        row(of, |_, _| n as u32),
        row(of, |_, rank| rank as u32),
        row(of, |m, rank| (in_block(m, rank) / n) as u32),
        row(of, |_, _| (BLOCK / n) as u32),
        row(of, |m, _| lanes(m, |_| true)),
        row(of, |_, rank| rank == 0),
        row(of, |m, rank| (m[rank] % 2) as u32),
        row(of, |m, rank| at(m, x[m[rank]] as usize >> 3)),
        row(of, |m, rank| at(m, rank + 1)),
        row(of, |m, _| at(m, n - 1)),
        row(of, |m, rank| or_own(m, rank, rank.checked_sub(1))),
        row(of, |m, rank| or_own(m, rank, Some(rank + 1))),
        row(of, |m, rank| or_own(m, rank, rank.checked_sub(n / 2 + 1))),
        row(of, |m, rank| at(m, rank ^ (n - 1))),
    ]
}

fn expected_of_votes(n: usize, x: &[u32], of: &[Members]) -> Vec<Vec<u64>> {
    let tile = |m: &[usize]| m[0] % BLOCK / n;
    let count = |m: &[usize], f: &dyn Fn(u32) -> bool| m.iter().filter(|t| f(x[**t])).count();
    let is_uniform = |m: &[usize], f: &dyn Fn(u32) -> bool| [0, n].contains(&count(m, f));
    let same = |m: &[usize], rank: usize, by: u32| ranks(m, |t| x[t] % by == x[m[rank]] % by);
    vec![
        row(of, |m, _| count(m, &|x| !x.is_multiple_of(8)) == n),
        row(of, |_, _| true),
        row(of, |m, _| count(m, &|x| x.is_multiple_of(8)) > 0),
        row(of, |_, _| false),
        row(of, |m, _| is_uniform(m, &|x| x.is_multiple_of(4))),
        row(of, |m, _| tile(m) < usize::MAX),
        row(of, |m, _| ranks(m, |t| x[t].is_multiple_of(3))),
        row(of, |m, rank| same(m, rank, 4)),
        row(of, |m, rank| same(m, rank, 2) & same(m, rank, 3)),
        row(of, |m, rank| same(m, rank, 4)),
        row(of, |m, _| is_uniform(m, &|x| x.is_multiple_of(2))),
        row(of, |m, _| is_uniform(m, &|x| x.is_multiple_of(2))),
        row(of, |m, rank| lanes(m, |t| x[t] % 4 == x[m[rank]] % 4)),
    ]
}

fn expected_of_reductions(x: &[u32], of: &[Members]) -> Vec<Vec<u64>> {
    let even = |x: u32| if x.is_multiple_of(2) { x as f32 } else { f32::NAN };
    let minimum = |m: &[usize]| joined(x, m, even, f32::min);
    // The smallest number, or the NaN that the hardware makes.
    let smallest = |m: &[usize]| if minimum(m).is_nan() { 0x7fff_ffff } else { float(minimum(m)) };
    vec![
        row(of, |m, _| composed(Affine::IDENTITY, x, m)),
        row(of, |m, _| joined(x, m, |x| x, u32::wrapping_add)),
        row(of, |m, _| signed(joined(x, m, |x| x as i32, i32::wrapping_add))),
        row(of, |m, _| signed(joined(x, m, |x| x as i32, i32::min))),
        row(of, |m, _| joined(x, m, |x| x, u32::max)),
        row(of, |m, _| joined(x, m, |x| x | 0xff, |a, b| a & b)),
        row(of, |m, _| joined(x, m, |x| x & 0xffff, |a, b| a | b)),
        row(of, |m, _| joined(x, m, |x| x, |a, b| a ^ b)),
        // Small integers: every order of addition is exact.
        row(of, |m, _| float(joined(x, m, |x| (x % 1000) as f32, |a, b| a + b))),
        row(of, |m, _| smallest(m)),
        row(of, |m, _| joined(x, m, f64::from, f64::max).to_bits()),
        row(of, |m, _| joined(x, m, |x| x as u8, u8::wrapping_add)),
        row(of, |m, _| signed(joined(x, m, |x| x as i8, i8::min))),
        row(of, |m, _| joined(x, m, |x| x as u16, u16::max)),
        row(of, |m, _| signed(joined(x, m, |x| x as i16, i16::wrapping_add))),
        row(of, |m, _| joined(x, m, |x| u64::from(x) << 16, u64::wrapping_add)),
        row(of, |m, _| signed(joined(x, m, |x| i64::from(x as i32) << 20, i64::min))),
        row(of, |m, _| joined(x, m, |x| u64::from(x) << 13, |a, b| a ^ b)),
    ]
}

fn expected_of_scans(x: &[u32], of: &[Members]) -> Vec<Vec<u64>> {
    let wide = |members: &[usize]| members.iter().map(|t| u64::from(x[*t]) << 8).sum::<u64>();
    vec![
        row(of, |m, rank| composed(Affine::IDENTITY, x, &m[..=rank])),
        row(of, |m, rank| composed(Affine::of(7), x, &m[..rank])),
        row(of, |m, rank| joined(x, &m[..=rank], |x| x, u32::wrapping_add)),
        row(of, |m, rank| wide(&m[..rank])),
        row(of, |m, _| wide(m)),
    ]
}

type TileKernel =
    fn(&ferrowarp::Gpu, Linear, &DeviceBuffer<u32>, &mut DeviceBuffer<u64>) -> GpuResult<()>;

#[test]
fn tiles_of_every_size_agree_with_loops() {
    let kernels: [(usize, TileKernel); 5] = [
        (2, tiles::tiles_of_2::launch),
        (4, tiles::tiles_of_4::launch),
        (8, tiles::tiles_of_8::launch),
        (16, tiles::tiles_of_16::launch),
        (32, tiles::tiles_of_32::launch),
    ];
    for (n, launch) in kernels {
        for seed in [1, 1000] {
            let x = numbers(seed);
            let mut out = poisoned(gpu(), tiles::ROWS * THREADS);
            let config = Linear::new(BLOCKS as u32, BLOCK as u32);
            done(launch(gpu(), config, &upload(gpu(), &x), &mut out));
            let of: Vec<Members> =
                (0..THREADS).map(|t| (t / n * n..(t / n + 1) * n).collect()).collect();
            let expected = [
                expected_of_places(n, &x, &of),
                expected_of_votes(n, &x, &of),
                expected_of_reductions(&x, &of),
                expected_of_scans(&x, &of),
            ];
            compare(&download(&out), &expected.concat(), &format!("tiles of {n}, seed {seed}"));
        }
    }
}

/// What `partitions` writes for groups with these members.
fn expected_of_groups(x: &[u32], of: &[Members]) -> Vec<Vec<u64>> {
    let count = |m: &[usize], f: &dyn Fn(u32) -> bool| m.iter().filter(|t| f(x[**t])).count();
    let is_uniform = |m: &[usize], f: &dyn Fn(u32) -> bool| [0, m.len()].contains(&count(m, f));
    let same = |m: &[usize], rank: usize| lanes(m, |t| x[t] % 2 == x[m[rank]] % 2);
    let places = vec![
        row(of, |m, _| lanes(m, |_| true)),
        row(of, |m, _| m.len() as u32),
        row(of, |_, rank| rank as u32),
        row(of, |_, rank| rank == 0),
        row(of, |m, _| count(m, &|x| !x.is_multiple_of(5)) == m.len()),
        row(of, |m, _| count(m, &|x| x.is_multiple_of(5)) > 0),
        row(of, |m, _| is_uniform(m, &|x| x.is_multiple_of(2))),
        row(of, |m, _| lanes(m, |t| x[t].is_multiple_of(2))),
        row(of, |m, _| is_uniform(m, &|x| x.is_multiple_of(2))),
        row(of, same),
        row(of, same),
    ];
    let last = |m: &[usize], rank: usize| x[m[rank.min(m.len() - 1)]];
    let moves = vec![
        row(of, |m, rank| last(m, x[m[rank]] as usize % 7)),
        row(of, |m, rank| last(m, rank.saturating_sub(1))),
        row(of, |m, rank| u64::from(x[m[if rank + 2 < m.len() { rank + 2 } else { rank }]]) << 9),
        row(of, |m, _| last(m, m.len() / 2)),
        row(of, |m, rank| last(m, rank)),
    ];
    let joins = vec![
        row(of, |m, _| composed(Affine::IDENTITY, x, m)),
        row(of, |m, _| joined(x, m, |x| x, u32::wrapping_add)),
        row(of, |m, _| signed(joined(x, m, |x| x as i32, i32::min))),
        row(of, |m, _| joined(x, m, |x| x, u32::max)),
        row(of, |m, _| joined(x, m, |x| x | 0xff, |a, b| a & b)),
        row(of, |m, _| joined(x, m, |x| x & 0xffff, |a, b| a | b)),
        row(of, |m, _| joined(x, m, |x| x, |a, b| a ^ b)),
        row(of, |m, _| float(joined(x, m, |x| (x % 1000) as f32, |a, b| a + b))),
        row(of, |m, _| float(joined(x, m, |x| x as f32, f32::max))),
    ];
    let counts = |members: &[usize]| members.iter().map(|t| x[*t] % 4).sum::<u32>();
    let claims = vec![
        row(of, |m, rank| 100 + (m.len() + rank) as u32),
        row(of, |m, rank| 100 + counts(m) + counts(&m[..rank])),
    ];
    [places, moves, joins, expected_of_scans(x, of), claims].concat()
}

#[test]
fn partitions_agree_with_loops() {
    for keys in [1, 2, 3, 7, 1000] {
        let x = numbers(keys);
        let mut out = poisoned(gpu(), groups::ROWS * THREADS);
        let config = Linear::new(BLOCKS as u32, BLOCK as u32);
        done(groups::partitions::launch(gpu(), config, keys, &upload(gpu(), &x), &mut out));
        let members = |t: usize| {
            let warp = t / 32 * 32..(t / 32 + 1) * 32;
            warp.filter(|other| x[*other] % keys == x[t] % keys).collect()
        };
        let of: Vec<Members> = (0..THREADS).map(members).collect();
        compare(&download(&out), &expected_of_groups(&x, &of), &format!("{keys} keys"));
    }
}

#[test]
fn a_group_can_be_named_by_its_mask() {
    let x = numbers(3);
    let mut out = poisoned(gpu(), THREADS);
    let config = Linear::new(BLOCKS as u32, BLOCK as u32);
    done(groups::odd_lanes::launch(gpu(), config, &upload(gpu(), &x), &mut out));
    let odd = |t: usize| {
        let warp = (t / 32 * 32..(t / 32 + 1) * 32).filter(|other| other % 2 == 1);
        warp.fold(0u32, |sum, other| sum.wrapping_add(x[other]))
    };
    let expected: Vec<u32> = (0..THREADS).map(|t| if t % 2 == 1 { odd(t) } else { 0 }).collect();
    assert_eq!(download(&out), expected);
}

#[test]
fn a_group_claims_places_together() {
    for by in [1, 2, 3, 50] {
        let x: Vec<u32> = (1..=1000).collect();
        let (mut kept, mut counts) = (poisoned::<u32>(gpu(), 1000), upload(gpu(), &[0u32; 2]));
        let config = LaunchConfig::for_num_elems(1000);
        done(groups::keep::launch(gpu(), config, by, &upload(gpu(), &x), &mut kept, &mut counts));
        let [count, atomics] = download(&counts)[..] else { panic!("two counts") };
        let expected: Vec<u32> = x.into_iter().filter(|x| x.is_multiple_of(by)).collect();
        let mut kept = download(&kept)[..count as usize].to_vec();
        kept.sort_unstable();
        assert_eq!(kept, expected);
        assert!((1000 / 32 / by.max(2)..=32).contains(&atomics), "{atomics} atomics, by {by}");
    }
}

#[test]
fn tiles_go_separate_ways() {
    let x = numbers(5);
    let mut out = poisoned(gpu(), THREADS);
    let config = Linear::new(BLOCKS as u32, BLOCK as u32);
    done(tiles::separate_ways::launch(gpu(), config, &upload(gpu(), &x), &mut out));
    let expected = |t: usize| {
        let tile = &x[t / 8 * 8..t / 8 * 8 + 8];
        match t / 8 % 2 {
            0 => tile.iter().fold(0u32, |a, b| a.wrapping_add(*b)),
            _ => tile[..=t % 8].iter().fold(0, |a, b| a.max(*b)),
        }
    };
    assert_eq!(download(&out), (0..THREADS).map(expected).collect::<Vec<u32>>());
}

/// Turns 64 values by five lanes in each warp.
macro_rules! turned {
    ($($kernel:ident: $value:expr;)*) => {$({
        let x: Vec<_> = (0..64u8).map($value).collect();
        let mut y = poisoned(gpu(), 64);
        done(movers::$kernel::launch(gpu(), Linear::new(2, 32), &upload(gpu(), &x), &mut y));
        let expected: Vec<_> = (0..64).map(|t| x[t / 32 * 32 + (t + 5) % 32]).collect();
        assert_eq!(download(&y), expected, stringify!($kernel));
    })*};
}

#[test]
fn values_of_every_size_travel_whole() {
    let double = |i: u8| f64::from(i) * 1e100;
    turned! {
        turn_u8: |i| i;
        turn_i16: |i| -300 * i16::from(i);
        turn_pixel: |i| Pixel([i, i ^ 0xff, 2 * i]);
        turn_f32: |i| f32::from(i) / 3.0;
        turn_five_bytes: |i| [i, 1, i + 2, 3, i + 4];
        turn_three_halves: |i| [u16::from(i) << 8, 1, u16::from(i)];
        turn_seven_bytes: |i| [i, 1, i + 2, 3, i + 4, 5, i + 6];
        turn_f64: double;
        turn_three_floats: |i| [f32::from(i), -1.0, f32::from(i) + 0.5];
        turn_u128: |i| u128::from(i) * (u128::MAX / 64);
        turn_five_doubles: |i| [double(i), 1.0, double(i) + 2.0, 3.0, -double(i)];
    }
}

#[test]
fn one_instruction_and_a_butterfly() {
    let (x, y) = (numbers(3), vec![0.5f32; THREADS]);
    let (mut sums, mut floats) = (poisoned(gpu(), THREADS), poisoned(gpu(), THREADS));
    let config = || Linear::new(BLOCKS as u32, BLOCK as u32);
    done(tiles::one_redux::launch(gpu(), config(), &upload(gpu(), &x), &mut sums));
    done(tiles::one_butterfly::launch(gpu(), config(), &upload(gpu(), &y), &mut floats));
    let sum = |t: usize| x[t / 32 * 32..][..32].iter().fold(0u32, |a, b| a.wrapping_add(*b));
    assert_eq!(download(&sums), (0..THREADS).map(sum).collect::<Vec<u32>>());
    assert_eq!(download(&floats), [16.0; THREADS]);
}

#[test]
fn a_block_with_a_contract_has_warps() {
    let mut sums = upload(gpu(), &[0u32; 64]);
    done(tiles::of_a_block::launch(gpu(), Grid1::new(1), &mut sums));
    let expected = |t: u32| if t < 32 { (0..32).sum::<u32>() } else { (32..64).sum() };
    assert_eq!(download(&sums), (0..64).map(expected).collect::<Vec<u32>>());
}

/// The rows of `sums_of_f16` and `sums_of_bf16` for 64 small integers: every sum is exact.
fn rows_of_halves(bits: impl Fn(f32) -> u16) -> Vec<u16> {
    let x = |t: usize| small(t);
    let sum = |t: usize| (t / 32 * 32..t / 32 * 32 + 32).map(x).sum::<f32>();
    let tile = |t: usize| (t / 4 * 4..t / 4 * 4 + 4).map(x);
    let rows = [
        (0..64).map(sum).collect::<Vec<_>>(),
        (0..64).map(|t| tile(t).fold(f32::MAX, f32::min)).collect(),
        (0..64).map(|t| tile(t).fold(f32::MIN, f32::max)).collect(),
    ];
    rows.concat().into_iter().map(bits).collect()
}

/// A small integer; the sums of 32 have at most 8 bits.
fn small(t: usize) -> f32 {
    (t * 7 % 11) as f32 - 5.0
}

#[test]
fn halves_are_summed_and_compared() {
    let x: Vec<f16> = (0..64).map(|t| f16::from_f32(small(t))).collect();
    let mut out = poisoned(gpu(), 192);
    done(tiles::sums_of_f16::launch(gpu(), Linear::new(2, 32), &upload(gpu(), &x), &mut out));
    assert_eq!(download(&out), rows_of_halves(|x| f16::from_f32(x).to_bits()));
    let x: Vec<bf16> = (0..64).map(|t| bf16::from_f32(small(t))).collect();
    let mut out = poisoned(gpu(), 192);
    done(tiles::sums_of_bf16::launch(gpu(), Linear::new(2, 32), &upload(gpu(), &x), &mut out));
    assert_eq!(download(&out), rows_of_halves(|x| bf16::from_f32(x).to_bits()));
}

#[test]
fn a_block_that_is_no_multiple_of_32_is_refused() {
    let mut out = poisoned(gpu(), 64);
    done(tiles::needs_whole_warps::launch(gpu(), Linear::new(1, 64), &mut out));
    assert_eq!(download(&out), [32; 64]);
    let error = error_of("a_warp_that_lacks_lanes");
    assert!(on_gpu() || error.contains("needs_whole_warps"), "{error}");
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn a_warp_that_lacks_lanes() {
    let mut out = poisoned(gpu(), 64);
    let launched = tiles::needs_whole_warps::launch(gpu(), Linear::new(1, 48), &mut out);
    fails(launched.and_then(|()| gpu().synchronize()));
}

#[test]
fn lanes_that_stay_away_are_reported() {
    // A GPU hangs.
    if !on_gpu() {
        let error = error_of("lanes_stay_away");
        assert!(error.contains("not_all_lanes"), "{error}");
    }
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn lanes_stay_away() {
    let mut out = poisoned(gpu(), 32);
    done(tiles::not_all_lanes::launch(gpu(), Linear::new(1, 32), 32, &mut out));
    assert_eq!(download(&out), [32; 32]);
    let launched = tiles::not_all_lanes::launch(gpu(), Linear::new(1, 32), 7, &mut out);
    fails(launched.and_then(|()| gpu().synchronize()));
}
