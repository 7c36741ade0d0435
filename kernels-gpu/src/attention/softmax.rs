//! The softmax of rows whose scores come in blocks of keys (M. Milakov and N. Gimelshein, "Online normalizer calculation for
//! softmax", 2018).

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::scores::Scores;
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::unroll::each_below;
use cuda_std::warp::warp_shuffle_xor;

/// Keys of a tile at most, in eights.
const MOST_EIGHTS: usize = 32;

/// `2^x` by one instruction, to 2 ulp; results below 2^-126 are 0.
#[gpu_only]
#[inline(always)]
pub fn exp2_flushed(x: f32) -> f32 {
    let result;
    // SAFETY: arithmetic in registers.
    unsafe {
        core::arch::asm!("ex2.approx.ftz.f32 {r}, {x};", r = out(reg32) result, x = in(reg32) x,
            options(pure, nomem, nostack, preserves_flags));
    }
    result
}

/// What is subtracted from scores whose maximum is `max`: 0 where that would be `-inf - -inf`.
#[inline(always)]
fn center(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// The maximum of four neighbouring lanes.
///
/// # Safety
/// All lanes of the warp call this together.
#[gpu_only]
#[inline(always)]
unsafe fn maximum_of_four(mut max: f32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        max = max.max(warp_shuffle_xor(!0, max, 1, 32).0);
        max.max(warp_shuffle_xor(!0, max, 2, 32).0)
    }
}

/// Adds two neighbours to the sums of those at even and at odd places.
#[inline(always)]
pub fn add_pair(sums: &mut [f32; 2], pair: [f32; 2]) {
    sums[0] += pair[0];
    sums[1] += pair[1];
}

/// What a thread knows of its two rows of scores, those eight apart. Four neighbouring lanes have the same rows, and each adds what it has
/// of them.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The maxima of the scores so far.
    pub max: [f32; 2],
    /// The sums of `2^(factor · (score - max))`, times a factor of the caller's, of the lane's own scores.
    pub sum: [f32; 2],
}

impl Rows {
    /// No score.
    pub const EMPTY: Self = Self { max: [f32::NEG_INFINITY; 2], sum: [0.0; 2] };

    /// Replaces scores by `2^(factor · (score - max))`, with the maxima of all so far. Returns what becomes of exponentials before, for each of the
    /// rows: a factor.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn exponentials<S: Scores>(&mut self, scores: &mut S, factor: f32) -> [f32; 2] {
        // SAFETY: the caller's promise.
        let (scales, offsets) = unsafe { self.raise(scores, factor) };
        scores.map(|index, score| exp2_flushed(score.mul_add(factor, offsets[index / 2 % 2])));
        let mut sums = [[0.0f32; 2]; 2];
        each_below::<MOST_EIGHTS>(S::EIGHTS, |eight| {
            let (above, below) = (scores.pair(4 * eight), scores.pair(4 * eight + 2));
            add_pair(&mut sums[0], above);
            add_pair(&mut sums[1], below);
        });
        self.add(sums, scales);
        scales
    }

    /// Takes the maxima of scores and those before. Returns what becomes of exponentials before, a factor for each row, and what is added to `factor · score` in
    /// exponents.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn raise<S: Scores>(&mut self, scores: &S, factor: f32) -> ([f32; 2], [f32; 2]) {
        let before = self.max;
        // Two chains a row.
        let mut max = [[self.max[0], self.max[1]]; 2];
        each_below::<MOST_EIGHTS>(S::EIGHTS, |eight| {
            let (above, below) = (scores.pair(4 * eight), scores.pair(4 * eight + 2));
            max[0][0] = max[0][0].max(above[0]);
            max[1][0] = max[1][0].max(above[1]);
            max[0][1] = max[0][1].max(below[0]);
            max[1][1] = max[1][1].max(below[1]);
        });
        // SAFETY: the caller's promise.
        let max = unsafe {
            [maximum_of_four(max[0][0].max(max[1][0])), maximum_of_four(max[0][1].max(max[1][1]))]
        };
        self.max = max;
        let offsets = [-(center(max[0]) * factor), -(center(max[1]) * factor)];
        let scales = [
            exp2_flushed(before[0].mul_add(factor, offsets[0])),
            exp2_flushed(before[1].mul_add(factor, offsets[1])),
        ];
        (scales, offsets)
    }

    /// Adds exponentials, of each row those at even and at odd places, to the sums so far, which are multiplied by `scales`.
    #[inline(always)]
    pub fn add(&mut self, sums: [[f32; 2]; 2], scales: [f32; 2]) {
        let own = sums.map(|[even, odd]| even + odd);
        self.sum = [self.sum[0].mul_add(scales[0], own[0]), self.sum[1].mul_add(scales[1], own[1])];
    }

    /// The sums of whole rows.
    ///
    /// # Safety
    /// All lanes of the warp call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn whole_sums(&self) -> [f32; 2] {
        self.sum.map(|mut sum| {
            // SAFETY: the caller's promise.
            unsafe {
                sum += warp_shuffle_xor(!0, sum, 1, 32).0;
                sum += warp_shuffle_xor(!0, sum, 2, 32).0;
            }
            sum
        })
    }
}
