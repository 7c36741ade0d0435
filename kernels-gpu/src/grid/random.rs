//! Arrays of random numbers: Philox4x32-10, the same for a seed whatever the grid.
//!
//! The words are those of [`cuda_std::random::Philox`], sequence 0 of the seed: word `w` is word `w % 4` of the
//! block of the counter `w / 4`. Element `i` of a call with offset `o` is element `o + i` of an endless array,
//! so two calls that follow each other continue it, and a part can be had alone.
//!
//! | distribution | words of an element | values |
//! |---|---|---|
//! | [`UniformF32`] | 1 | multiples of 2^-24 in `[0, 1)`, all equally likely |
//! | [`UniformF64`] | 2 | multiples of 2^-53 in `[0, 1)`, all equally likely |
//! | [`NormalF32`] | 2 for two | Box and Muller, 1958; up to 6.8 in magnitude before the scale |
//! | [`Words`], [`Words64`] | 1, 2 | all integers |
//! | [`Below`], [`Below64`] | 1, 2; rarely more, of the sequence `1 +` element | integers below a bound, all equally likely |
//!
//! * [`random_uniform_plain`](fn@random_uniform_plain), [`random_normal_plain`](fn@random_normal_plain): a thread
//!   for each element, which computes a whole block of four words for it.
//! * [`random_fill`](fn@random_fill): a thread for each block of four words, which are 16 bytes of any type: one
//!   store, and no word is computed twice. The keys of the ten rounds are the same in all threads.

use cuda_std::intrinsics::{fast_cosf, fast_sinf};
use cuda_std::prelude::*;
use cuda_std::random::rand_core::Rng;
use cuda_std::random::{GpuRand, Philox, philox4x32};

use super::rows::registers::{build, each};
use super::rows::value::store_16;

/// Threads in a block.
pub const BLOCK: u32 = 256;
/// Most blocks of a launch; each goes on with what is behind all of them.
pub const MAX_BLOCKS: u32 = 132 * 32;
/// Bytes that four words become.
pub const BYTES_PER_COUNTER: usize = 16;

/// Blocks to launch for `n_elems` elements of `size_bytes`.
#[must_use]
pub const fn blocks(n_elems: usize, size_bytes: usize) -> u32 {
    // One more counter where the first elements begin in the middle of one.
    let counters = n_elems.div_ceil(BYTES_PER_COUNTER / size_bytes) + 1;
    let blocks = counters.div_ceil(BLOCK as usize);
    if blocks < MAX_BLOCKS as usize { blocks as u32 } else { MAX_BLOCKS }
}

/// What random words become: `N` values of four words, 16 bytes.
pub trait Distribution<T, const N: usize> {
    /// The values. `first` is the number of the first one in the endless array; `a` and `b` are the
    /// distribution's parameters.
    fn values(words: [u32; 4], seed: u64, first: u64, a: T, b: T) -> [T; N];
}

/// Uniform in `[0, 1)`: `word >> 8` times 2^-24, as [`GpuRand::uniform_f32`]. No parameters.
pub enum UniformF32 {}

impl Distribution<f32, 4> for UniformF32 {
    #[inline(always)]
    fn values(words: [u32; 4], _: u64, _: u64, _: f32, _: f32) -> [f32; 4] {
        build(|i| (words[i] >> 8) as f32 * (1.0 / (1u32 << 24) as f32))
    }
}

/// Uniform in `[0, 1)`: the upper 53 bits of two words, as [`GpuRand::uniform_f64`]. No parameters.
pub enum UniformF64 {}

impl Distribution<f64, 2> for UniformF64 {
    #[inline(always)]
    fn values(words: [u32; 4], _: u64, _: u64, _: f64, _: f64) -> [f64; 2] {
        pairs(words).map(|word| (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64))
    }
}

/// Normal: `a + b z`, with `z` of mean 0 and variance 1, from pairs of words as [`GpuRand::normal_f32_2`].
///
/// By the approximate instructions for logarithm, root, sine and cosine: `z` is off by at most 2^-18 times the
/// radius `sqrt(-2 ln u)` of its pair (which is at most 6.8), of which sine and cosine make 2^-20.9. So devices
/// may differ in the last bits; the grid changes nothing.
pub enum NormalF32 {}

impl Distribution<f32, 4> for NormalF32 {
    #[inline(always)]
    fn values([w0, w1, w2, w3]: [u32; 4], _: u64, _: u64, a: f32, b: f32) -> [f32; 4] {
        let ([z0, z1], [z2, z3]) = (box_muller(w0, w1), box_muller(w2, w3));
        [a + b * z0, a + b * z1, a + b * z2, a + b * z3]
    }
}

/// Two normal numbers from two words, with the cosine first.
#[inline(always)]
fn box_muller(first: u32, second: u32) -> [f32; 2] {
    const UNIT: f32 = 1.0 / 4_294_967_296.0;
    // `u` in (0, 1]; of the last sixteenth its distance to 1, with all its digits. One conversion for either.
    let is_near_one = first >= 0xf000_0000;
    let x = (if is_near_one { !first } else { first }) as f32 * UNIT + UNIT / 2.0;
    // Near 1 the logarithm is a series of that distance, since `lg2.approx` has an absolute error there: the terms
    // from the sixth on are below 2^-22 of it.
    let series = 1.0 + x * (0.5 + x * (1.0 / 3.0 + x * (0.25 + x * 0.2)));
    let minus_ln =
        if is_near_one { x * series } else { -core::f32::consts::LN_2 * log2_approximate(x) };
    let radius = sqrt_approximate(2.0 * minus_ln);
    // 23 bits of the turn in [-1/2, 1/2), by setting an exponent: conversions share a pipe with the functions. The
    // half of a step makes the middle of what was cut off.
    let turn = f32::from_bits(((second ^ 0x8000_0000) >> 9) | 0x3f80_0000) - 1.5;
    let angle = turn * core::f32::consts::TAU + core::f32::consts::TAU / (1u32 << 24) as f32;
    [radius * fast_cosf(angle), radius * fast_sinf(angle)]
}

/// The logarithm to base 2 of a normal number, by one instruction.
#[cuda_std::gpu_only]
#[inline(always)]
fn log2_approximate(x: f32) -> f32 {
    let logarithm;
    // SAFETY: arithmetic in registers.
    unsafe {
        core::arch::asm!("lg2.approx.ftz.f32 {r}, {x};", r = out(reg32) logarithm, x = in(reg32) x,
            options(pure, nomem, nostack, preserves_flags));
    }
    logarithm
}

/// The square root to an ulp, by one instruction.
#[cuda_std::gpu_only]
#[inline(always)]
fn sqrt_approximate(x: f32) -> f32 {
    let root;
    // SAFETY: arithmetic in registers.
    unsafe {
        core::arch::asm!("sqrt.approx.ftz.f32 {r}, {x};", r = out(reg32) root, x = in(reg32) x,
            options(pure, nomem, nostack, preserves_flags));
    }
    root
}

/// The words themselves. No parameters.
pub enum Words {}

impl Distribution<u32, 4> for Words {
    #[inline(always)]
    fn values(words: [u32; 4], _: u64, _: u64, _: u32, _: u32) -> [u32; 4] {
        words
    }
}

/// Pairs of words, the lower half first. No parameters.
pub enum Words64 {}

impl Distribution<u64, 2> for Words64 {
    #[inline(always)]
    fn values(words: [u32; 4], _: u64, _: u64, _: u64, _: u64) -> [u64; 2] {
        pairs(words)
    }
}

/// `a` plus an integer below `b`, all equally likely; wrapping.
///
/// D. Lemire, "Fast random integer generation in an interval", 2019. Where a word has to be thrown away, which
/// happens once in `2^32 / b` elements at most, the element goes on with words of a sequence of its own: the one
/// with the number `1 +` the element's.
pub enum Below {}

impl Distribution<u32, 4> for Below {
    #[inline(always)]
    fn values(words: [u32; 4], seed: u64, first: u64, a: u32, b: u32) -> [u32; 4] {
        build(|i| {
            let mut product = u64::from(words[i]) * u64::from(b);
            if (product as u32) < b {
                let unfair = b.wrapping_neg() % b;
                let mut more = Philox::new(seed, first.wrapping_add(1 + i as u64));
                while (product as u32) < unfair {
                    product = u64::from(more.next_u32()) * u64::from(b);
                }
            }
            a.wrapping_add((product >> 32) as u32)
        })
    }
}

/// As [`Below`], with words of 64 bits.
pub enum Below64 {}

impl Distribution<u64, 2> for Below64 {
    #[inline(always)]
    fn values(words: [u32; 4], seed: u64, first: u64, a: u64, b: u64) -> [u64; 2] {
        let words = pairs(words);
        build(|i| {
            let mut product = u128::from(words[i]) * u128::from(b);
            if (product as u64) < b {
                let unfair = b.wrapping_neg() % b;
                let mut more = Philox::new(seed, first.wrapping_add(1 + i as u64));
                while (product as u64) < unfair {
                    product = u128::from(more.next_u64()) * u128::from(b);
                }
            }
            a.wrapping_add((product >> 64) as u64)
        })
    }
}

/// Two words of 64 bits, each with its lower half first.
#[inline(always)]
fn pairs([w0, w1, w2, w3]: [u32; 4]) -> [u64; 2] {
    [u64::from(w1) << 32 | u64::from(w0), u64::from(w3) << 32 | u64::from(w2)]
}

/// The words of one counter, of sequence 0.
#[inline(always)]
fn block_of_words(seed: u64, counter: u64) -> [u32; 4] {
    let counter = [counter as u32, (counter >> 32) as u32, 0, 0];
    philox4x32(counter, [seed as u32, (seed >> 32) as u32])
}

/// `out[i]` becomes element `offset + i` of the endless array of `R`, any grid. `a` and `b` are its parameters.
#[kernel(
    (UniformF32, f32, 4), (UniformF64, f64, 2), (NormalF32, f32, 4), (Words, u32, 4), (Words64, u64, 2),
    (Below, u32, 4), (Below64, u64, 2), block = BLOCK
)]
pub fn random_fill<R: Distribution<T, N>, T: Copy, const N: usize>(
    index: ThreadIndex,
    seed: u64,
    offset: u64,
    a: T,
    b: T,
    mut out: DisjointSlice<T>,
) {
    const { assert!(size_of::<[T; N]>() == BYTES_PER_COUNTER) };
    let (len, first) = (out.len() as u64, out.as_mut_ptr());
    // Elements before the array that the first counter has.
    let skipped = offset % N as u64;
    let is_aligned = first.wrapping_sub(skipped as usize).addr().is_multiple_of(BYTES_PER_COUNTER);
    let step = u64::from(thread::grid_dim_x()) * u64::from(BLOCK);

    let mut vector = index.get() as u64;
    // The place of the vector's first element, counted from `skipped` before the array.
    while vector * (N as u64) < len + skipped {
        let (from, counter) = (vector * N as u64, (offset / N as u64).wrapping_add(vector));
        let number = counter.wrapping_mul(N as u64);
        let values = R::values(block_of_words(seed, counter), seed, number, a, b);
        let to = first.wrapping_add(from as usize).wrapping_sub(skipped as usize);
        if is_aligned && from >= skipped && from + N as u64 <= len + skipped {
            // SAFETY: as many bytes; all of them lie in the array, aligned, and no other thread has this vector.
            unsafe { store_16(to.cast::<Vec4<u32>>(), core::mem::transmute_copy(&values)) };
        } else {
            each::<N>(|i| {
                let at = from + i as u64;
                if at >= skipped && at < len + skipped {
                    // SAFETY: in the array, in this thread's vector.
                    unsafe { to.wrapping_add(i).write(values[i]) };
                }
            });
        }
        vector += step;
    }
}

/// The plain form of [`UniformF32`]: any grid.
#[kernel]
pub fn random_uniform_plain(
    index: ThreadIndex,
    seed: u64,
    offset: u64,
    mut out: DisjointSlice<f32>,
) {
    for i in index.grid_stride(out.len()) {
        if let Some(out) = out.get_mut(i) {
            let mut random = Philox::new(seed, 0);
            random.skip(offset.wrapping_add(i.get() as u64));
            *out = random.uniform_f32();
        }
    }
}

/// The plain form of [`NormalF32`], with mean 0 and variance 1, by accurate functions: any grid.
#[kernel]
pub fn random_normal_plain(
    index: ThreadIndex,
    seed: u64,
    offset: u64,
    mut out: DisjointSlice<f32>,
) {
    for i in index.grid_stride(out.len()) {
        if let Some(out) = out.get_mut(i) {
            let element = offset.wrapping_add(i.get() as u64);
            let mut random = Philox::new(seed, 0);
            random.skip(element & !1);
            let [even, odd] = random.normal_f32_2();
            *out = if element & 1 == 0 { even } else { odd };
        }
    }
}
