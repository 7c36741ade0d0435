//! The xoshiro and xoroshiro generators, and SplitMix64.
//!
//! By D. Blackman and S. Vigna, "Scrambled linear pseudorandom number generators", 2021; the
//! constants are the authors'. Each gives the bits of the type of its name in the crate
//! `rand_xoshiro`: `next_u32`, `next_u64`, seeds and jumps.
//!
//! A generator's states lie in a buffer, one for each thread. [`DefaultRand`] and the others that
//! can jump make them so far apart that their sequences never meet:
//!
//! ```
//! use cuda_std::random::DefaultRand;
//!
//! let states: Vec<DefaultRand> = DefaultRand::initialize_states(42, 1024);
//! # assert_eq!(states.len(), 1024);
//! ```
//!
//! [`DefaultRand`]: super::DefaultRand

use bytemuck::{Pod, Zeroable};
use core::convert::Infallible;
use rand_core::{SeedableRng, TryRng, utils};

/// SplitMix64, by S. Vigna: 8 bytes of state that only count. It seeds the other generators.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitMix64 {
    state: u64,
}

// SAFETY: a `u64`.
unsafe impl Zeroable for SplitMix64 {}
// SAFETY: a `u64`.
unsafe impl Pod for SplitMix64 {}

impl SplitMix64 {
    /// Skips `words` calls of `next_u32` or `next_u64`, in constant time.
    #[inline(always)]
    pub const fn skip(&mut self, words: u64) {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15u64.wrapping_mul(words));
    }
}

impl TryRng for SplitMix64 {
    type Error = Infallible;

    #[inline(always)]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        self.skip(1);
        let mixed = (self.state ^ self.state >> 33).wrapping_mul(0x62a9_d9ed_7997_05f5);
        Ok(((mixed ^ mixed >> 28).wrapping_mul(0xcb24_d0a5_c88c_35b3) >> 32) as u32)
    }

    #[inline(always)]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        self.skip(1);
        let mixed = (self.state ^ self.state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Ok(mixed ^ mixed >> 31)
    }

    #[inline]
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
    }
}

impl SeedableRng for SplitMix64 {
    type Seed = [u8; 8];

    #[inline(always)]
    fn from_seed(seed: [u8; 8]) -> Self {
        Self { state: u64::from_le_bytes(seed) }
    }

    #[inline(always)]
    fn seed_from_u64(seed: u64) -> Self {
        Self { state: seed }
    }
}

/// The 64 bytes that seed xoshiro512.
#[derive(Clone, Copy, Debug)]
pub struct Seed512(pub [u8; 64]);

impl Default for Seed512 {
    fn default() -> Self {
        Self([0; 64])
    }
}

impl AsRef<[u8]> for Seed512 {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for Seed512 {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// The steps from one state to the next.
mod step {
    #[inline(always)]
    pub fn xoroshiro64([s0, s1]: [u32; 2]) -> [u32; 2] {
        let mixed = s1 ^ s0;
        [s0.rotate_left(26) ^ mixed ^ mixed << 9, mixed.rotate_left(13)]
    }

    #[inline(always)]
    pub fn xoroshiro128([s0, s1]: [u64; 2]) -> [u64; 2] {
        let mixed = s1 ^ s0;
        [s0.rotate_left(24) ^ mixed ^ mixed << 16, mixed.rotate_left(37)]
    }

    #[inline(always)]
    pub fn xoroshiro128_plus_plus([s0, s1]: [u64; 2]) -> [u64; 2] {
        let mixed = s1 ^ s0;
        [s0.rotate_left(49) ^ mixed ^ mixed << 21, mixed.rotate_left(28)]
    }

    #[inline(always)]
    pub fn xoshiro128([s0, s1, s2, s3]: [u32; 4]) -> [u32; 4] {
        let (t2, t3) = (s2 ^ s0, s3 ^ s1);
        [s0 ^ t3, s1 ^ t2, t2 ^ s1 << 9, t3.rotate_left(11)]
    }

    #[inline(always)]
    pub fn xoshiro256([s0, s1, s2, s3]: [u64; 4]) -> [u64; 4] {
        let (t2, t3) = (s2 ^ s0, s3 ^ s1);
        [s0 ^ t3, s1 ^ t2, t2 ^ s1 << 17, t3.rotate_left(45)]
    }

    #[inline(always)]
    pub fn xoshiro512([s0, s1, s2, s3, s4, s5, s6, s7]: [u64; 8]) -> [u64; 8] {
        let (t2, t5) = (s2 ^ s0, s5 ^ s1);
        let (t7, t3) = (s7 ^ s3, s3 ^ s4);
        let t6 = s6 ^ t7;
        [s0 ^ s6, s1 ^ t2, t2, t3, s4 ^ t5, t5, t6 ^ s1 << 11, t7.rotate_left(21)]
    }
}

/// Words of 64 bits, of which `next_u32` takes a half.
macro_rules! words_u64 {
    ($shift:literal) => {
        #[inline(always)]
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok((self.word() >> $shift) as u32)
        }

        #[inline(always)]
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            Ok(self.word())
        }

        #[inline]
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            utils::fill_bytes_via_next_word(bytes, || self.try_next_u64())
        }
    };
}

/// Words of 32 bits, of which `next_u64` takes two, the lower half first.
macro_rules! words_u32 {
    () => {
        #[inline(always)]
        fn try_next_u32(&mut self) -> Result<u32, Infallible> {
            Ok(self.word())
        }

        #[inline(always)]
        fn try_next_u64(&mut self) -> Result<u64, Infallible> {
            utils::next_u64_via_u32(self)
        }

        #[inline]
        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
            utils::fill_bytes_via_next_word(bytes, || self.try_next_u32())
        }
    };
}

/// Declares generators: the state, the step, and the word that a state gives.
macro_rules! generators {
    ($($(#[$doc:meta])* $name:ident: [$word:ident; $n:literal], $seed:ty, $step:ident,
        |$s:ident| $output:expr, $words:ident!($($shift:literal)?);)*) => {$(
        $(#[$doc])*
        #[repr(transparent)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name {
            state: [$word; $n],
        }

        // SAFETY: plain numbers. (Zeros are a state, though one that stays.)
        unsafe impl Zeroable for $name {}
        // SAFETY: plain numbers.
        unsafe impl Pod for $name {}

        impl $name {
            #[inline(always)]
            fn word(&mut self) -> $word {
                let $s = self.state;
                self.state = step::$step($s);
                $output
            }
        }

        impl TryRng for $name {
            type Error = Infallible;

            $words!($($shift)?);
        }

        impl SeedableRng for $name {
            type Seed = $seed;

            /// The state of these bytes, each word's lowest first. Zeros become the seed 0.
            fn from_seed(seed: Self::Seed) -> Self {
                let bytes: &[u8] = seed.as_ref();
                match bytes.iter().all(|byte| *byte == 0) {
                    true => Self::seed_from_u64(0),
                    false => Self { state: utils::read_words(bytes) },
                }
            }

            /// The state that [`SplitMix64`] makes of `seed`.
            fn seed_from_u64(seed: u64) -> Self {
                Self::from_rng(&mut SplitMix64::seed_from_u64(seed))
            }
        }
    )*};
}

generators! {
    /// xoroshiro64\*: 8 bytes of state, words of 32 bits; the lowest bits are weak.
    Xoroshiro64Star: [u32; 2], [u8; 8], xoroshiro64, |s| s[0].wrapping_mul(0x9e37_79bb), words_u32!();
    /// xoroshiro64\*\*: 8 bytes of state, words of 32 bits.
    Xoroshiro64StarStar: [u32; 2], [u8; 8], xoroshiro64,
        |s| s[0].wrapping_mul(0x9e37_79bb).rotate_left(5).wrapping_mul(5), words_u32!();
    /// xoroshiro128+: 16 bytes of state, words of 64 bits; the lowest bits are weak.
    Xoroshiro128Plus: [u64; 2], [u8; 16], xoroshiro128, |s| s[0].wrapping_add(s[1]), words_u64!(32);
    /// xoroshiro128++: 16 bytes of state, words of 64 bits.
    Xoroshiro128PlusPlus: [u64; 2], [u8; 16], xoroshiro128_plus_plus,
        |s| s[0].wrapping_add(s[1]).rotate_left(17).wrapping_add(s[0]), words_u64!(0);
    /// xoroshiro128\*\*: 16 bytes of state, words of 64 bits.
    Xoroshiro128StarStar: [u64; 2], [u8; 16], xoroshiro128,
        |s| s[0].wrapping_mul(5).rotate_left(7).wrapping_mul(9), words_u64!(0);
    /// xoshiro128+: 16 bytes of state, words of 32 bits; the lowest bits are weak.
    Xoshiro128Plus: [u32; 4], [u8; 16], xoshiro128, |s| s[0].wrapping_add(s[3]), words_u32!();
    /// xoshiro128++: 16 bytes of state, words of 32 bits.
    Xoshiro128PlusPlus: [u32; 4], [u8; 16], xoshiro128,
        |s| s[0].wrapping_add(s[3]).rotate_left(7).wrapping_add(s[0]), words_u32!();
    /// xoshiro128\*\*: 16 bytes of state, words of 32 bits.
    Xoshiro128StarStar: [u32; 4], [u8; 16], xoshiro128,
        |s| s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9), words_u32!();
    /// xoshiro256+: 32 bytes of state, words of 64 bits; the lowest bits are weak.
    Xoshiro256Plus: [u64; 4], [u8; 32], xoshiro256, |s| s[0].wrapping_add(s[3]), words_u64!(32);
    /// xoshiro256++: 32 bytes of state, words of 64 bits.
    Xoshiro256PlusPlus: [u64; 4], [u8; 32], xoshiro256,
        |s| s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]), words_u64!(32);
    /// xoshiro256\*\*: 32 bytes of state, words of 64 bits.
    Xoshiro256StarStar: [u64; 4], [u8; 32], xoshiro256,
        |s| s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9), words_u64!(32);
    /// xoshiro512+: 64 bytes of state, words of 64 bits; the lowest bits are weak.
    Xoshiro512Plus: [u64; 8], Seed512, xoshiro512, |s| s[0].wrapping_add(s[2]), words_u64!(32);
    /// xoshiro512++: 64 bytes of state, words of 64 bits.
    Xoshiro512PlusPlus: [u64; 8], Seed512, xoshiro512,
        |s| s[0].wrapping_add(s[2]).rotate_left(17).wrapping_add(s[2]), words_u64!(32);
    /// xoshiro512\*\*: 64 bytes of state, words of 64 bits.
    Xoshiro512StarStar: [u64; 8], Seed512, xoshiro512,
        |s| s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9), words_u64!(32);
}

/// Declares how far generators can jump, by the coefficients of a polynomial of the step.
macro_rules! jumps {
    ($($($name:ident)*: [$word:ident; $n:literal], 2^$near:literal $jump:expr,
        2^$far:literal $long:expr;)*) => {$($(
        impl $name {
            #[doc = concat!("Skips 2^", stringify!($near), " words.")]
            pub fn jump(&mut self) {
                self.leap($jump);
            }

            #[doc = concat!("Skips 2^", stringify!($far), " words.")]
            pub fn long_jump(&mut self) {
                self.leap($long);
            }

            fn leap(&mut self, polynomial: [$word; $n]) {
                let mut sum = [0; $n];
                for coefficients in polynomial {
                    for bit in 0..$word::BITS {
                        if coefficients >> bit & 1 == 1 {
                            for (sum, word) in sum.iter_mut().zip(self.state) {
                                *sum ^= word;
                            }
                        }
                        self.word();
                    }
                }
                self.state = sum;
            }

            /// `n` states from one seed, each a [`jump`](Self::jump) after the one before: no two
            /// of their sequences meet.
            #[cfg(not(target_os = "cuda"))]
            pub fn initialize_states(seed: u64, n: usize) -> Vec<Self> {
                let first = Self::seed_from_u64(seed);
                let next = |state: &Self| {
                    let mut next = *state;
                    next.jump();
                    Some(next)
                };
                core::iter::successors(Some(first), next).take(n).collect()
            }
        }
    )*)*};
}

jumps! {
    Xoroshiro128Plus Xoroshiro128StarStar: [u64; 2],
        2^64 [0xdf90_0294_d8f5_54a5, 0x1708_65df_4b32_01fc],
        2^96 [0xd2a9_8b26_625e_ee7b, 0xdddf_9b10_90aa_7ac1];
    Xoroshiro128PlusPlus: [u64; 2],
        2^64 [0x2bd7_a6a6_e99c_2ddc, 0x0992_ccaf_6a6f_ca05],
        2^96 [0x360f_d5f2_cf8d_5d99, 0x9c6e_6877_736c_46e3];
    Xoshiro128Plus Xoshiro128PlusPlus Xoshiro128StarStar: [u32; 4],
        2^64 [0x8764_000b, 0xf542_d2d3, 0x6fa0_35c3, 0x77f2_db5b],
        2^96 [0xb523_952e, 0x0b6f_099f, 0xccf5_a0ef, 0x1c58_0662];
    Xoshiro256Plus Xoshiro256PlusPlus Xoshiro256StarStar: [u64; 4],
        2^128 [
            0x180e_c6d3_3cfd_0aba, 0xd5a6_1266_f0c9_392c,
            0xa958_2618_e03f_c9aa, 0x39ab_dc45_29b1_661c,
        ],
        2^192 [
            0x76e1_5d3e_fefd_cbbf, 0xc500_4e44_1c52_2fb3,
            0x7771_0069_854e_e241, 0x3910_9bb0_2acb_e635,
        ];
    Xoshiro512Plus Xoshiro512PlusPlus Xoshiro512StarStar: [u64; 8],
        2^256 [
            0x33ed_89b6_e7a3_53f9, 0x7600_83d7_9553_23be,
            0x2837_f2fb_b5f2_2fae, 0x4b8c_5674_d309_511c,
            0xb11a_c47a_7ba2_8c25, 0xf1be_7667_092b_cc1c,
            0x5385_1efd_b6df_0aaf, 0x1ebb_c8b2_3eaf_25db,
        ],
        2^384 [
            0x1146_7fef_8f92_1d28, 0xa2a8_19f2_e79c_8ea8,
            0xa829_9fc2_84b3_959a, 0xb4d3_4734_0ca6_3ee1,
            0x1cb0_940b_edbf_f6ce, 0xd956_c5c4_fa1f_8e17,
            0x915e_38fd_4eda_93bc, 0x5b3c_cdfa_5d7d_aca5,
        ];
}
