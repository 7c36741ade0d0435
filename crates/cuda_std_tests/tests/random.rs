//! Random numbers, against the crate `rand_xoshiro` and against double precision.

use cuda_std::launch::Linear;
use cuda_std::random::rand_core::{Rng, SeedableRng};
use cuda_std::random::xoshiro::*;
use cuda_std::random::{DefaultRand, GpuRand, Philox, philox4x32};
use cuda_std_tests::{done, download, poisoned, upload};
use numbers_kernels::random::{self, DRAWS, NUMBERS};

cuda_std_tests::device!("numbers");

const THREADS: usize = 64;

fn config() -> Linear {
    Linear::new(2, 32)
}

/// The kernel's words: those of thread `t` are row by row at `out[k * THREADS + t]`.
fn column<T: Copy>(out: &[T], thread: usize) -> Vec<T> {
    out.iter().skip(thread).step_by(THREADS).copied().collect()
}

/// Runs a generator on the device from seeded states, and the published one beside it; twice, since
/// the states stay on the device.
macro_rules! agree {
    ($($kernel:ident: $ty:ident;)*) => {$({
        let seeds = (0..THREADS as u64).map(|seed| (seed * seed) << seed);
        let states: Vec<$ty> = seeds.clone().map($ty::seed_from_u64).collect();
        let mut published: Vec<_> = seeds.map(rand_xoshiro::$ty::seed_from_u64).collect();
        let mut states = upload(gpu(), &states);
        for launch in 0..2 {
            let mut out = poisoned(gpu(), DRAWS * THREADS);
            done(random::$kernel::launch(gpu(), config(), &mut states, &mut out));
            let out = download(&out);
            for (thread, published) in published.iter_mut().enumerate() {
                let expected = random::draws(published);
                let what = stringify!($ty);
                assert_eq!(column(&out, thread), expected, "{what} {thread}, launch {launch}");
            }
        }
    })*};
}

#[test]
fn generators_give_the_published_words() {
    numbers_kernels::published_generators!(agree);
}

/// Seeds of bytes, the zero seed, and jumps.
macro_rules! seeds_and_jumps {
    ($($ty:ident)*) => {$({
        let bytes = |i: usize| (37 * i + 1) as u8;
        let mut seed = <$ty as SeedableRng>::Seed::default();
        seed.as_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = bytes(i));
        let mut ours = $ty::from_seed(seed);
        let mut theirs_seed = <rand_xoshiro::$ty as SeedableRng>::Seed::default();
        let zeros = [$ty::from_seed(Default::default()).next_u64(),
            rand_xoshiro::$ty::from_seed(theirs_seed.clone()).next_u64()];
        assert_eq!(zeros[0], zeros[1], "the zero seed of {}", stringify!($ty));
        theirs_seed.as_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = bytes(i));
        let mut theirs = rand_xoshiro::$ty::from_seed(theirs_seed);
        ours.jump();
        theirs.jump();
        assert_eq!(ours.next_u64(), theirs.next_u64(), "a jump of {}", stringify!($ty));
        ours.long_jump();
        theirs.long_jump();
        assert_eq!(ours.next_u64(), theirs.next_u64(), "a long jump of {}", stringify!($ty));
        let states = $ty::initialize_states(5, 3);
        let mut third = rand_xoshiro::$ty::seed_from_u64(5);
        third.jump();
        third.jump();
        assert_eq!({ states[2] }.next_u64(), third.next_u64());
    })*};
}

#[test]
fn seeds_and_jumps_are_the_published_ones() {
    seeds_and_jumps! {
        Xoroshiro128Plus Xoroshiro128PlusPlus Xoroshiro128StarStar
        Xoshiro128Plus Xoshiro128PlusPlus Xoshiro128StarStar
        Xoshiro256Plus Xoshiro256PlusPlus Xoshiro256StarStar
        Xoshiro512Plus Xoshiro512PlusPlus Xoshiro512StarStar
    }
    let default = DefaultRand::initialize_states(1, 2);
    assert_eq!(default, Xoroshiro128StarStar::initialize_states(1, 2));
}

#[test]
fn jumps_on_the_device_are_those_of_the_host() {
    let mut expected = Xoshiro256PlusPlus::initialize_states(3, 8);
    let mut states = upload(gpu(), &expected);
    done(random::jumps::launch(gpu(), Linear::new(1, 32), &mut states));
    for state in &mut expected {
        state.jump();
        state.long_jump();
    }
    assert_eq!(download(&states), expected);
}

#[test]
fn split_mix_skips() {
    let (mut skipped, mut walked) = (SplitMix64::seed_from_u64(9), SplitMix64::seed_from_u64(9));
    (0..1000).for_each(|_| _ = walked.next_u64());
    skipped.skip(1000);
    assert_eq!(skipped, walked);
}

#[test]
fn philox_gives_the_words_of_its_blocks() {
    let seed = 0x0123_4567_89ab_cdef;
    let mut out = poisoned(gpu(), 4 * THREADS);
    done(random::philox_blocks::launch(gpu(), config(), seed, &mut out));
    let out = download(&out);
    for thread in 0..THREADS {
        let expected = philox4x32([0, 0, thread as u32, 0], [0x89ab_cdef, 0x0123_4567]);
        assert_eq!(column(&out, thread), expected);
    }
    let mut expected: Vec<Philox> = (0..THREADS as u64).map(|i| Philox::new(7, i << 20)).collect();
    expected.iter_mut().enumerate().for_each(|(i, random)| random.skip(i as u64));
    let (mut states, mut out) = (upload(gpu(), &expected), poisoned(gpu(), DRAWS * THREADS));
    done(random::draw_philox::launch(gpu(), config(), &mut states, &mut out));
    let out = download(&out);
    for (thread, random) in expected.iter_mut().enumerate() {
        assert_eq!(column(&out, thread), random::draws(random));
    }
    assert_eq!(download(&states), expected);
}

/// Units in the last place between two numbers, of the places of `magnitude`.
fn within(found: f64, expected: f64, magnitude: f64, unit: f64) -> bool {
    (found - expected).abs() <= 8.0 * unit * magnitude
}

/// Box and Muller's pair of two uniform numbers, and its magnitude.
fn box_muller(u: f64, turns: f64) -> [f64; 3] {
    let (radius, angle) = ((-2.0 * u.ln()).sqrt(), turns * core::f64::consts::TAU);
    [radius * angle.cos(), radius * angle.sin(), radius]
}

#[test]
fn uniform_and_normal_numbers_are_right() {
    let (seed, skip) = (99, 5);
    let mut out = poisoned(gpu(), NUMBERS * THREADS);
    done(random::philox_numbers::launch(gpu(), config(), seed, skip, &mut out));
    let out = download(&out);
    for thread in 0..THREADS {
        let found = column(&out, thread);
        let mut random = Philox::new(seed, thread as u64);
        random.skip(skip);
        let two = |exponent| 2f64.powi(exponent);
        assert_eq!(found[0], f64::from(random.next_u32() >> 8) * two(-24));
        assert_eq!(found[1], (random.next_u64() >> 11) as f64 * two(-53));
        let (u, turns) = (f64::from(random.next_u32()), f64::from(random.next_u32()));
        // The kernel takes both to `f32` first.
        let single = |value: f64, half: f64| f64::from(value as f32 * 2f32.powi(-32) + half as f32);
        let [x, y, radius] = box_muller(single(u, two(-33)), single(turns, 0.0));
        assert!(within(found[2], x, radius, two(-24)), "{} for {x}", found[2]);
        assert!(within(found[3], y, radius, two(-24)), "{} for {y}", found[3]);
        let (u, turns) = (random.next_u64() >> 11, random.next_u64() >> 11);
        let [x, y, radius] = box_muller((u + 1) as f64 * two(-53), turns as f64 * two(-53));
        assert!(within(found[4], x, radius, two(-53)), "{} for {x}", found[4]);
        assert!(within(found[5], y, radius, two(-53)), "{} for {y}", found[5]);
        assert_eq!(found[6], f64::from(random.below(1000)));
        assert_eq!(found[7], random.below_u64(1 << 40) as f64);
    }
    let mut one = poisoned(gpu(), THREADS);
    done(random::one_normal::launch(gpu(), config(), seed, &mut one));
    for (thread, found) in download(&one).into_iter().enumerate() {
        let expected: f32 = Philox::new(seed, thread as u64).normal_f32();
        assert!((found - expected).abs() <= 1e-5, "{found} for {expected}");
    }
    let mut wide = poisoned(gpu(), THREADS);
    done(random::one_wide_normal::launch(gpu(), config(), seed, &mut wide));
    for (thread, found) in download(&wide).into_iter().enumerate() {
        let [expected, _] = Philox::new(seed, thread as u64).normal_f64_2();
        assert!((found - expected).abs() <= 1e-14, "{found} for {expected}");
    }
}
