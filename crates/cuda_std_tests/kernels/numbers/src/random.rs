//! Every generator, and the numbers made of its words.

use crate::put_rows;
use cuda_std::prelude::*;
use cuda_std::random::rand_core::Rng;
use cuda_std::random::xoshiro::*;
use cuda_std::random::{GpuRand, Philox};

/// Words that [`draws`] takes.
pub const DRAWS: usize = 6;
/// Numbers that [`numbers`] makes.
pub const NUMBERS: usize = 8;

/// A mixture of words of both sizes, and bytes.
#[inline(always)]
pub fn draws(random: &mut impl Rng) -> [u64; DRAWS] {
    let mut bytes = [0; 8];
    let words =
        [random.next_u64(), random.next_u32().into(), random.next_u64(), random.next_u32().into()];
    random.fill_bytes(&mut bytes);
    [words[0], words[1], words[2], words[3], u64::from_le_bytes(bytes), random.next_u32().into()]
}

/// A number of each kind.
#[inline(always)]
pub fn numbers(random: &mut impl GpuRand) -> [f64; NUMBERS] {
    let uniform = [random.uniform_f32().into(), random.uniform_f64()];
    let [a, b] = random.normal_f32_2();
    let [c, d] = random.normal_f64_2();
    let integers = [random.below(1000).into(), random.below_u64(1 << 40) as f64];
    [uniform[0], uniform[1], a.into(), b.into(), c, d, integers[0], integers[1]]
}

/// One kernel for each generator: it takes [`draws`] and leaves the states behind.
macro_rules! generators {
    ($($kernel:ident: $ty:ident;)*) => {$(
        #[kernel]
        pub fn $kernel(
            index: ThreadIndex,
            mut states: DisjointSlice<$ty>,
            mut out: DisjointSlice<u64>,
        ) {
            if let Some(state) = states.get_mut(index) {
                let mut random = *state;
                let words = draws(&mut random);
                *state = random;
                put_rows(index, words, &mut out);
            }
        }
    )*};
}

/// Calls a macro with every generator that the crate `rand_xoshiro` has too: the kernel's name and the type.
#[macro_export]
macro_rules! published_generators {
    ($then:ident) => {
        $then! {
            draw_split_mix_64: SplitMix64;
            draw_xoroshiro_64_star: Xoroshiro64Star;
            draw_xoroshiro_64_star_star: Xoroshiro64StarStar;
            draw_xoroshiro_128_plus: Xoroshiro128Plus;
            draw_xoroshiro_128_plus_plus: Xoroshiro128PlusPlus;
            draw_xoroshiro_128_star_star: Xoroshiro128StarStar;
            draw_xoshiro_128_plus: Xoshiro128Plus;
            draw_xoshiro_128_plus_plus: Xoshiro128PlusPlus;
            draw_xoshiro_128_star_star: Xoshiro128StarStar;
            draw_xoshiro_256_plus: Xoshiro256Plus;
            draw_xoshiro_256_plus_plus: Xoshiro256PlusPlus;
            draw_xoshiro_256_star_star: Xoshiro256StarStar;
            draw_xoshiro_512_plus: Xoshiro512Plus;
            draw_xoshiro_512_plus_plus: Xoshiro512PlusPlus;
            draw_xoshiro_512_star_star: Xoshiro512StarStar;
        }
    };
}

generators! { draw_philox: Philox; }
published_generators!(generators);

/// The numbers of each thread's own sequence, after skipping some words.
#[kernel]
pub fn philox_numbers(index: ThreadIndex, seed: u64, skip: u64, mut out: DisjointSlice<f64>) {
    let mut random = Philox::new(seed, index.get() as u64);
    random.skip(skip);
    put_rows(index, numbers(&mut random), &mut out);
}

/// One block of each thread's own sequence.
#[kernel]
pub fn philox_blocks(index: ThreadIndex, seed: u64, mut out: DisjointSlice<u32>) {
    put_rows(index, Philox::new(seed, index.get() as u64).next_block(), &mut out);
}

/// Jumps, near and far.
#[kernel]
pub fn jumps(index: ThreadIndex, mut states: DisjointSlice<Xoshiro256PlusPlus>) {
    if let Some(state) = states.get_mut(index) {
        state.jump();
        state.long_jump();
    }
}

/// One number of twice the width.
#[kernel]
pub fn one_wide_normal(index: ThreadIndex, seed: u64, mut out: DisjointSlice<f64>) {
    if let Some(out) = out.get_mut(index) {
        *out = Philox::new(seed, index.get() as u64).normal_f64();
    }
}

/// One word and one number, for reading in the PTX.
#[kernel]
pub fn one_normal(index: ThreadIndex, seed: u64, mut out: DisjointSlice<f32>) {
    if let Some(out) = out.get_mut(index) {
        *out = Philox::new(seed, index.get() as u64).normal_f32();
    }
}
