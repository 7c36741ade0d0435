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
//!   store, and no word is computed twice. The keys of the ten rounds are the same in all threads. A thread takes four
//!   blocks of words at a time, so that the work on places and edges is shared: on an H200 normal numbers come at 900
//!   Gsample/s, and at 760 if it takes one.

use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::intrinsics::{fast_cosf, fast_sinf};
use cuda_std::random::rand_core::Rng;
use cuda_std::random::{GpuRand, Philox, philox4x32};

use crate::rows::registers::{build, each};
use crate::rows::value::store_16;

/// Threads in a block.
pub const BLOCK: u32 = 256;
/// Most blocks of a launch; each goes on with what is behind all of them.
pub const MAX_BLOCKS: u32 = 132 * 64;
/// Bytes that four words become.
pub const BYTES_PER_COUNTER: usize = 16;
/// Counters that a thread has under way at a time.
const AT_ONCE: usize = 4;
/// Counters that a block takes at a time.
const TILE: usize = BLOCK as usize * AT_ONCE;

/// Blocks to launch for `n_elems` elements of `size_bytes`.
#[must_use]
pub const fn blocks(n_elems: usize, size_bytes: usize) -> u32 {
    // One more counter where the first elements begin in the middle of one.
    let counters = n_elems.div_ceil(BYTES_PER_COUNTER / size_bytes) + 1;
    let blocks = counters.div_ceil(TILE);
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
        let ((r0, [c0, s0]), (r1, [c1, s1])) = (box_muller(w0, w1), box_muller(w2, w3));
        let (r0, r1) = (b * r0, b * r1);
        [a + r0 * c0, a + r0 * s0, a + r1 * c1, a + r1 * s1]
    }
}

/// Radius, cosine and sine of a pair of normal numbers, from two words.
#[inline(always)]
fn box_muller(first: u32, second: u32) -> (f32, [f32; 2]) {
    const UNIT: f32 = 1.0 / 4_294_967_296.0;
    // `u` in (0, 1]; of the last 32nd its distance to 1, with all its digits. One conversion for either.
    let is_near_one = first >= 0xf800_0000;
    let x = (if is_near_one { !first } else { first }) as f32 * UNIT + UNIT / 2.0;
    // Minus twice the logarithm. Near 1 it is a series of that distance, since `lg2.approx` has an absolute error
    // there: the terms from the fifth on are below 2^-22 of it.
    let series = 2.0 + x * (1.0 + x * (2.0 / 3.0 + x * 0.5));
    let square =
        if is_near_one { x * series } else { -2.0 * core::f32::consts::LN_2 * log2_approximate(x) };
    // The turn as a signed number: from minus a half to a half.
    let angle = (second as i32) as f32 * (core::f32::consts::TAU * UNIT);
    (sqrt_approximate(square), [fast_cosf(angle), fast_sinf(angle)])
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

/// As [`Below`], with words of 64 bits.
pub enum Below64 {}

/// Implements integers below a bound, of words of a width.
macro_rules! below {
    ($($name:ident: $t:ident $n:literal, $wide:ident, $of:expr, $next:ident;)*) => {$(
        impl Distribution<$t, $n> for $name {
            #[inline(always)]
            fn values(words: [u32; 4], seed: u64, first: u64, a: $t, b: $t) -> [$t; $n] {
                // The upper half of the product is the integer; the lower half says whether the word is fair.
                let times = |word: $t| {
                    let product = $wide::from(word) * $wide::from(b);
                    [(product >> $t::BITS) as $t, product as $t]
                };
                let words: [$t; $n] = $of(words);
                let products: [[$t; 2]; $n] = build(|i| times(words[i]));
                let mut values: [$t; $n] = build(|i| products[i][0]);
                let mut least = $t::MAX;
                each::<$n>(|i| least = least.min(products[i][1]));
                // One branch for all of them, which is next to never taken, and behind it one loop: as many as there are
                // words would be more code than the instruction cache likes.
                if least < b {
                    let unfair = b.wrapping_neg() % b;
                    let mut left = 0;
                    each::<$n>(|i| left |= u32::from(products[i][1] < unfair) << i);
                    while left != 0 {
                        let i = left.trailing_zeros();
                        left &= left - 1;
                        let mut more = Philox::new(seed, first.wrapping_add(1 + u64::from(i)));
                        let fair = loop {
                            let [value, rest] = times(more.$next());
                            if rest >= unfair {
                                break value;
                            }
                        };
                        each::<$n>(|k| values[k] = if k as u32 == i { fair } else { values[k] });
                    }
                }
                build(|i| a.wrapping_add(values[i]))
            }
        }
    )*};
}

below! {
    Below: u32 4, u64, |words| words, next_u32;
    Below64: u64 2, u128, pairs, next_u64;
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
pub fn random_fill<R: Distribution<T, N>, T: Pod, const N: usize>(
    index: ThreadIndex,
    seed: u64,
    offset: u64,
    a: T,
    b: T,
    mut out: DisjointSlice<T>,
) {
    const { assert!(size_of::<[T; N]>() == BYTES_PER_COUNTER) };
    // Elements before the array that the first counter has; where that one begins, and all elements from there on.
    let skipped = offset % N as u64;
    let begin = out.as_mut_ptr().wrapping_sub(skipped as usize);
    let end = out.len() as u64 + skipped;
    let is_aligned = begin.addr().is_multiple_of(BYTES_PER_COUNTER);
    let values = |vector: u64| {
        let counter = (offset / N as u64).wrapping_add(vector);
        let number = counter.wrapping_mul(N as u64);
        R::values(block_of_words(seed, counter), seed, number, a, b)
    };
    let (threads, tile) = (u64::from(BLOCK), TILE as u64);
    let (thread, block) = (index.get() as u64 % threads, index.get() as u64 / threads);
    let step = index.total() as u64 / threads * tile;
    // The tile's first vector.
    let mut first = block * tile;
    while first * (N as u64) < end {
        let own = first + thread;
        let is_whole = (first + tile) * N as u64 <= end && (first > 0 || skipped == 0);
        if is_aligned && is_whole {
            let to = begin.wrapping_add((own * N as u64) as usize).cast::<Vec4<u32>>();
            let all: [[T; N]; AT_ONCE] = build(|k| values(own + k as u64 * threads));
            each::<AT_ONCE>(|k| {
                // SAFETY: as many bytes; all of them lie in the array, aligned, and no other thread has this vector.
                unsafe {
                    store_16(
                        to.wrapping_add(k * BLOCK as usize),
                        core::mem::transmute_copy(&all[k]),
                    )
                };
            });
        } else {
            let mut vector = own;
            while vector < first + tile && vector * (N as u64) < end {
                let (from, values) = (vector * N as u64, values(vector));
                each::<N>(|i| {
                    let at = from + i as u64;
                    if at >= skipped && at < end {
                        // SAFETY: in the array, in this thread's vector.
                        unsafe { begin.wrapping_add(at as usize).write(values[i]) };
                    }
                });
                vector += threads;
            }
        }
        first += step;
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
