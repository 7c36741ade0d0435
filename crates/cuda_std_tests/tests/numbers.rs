//! Numbers of 16 and 8 bits: the device's instructions against the host's integer arithmetic.

use cuda_std::launch::Linear;
use cuda_std_tests::{done, download, poisoned, upload};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use numbers_kernels::{bytes, halves};

cuda_std_tests::device!("numbers");

type Kernel<T> = fn(&Gpu, Linear, &DeviceBuffer<T>, &mut DeviceBuffer<u32>) -> GpuResult<()>;

/// Runs a kernel over `x`; gives the results of each element. A block has 128 threads, of which
/// every input here is a multiple.
fn results<T: bytemuck::Pod, const N: usize>(kernel: Kernel<T>, x: &[T]) -> Vec<[u32; N]> {
    assert_eq!(x.len() % 128, 0, "whole blocks: {}", x.len());
    let mut out = poisoned(gpu(), N * x.len());
    let config = Linear::new((x.len() / 128) as u32, 128);
    done(kernel(gpu(), config, &upload(gpu(), x), &mut out));
    let out = download(&out);
    (0..x.len()).map(|i| core::array::from_fn(|k| out[k * x.len() + i])).collect()
}

/// The device gives the host's bits for all of `x`.
fn agree<T: bytemuck::Pod + core::fmt::Debug, const N: usize>(
    kernel: Kernel<T>,
    x: &[T],
    host: impl Fn(T) -> [u32; N],
) {
    for (x, found) in x.iter().zip(results::<T, N>(kernel, x)) {
        assert_eq!(found, host(*x), "{x:x?}: {found:x?} is not {:x?}", host(*x));
    }
}

fn all_bits() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// Random words.
fn words(seed: u32) -> impl Iterator<Item = u32> {
    (1..).map(move |i: u32| {
        let mixed = (i ^ seed.rotate_left(16)).wrapping_mul(0x9e37_79b9);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca6b);
        (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35)
    })
}

/// Patterns of 16 bits: every special one, then random ones.
fn patterns(seed: u32) -> impl Iterator<Item = u16> {
    const SPECIAL: [u16; 16] = [
        0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x7bff, 0x7c00, 0xfc00, 0x7e00, 0xfe01,
        0x3f80, 0x7f80, 0x7f7f,
    ];
    words(seed).map(|word| match word >> 29 {
        0 => SPECIAL[(word & 15) as usize],
        // Near 1, where sums cancel.
        1 => 0x3c00 ^ (word & 0x83ff) as u16,
        _ => word as u16,
    })
}

fn triples(n: usize) -> Vec<[u16; 3]> {
    let mut pattern = patterns(1);
    (0..n).map(|_| core::array::from_fn(|_| pattern.next().unwrap())).collect()
}

/// Floats at, between and around all numbers of 16 bits; infinities, NaNs, and random ones.
fn floats() -> Vec<f32> {
    let half = |bits: u16| cuda_std::f16::from_bits(bits).to_f32();
    let brain = |bits: u16| f32::from_bits(u32::from(bits) << 16);
    let around = |at: f32, next: f32| {
        let middle = at / 2.0 + next / 2.0;
        let bits = middle.to_bits();
        [at, middle, f32::from_bits(bits.wrapping_add(1)), f32::from_bits(bits.wrapping_sub(1))]
    };
    let halves = (0..=u16::MAX).step_by(3).flat_map(|b| around(half(b), half(b.wrapping_add(1))));
    let brains = (0..=u16::MAX).step_by(3).flat_map(|b| around(brain(b), brain(b.wrapping_add(1))));
    let special = [f32::MAX, f32::MIN, f32::NAN, -f32::NAN, 448.0, 464.0, 57344.0, 61440.0];
    let mut floats: Vec<f32> = halves.chain(brains).chain(special).collect();
    floats.extend(
        words(7)
            .take(floats.len().next_multiple_of(1024) + 1024 - floats.len())
            .map(f32::from_bits),
    );
    floats
}

fn float_pairs() -> Vec<[f32; 2]> {
    let x = floats();
    let pairs = x.iter().zip(x.iter().rev()).map(|(x, y)| [*x, *y]);
    pairs.collect()
}

fn word_triples(n: usize) -> Vec<[u32; 3]> {
    let mut pattern = patterns(2);
    let mut pair = || u32::from(pattern.next().unwrap()) << 16 | u32::from(pattern.next().unwrap());
    (0..n).map(|_| [pair(), pair(), pair()]).collect()
}

#[test]
fn every_half_converts_and_turns_its_sign() {
    agree(halves::unary_f16::launch, &all_bits(), halves::unary::<cuda_std::f16>);
    agree(halves::unary_bf16::launch, &all_bits(), halves::unary::<cuda_std::bf16>);
}

#[test]
fn floats_become_halves_in_every_rounding() {
    let x = floats();
    agree(halves::narrowing_f16::launch, &x, halves::narrowing::<cuda_std::f16>);
    agree(halves::narrowing_bf16::launch, &x, halves::narrowing::<cuda_std::bf16>);
    agree(halves::narrowing_directed::launch, &x, halves::directed);
    let pairs = float_pairs();
    agree(halves::pairs_narrowing_f16::launch, &pairs, halves::f16_pairs_narrowing);
    agree(halves::pairs_narrowing_bf16::launch, &pairs, halves::bf16_pairs_narrowing);
}

#[test]
fn halves_are_added_multiplied_and_compared() {
    let x = triples(1 << 16);
    agree(halves::ternary_f16::launch, &x, halves::ternary::<cuda_std::f16>);
    agree(halves::ternary_bf16::launch, &x, halves::ternary::<cuda_std::bf16>);
    let x = word_triples(1 << 15);
    agree(halves::pairs_f16::launch, &x, halves::f16_pairs);
    agree(halves::pairs_bf16::launch, &x, halves::bf16_pairs);
}

#[test]
fn bytes_convert_both_ways() {
    let x = float_pairs();
    agree(bytes::floats_to_e4m3::launch, &x, bytes::e4m3_from_floats);
    agree(bytes::floats_to_e5m2::launch, &x, bytes::e5m2_from_floats);
    let x: Vec<u32> =
        (0..=u16::MAX).map(|b| u32::from(b.rotate_left(7)) << 16 | u32::from(b)).collect();
    agree(bytes::halves_to_e4m3::launch, &x, bytes::e4m3_from_halves);
    agree(bytes::halves_to_e5m2::launch, &x, bytes::e5m2_from_halves);
    agree(bytes::widen_e4m3::launch, &all_bits(), bytes::e4m3_widening);
    agree(bytes::widen_e5m2::launch, &all_bits(), bytes::e5m2_widening);
}

/// The place of a number among all of its format, so that neighbours differ by 1.
fn place(bits: u16) -> i32 {
    let magnitude = i32::from(bits & 0x7fff);
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// How far the device may be from the correctly rounded result, in places; NaN is NaN.
fn is_near(found: u16, exact: u16, infinity: u16, places: i32) -> bool {
    let is_nan = |bits: u16| bits & 0x7fff > infinity;
    match (is_nan(found), is_nan(exact)) {
        (false, false) => (place(found) - place(exact)).abs() <= places,
        (found, exact) => found && exact,
    }
}

/// `ex2` and `tanh` of each 16 bits of `x`, alone and in pairs, against the rounded ones.
fn approximate(
    kernel: Kernel<u16>,
    pairs: Kernel<u32>,
    exact: fn(u16) -> [u32; halves::APPROXIMATE],
    infinity: u16,
    smallest_normal: u16,
) {
    let found = results::<u16, { halves::APPROXIMATE }>(kernel, &all_bits());
    for (bits, found) in all_bits().into_iter().zip(&found) {
        for (k, (found, exact)) in found.iter().zip(exact(bits)).enumerate() {
            let (found, exact) = (*found as u16, exact as u16);
            // `ex2` of bf16 flushes subnormals to zero.
            let flushed =
                infinity == 0x7f80 && exact & 0x7fff < smallest_normal && found & 0x7fff == 0;
            let right = flushed || is_near(found, exact, infinity, 2);
            assert!(right, "result {k} of {bits:#x}: {found:#x} is not near {exact:#x}");
        }
    }
    let pair: Vec<u32> = (0..=u16::MAX).map(|b| u32::from(!b) << 16 | u32::from(b)).collect();
    for (bits, both) in pair.iter().zip(results::<u32, { halves::APPROXIMATE }>(pairs, &pair)) {
        let [low, high] = [found[(bits & 0xffff) as usize], found[(bits >> 16) as usize]];
        let expected: Vec<u32> = (0..2).map(|k| high[k] << 16 | low[k]).collect();
        assert_eq!(both.to_vec(), expected, "{bits:#x}");
    }
}

#[test]
fn powers_and_tangents_are_near() {
    approximate(
        halves::approximate_f16::launch,
        halves::pairs_approximate_f16::launch,
        halves::approximate::<cuda_std::f16>,
        0x7c00,
        0x400,
    );
    approximate(
        halves::approximate_bf16::launch,
        halves::pairs_approximate_bf16::launch,
        halves::approximate::<cuda_std::bf16>,
        0x7f80,
        0x80,
    );
}
