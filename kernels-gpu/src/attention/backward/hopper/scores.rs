//! The scores of a tile of keys and a tile of queries, as a thread of a consumer has them in registers.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::BackwardProblem;
use super::tile::{Place, Tile};
use crate::attention::dropout::{self, keeps, kept_or_zero};
use crate::attention::hopper::Half;
use crate::attention::scores::left_operands;
use crate::attention::softmax::exp2_flushed;
use crate::attention::{Keys, Place as PlaceOfScore, Score, factor_before, factor_of_kept};
use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::matrix::*;

/// A thread's scores of 64 keys, the rows, and `N` queries, the columns: it has two keys, eight apart, and pairs of neighbouring queries.
#[derive(Clone, Copy)]
pub(super) struct ThreadScores<'a, C, const KEYS: usize, const M: usize, const N: usize> {
    pub problem: &'a BackwardProblem,
    pub tile: &'a Tile<KEYS, M>,
    pub score: C,
    /// Factor of scores in exponents to base 2.
    pub factor: f32,
    /// The thread's first key, and its first query in a tile.
    pub key: u32,
    pub column: usize,
}

/// Weights, products of values and gradients of results, and the derivatives of what the functor makes of scores.
type Products<'a, const N: usize> =
    (&'a mut Accumulator<f32, N>, &'a mut Accumulator<f32, N>, &'a Accumulator<f32, N>);

impl<C: Score, const KEYS: usize, const M: usize, const N: usize> ThreadScores<'_, C, KEYS, M, N> {
    /// Replaces scores by weights. Returns the derivatives of what the functor makes of scores.
    ///
    /// # Safety
    /// The logarithms of the queries are at `numbers`.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn weights(
        &self,
        scores: &mut Accumulator<f32, N>,
        numbers: *const f32,
        place: Place,
    ) -> Accumulator<f32, N>
    where
        Columns<N>: Width<f32>,
    {
        let slopes = self.apply(scores, place);
        let (first, end) = self.tile.whole;
        if place.index < first || place.index >= end {
            self.mask(scores, place);
        }
        scores.map(|index, score| {
            // SAFETY: the caller's promise.
            let lse = unsafe { self.number(numbers, index) };
            exp2_flushed(score.mul_add(self.factor, -lse))
        });
        slopes
    }

    /// Weights, and the gradients of scores, as left operands of products; those are 0 where they are dropped.
    ///
    /// # Safety
    /// The sums `delta` of the queries are after `M` numbers.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn operands<T: Half, const F: usize>(
        &self,
        (weights, gradients, slopes): Products<'_, N>,
        numbers: *const f32,
        bits: u64,
    ) -> [[[u32; 4]; F]; 2]
    where
        Columns<N>: Width<f32>,
    {
        let deltas = numbers.wrapping_add(M);
        if C::DROPS {
            let of_kept = factor_of_kept(self.score);
            gradients.map(|index, number| kept_or_zero(number * of_kept, keeps(bits, index)));
        }
        gradients.combine(weights, |index, gradient, weight| {
            // SAFETY: the caller's promise.
            let delta = unsafe { self.number(deltas, index) };
            weight * (gradient - delta)
        });
        if C::CHANGES {
            gradients.combine(slopes, |_, gradient, slope| gradient * slope);
        }
        if C::DROPS {
            weights.map(|index, weight| kept_or_zero(weight, keeps(bits, index)));
        }
        [left_operands::<T, F>(weights), left_operands::<T, F>(gradients)]
    }

    /// Which weights of a tile of queries are kept.
    ///
    /// # Safety
    /// The lanes of each warp call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn kept(&self, at: Place) -> u64 {
        let head = self.problem.forward.head_of_all(self.tile.batch.index, at.head);
        let query = at.index * M as u32 + self.column as u32;
        // SAFETY: the caller's promise.
        unsafe {
            match N {
                32 => dropout::of_keys::<C, 4>(self.score, head, (query, self.key)),
                64 => dropout::of_keys::<C, 8>(self.score, head, (query, self.key)),
                _ => dropout::of_keys::<C, 16>(self.score, head, (query, self.key)),
            }
        }
    }

    /// The number of the query of a score. Those of a pair of queries are loaded together.
    ///
    /// # Safety
    /// There are `M` numbers, in shared memory.
    #[gpu_only]
    #[inline(always)]
    unsafe fn number(&self, numbers: *const f32, index: usize) -> f32 {
        // SAFETY: the caller's promise; columns are even.
        let pair = unsafe { numbers.add(index / 4 * 8 + self.column).cast::<u64>().read() };
        f32::unpair(pair)[index % 2]
    }

    /// Makes of scores what counts. Returns the derivatives.
    #[gpu_only]
    #[inline(always)]
    fn apply(&self, scores: &mut Accumulator<f32, N>, at: Place) -> Accumulator<f32, N>
    where
        Columns<N>: Width<f32>,
    {
        let mut slopes = Accumulator::<f32, N>::zeroed();
        if C::CHANGES {
            let batch = &self.tile.batch;
            let first = at.index * M as u32 + self.column as u32;
            let place = |index: usize| {
                let query = first + query_of(index);
                let own = query as i32 + batch.keys.len as i32 - batch.queries.len as i32;
                let key = self.key + 8 * (index as u32 / 2 % 2);
                PlaceOfScore { batch: batch.index, head: at.head, query, key, own }
            };
            let scale = self.problem.forward.scale;
            slopes.combine(scores, |at, _, sum| self.score.slope(sum * scale, place(at)));
            let before = factor_before::<C>(&self.problem.forward);
            scores.map(|at, sum| self.score.apply(sum * before, place(at)));
        }
        slopes
    }

    /// Gives keys that a query does not see, and rows past the last key, negative infinity.
    #[gpu_only]
    #[inline(always)]
    fn mask(&self, scores: &mut Accumulator<f32, N>, place: Place)
    where
        Columns<N>: Width<f32>,
    {
        let lengths = self.tile.batch.lengths();
        let query = place.index * M as u32 + self.column as u32;
        // Queries relative to the first one of the thread.
        let seen = [0, 8].map(|below| {
            let key = self.key + below;
            let Keys { first, end } = self.score.band().of_key(key, lengths);
            let end = if key < lengths.keys { end } else { 0 };
            [first.saturating_sub(query), end.saturating_sub(query)]
        });
        scores.map(|index, score| {
            let ([first, end], query) = (seen[index / 2 % 2], query_of(index));
            if query >= first && query < end { score } else { f32::NEG_INFINITY }
        });
    }
}

/// The query of a score, relative to the first of the thread.
#[inline(always)]
const fn query_of(index: usize) -> u32 {
    (index / 4 * 8 + index % 2) as u32
}
