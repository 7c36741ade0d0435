//! The consumers: two warpgroups, each of which has 64 keys of a tile.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BackwardProblem, Operands};
use super::barriers::{FREE, FULL, OF_SUMS, SCORES};
use super::tile::{Place, Tile};
use super::{Block, KEYS, STAGES};
use crate::attention::dropout::{self, keeps, kept_or_zero};
use crate::attention::hopper::consume::{multiply_keys, multiply_values, release};
use crate::attention::hopper::{Half, KeyTile, SPAN};
use crate::attention::output::OutputRow;
use crate::attention::scores::left_operands;
use crate::attention::softmax::exp2_flushed;
use crate::attention::{Keys, Place as PlaceOfScore, Score, factor_before, factor_of_kept};
use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::copy::{Tile as Matrix, *};
use cuda_std::matrix::*;
use cuda_std::unroll::build;
use cuda_std::vector::Vec4;
use cuda_std::{gpu_only, unrolled};

/// Threads of both consumers.
const BOTH: u32 = 2 * WARPGROUP as u32;

/// Computes the gradients of this consumer's keys and values, and its share of those of the queries.
///
/// # Safety
/// All threads of a consumer call this together, with what the producer and the warps that add go by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const M: usize,
    const F: usize,
>(
    block: Block<BOXES, M>,
    problem: &BackwardProblem,
    tile: &Tile,
    operands: Operands<'_, T>,
    (score, factor): (C, f32),
    own: usize,
) where
    T: Half,
    C: Score,
    Columns<M>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
    Columns<64>: Instruction<T, T, f32>,
{
    let thread = thread_in_warpgroup();
    let (row, column) = Accumulator::<f32, D>::position(thread, 0);
    let key = tile.index * KEYS as u32 + (own * ROWS + row) as u32;
    let consumer = Consumer { block, problem, tile, score, factor, own, thread, key, column };
    let (mut d_k, mut d_v) = (Accumulator::<f32, D>::zeroed(), Accumulator::<f32, D>::zeroed());
    // SAFETY: the caller's promise.
    unsafe {
        if tile.len() > 0 {
            consumer.add::<T, D, F>(&mut d_k, &mut d_v);
        }
        let sums = ([&d_k, &d_v], factor_of_kept(score));
        write::<T, D, E, 0>(sums, problem, tile, operands, key, column);
        write::<T, D, E, 1>(sums, problem, tile, operands, key + 8, column);
    }
}

/// A thread of a consumer. Of scores, rows are keys and columns are queries: it has two keys, eight apart, and pairs of neighbouring queries.
#[derive(Clone, Copy)]
struct Consumer<'a, C, const BOXES: usize, const M: usize> {
    block: Block<BOXES, M>,
    problem: &'a BackwardProblem,
    tile: &'a Tile,
    score: C,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// Which consumer, and which of its threads.
    own: usize,
    thread: usize,
    /// The thread's first key, and its first query in a tile.
    key: u32,
    column: usize,
}

impl<C: Score, const BOXES: usize, const M: usize> Consumer<'_, C, BOXES, M> {
    /// Passes over the tiles of queries.
    ///
    /// The products that need all keys come after those of the values, during which the consumers wait for each other, and before those of the keys, during which their sums
    /// are stored.
    ///
    /// # Safety
    /// As [`all`]; there is a tile of queries.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<T: Half, const D: usize, const F: usize>(
        &self,
        d_k: &mut Accumulator<f32, D>,
        d_v: &mut Accumulator<f32, D>,
    ) where
        Columns<M>: Instruction<T, T, f32>,
        Columns<D>: Instruction<T, T, f32>,
        Columns<64>: Instruction<T, T, f32>,
    {
        let Self { block, tile, .. } = *self;
        // SAFETY: the caller's promise. A stage is released when the products with it are done; its numbers were read before the barrier of both consumers.
        unsafe {
            let (mut keys, mut queries, mut results) =
                (block.keys.consumer(), block.queries.consumer(), block.results.consumer());
            let k = keys.wait();
            keys.step();
            let [of_k, of_v] = [k, keys.wait()].map(|tile| self.rows_of(tile));
            let (mut place, mut at) = (tile.first(), 0);
            while at < tile.len() {
                let q = queries.wait();
                let mut scores = Accumulator::<f32, M>::zeroed();
                multiply_keys::<T, KEYS, M, BOXES>(&mut scores, of_k, q);
                let d_o = results.wait();
                let mut gradients = Accumulator::<f32, M>::zeroed();
                multiply_keys::<T, KEYS, M, BOXES>(&mut gradients, of_v, d_o);
                // All but the gradients.
                match BOXES {
                    1 => scores.wait::<1>(),
                    _ => scores.wait::<2>(),
                }
                let numbers = block.numbers(at).cast_const();
                let slopes = self.weights(&mut scores, numbers, place);
                gradients.wait::<0>();
                let bits = self.kept(place);
                let [weights, gradients] =
                    self.operands::<T, F>(&mut scores, &mut gradients, &slopes, numbers, bits);
                self.store_gradients::<F>(at, gradients);
                multiply_values::<T, M, BOXES, D, F>(d_v, weights, d_o, true);
                // `wgmma` of both consumers reads what these threads stored.
                fence_proxy_async_shared();
                sync_at_barrier(SCORES, BOTH);
                let mut sums = Accumulator::<f32, 64>::zeroed();
                self.multiply_gradients::<T>(&mut sums, at, k);
                multiply_values::<T, M, BOXES, D, F>(d_k, gradients, q, true);
                sums.wait::<1>();
                release(&results, 0);
                results.step();
                self.store_sums(at, &sums);
                d_k.wait::<0>();
                d_v.wait::<0>();
                release(&queries, 0);
                queries.step();
                place = tile.after(place);
                at += 1;
            }
        }
    }

    /// This consumer's rows of keys or values.
    #[gpu_only]
    #[inline(always)]
    fn rows_of(&self, tile: *const KeyTile<KEYS, BOXES>) -> Descriptor {
        Descriptor::of_rows(tile.cast::<Matrix<[[u8; SPAN]; KEYS], Swizzle128>>(), self.own * ROWS)
    }

    /// Replaces scores by weights. Returns the derivatives of what the functor makes of scores.
    ///
    /// # Safety
    /// The logarithms of the queries are at `numbers`.
    #[gpu_only]
    #[inline(always)]
    unsafe fn weights(
        &self,
        scores: &mut Accumulator<f32, M>,
        numbers: *const f32,
        place: Place,
    ) -> Accumulator<f32, M>
    where
        Columns<M>: Width<f32>,
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
    unsafe fn operands<T: Half, const F: usize>(
        &self,
        weights: &mut Accumulator<f32, M>,
        gradients: &mut Accumulator<f32, M>,
        slopes: &Accumulator<f32, M>,
        numbers: *const f32,
        bits: u64,
    ) -> [[[u32; 4]; F]; 2]
    where
        Columns<M>: Width<f32>,
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
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn kept(&self, at: Place) -> u64 {
        let head = self.problem.forward.head_of_all(self.tile.batch.index, at.head);
        let query = at.index * M as u32 + self.column as u32;
        // SAFETY: the caller's promise.
        unsafe {
            match M {
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
    fn apply(&self, scores: &mut Accumulator<f32, M>, at: Place) -> Accumulator<f32, M>
    where
        Columns<M>: Width<f32>,
    {
        let mut slopes = Accumulator::<f32, M>::zeroed();
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
    fn mask(&self, scores: &mut Accumulator<f32, M>, place: Place)
    where
        Columns<M>: Width<f32>,
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

    /// Stores gradients of scores, transposed: rows of keys for each query.
    ///
    /// # Safety
    /// As [`all`]; no product reads the stage.
    #[gpu_only]
    #[inline(always)]
    unsafe fn store_gradients<const F: usize>(&self, at: u32, gradients: [[u32; 4]; F]) {
        let lane = self.thread % 32;
        // Each register of a fragment is a matrix of eight keys by eight queries, of which eight lanes give the rows.
        let (matrix, row) = (lane / 8, lane % 8);
        let (query, eight) = (matrix / 2 * 8 + row, self.thread / 32 * 2 + matrix % 2);
        let offset = (self.own * M + query) * SPAN + (eight ^ row) * 16;
        let first = self.block.scores(at).wrapping_add(offset);
        // SAFETY: the caller's promise.
        unsafe {
            unrolled!(F, |sixteen| store_matrices::<4, true>(
                first.wrapping_add(16 * sixteen * SPAN),
                gradients[sixteen]
            ));
        }
    }

    /// Starts to multiply gradients of scores and keys: two groups. Of rows of 128 elements a consumer has half of the columns, else half of the rows.
    ///
    /// # Safety
    /// As [`all`]; both consumers have stored their gradients.
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_gradients<T: Half>(
        &self,
        sums: &mut Accumulator<f32, 64>,
        at: u32,
        keys: *const KeyTile<KEYS, BOXES>,
    ) where
        Columns<64>: Instruction<T, T, f32>,
    {
        let (row, part) = if BOXES == 1 { (self.own * ROWS, 0) } else { (0, self.own) };
        let gradients = self.block.scores(at).cast_const();
        let a = Descriptor::of_rows(gradients.cast::<Matrix<[[u8; SPAN]; M], Swizzle128>>(), row);
        let keys = keys.cast::<Matrix<[[u16; SPAN / 2]; KEYS], Swizzle128>>();
        let b = Descriptor::of_columns(keys, 0).advanced((part * KEYS * SPAN) as u32);
        unrolled!(2, |half| {
            let a = a.advanced((half * M * SPAN) as u32);
            let b = b.advanced((half * ROWS * SPAN) as u32);
            // SAFETY: the caller's promise.
            unsafe { sums.multiply_operands::<T, T, 4, false, true>([a, b], half > 0) };
        });
    }

    /// Leaves gradients of queries for the warp that adds them.
    ///
    /// # Safety
    /// As [`all`]; the products are done.
    #[gpu_only]
    #[inline(always)]
    unsafe fn store_sums(&self, at: u32, sums: &Accumulator<f32, 64>) {
        let barrier = at % STAGES as u32 * 2 + self.own as u32;
        let to = self.block.sums(at, self.own).cast::<Vec4<f32>>().wrapping_add(self.thread);
        // SAFETY: the caller's promise.
        unsafe {
            if at >= STAGES as u32 {
                // The sums of an earlier tile have been read.
                sync_at_barrier(FREE + barrier, OF_SUMS);
            }
            unrolled!(8, |eight| {
                let ([a, b], [c, d]) = (sums.pair(4 * eight), sums.pair(4 * eight + 2));
                to.wrapping_add(WARPGROUP * eight).write(Vec4::new(a, b, c, d));
            });
            fence_proxy_async_shared();
            arrive_at_barrier(FULL + barrier, OF_SUMS);
        }
    }
}

/// The query of a score, relative to the first of the thread.
#[inline(always)]
const fn query_of(index: usize) -> u32 {
    (index / 4 * 8 + index % 2) as u32
}

/// Writes a thread's part of one of its two rows, if that is inside.
///
/// # Safety
/// Each row is four lanes', each of which writes columns of its own.
#[gpu_only]
#[inline(always)]
unsafe fn write<T: Half, const D: usize, const EIGHTS: usize, const BELOW: usize>(
    ([d_k, d_v], of_kept): ([&Accumulator<f32, D>; 2], f32),
    problem: &BackwardProblem,
    tile: &Tile,
    to: Operands<'_, T>,
    key: u32,
    column: usize,
) where
    Columns<D>: Width<f32>,
{
    let (forward, rows) = (&problem.forward, tile.batch.keys);
    if key >= rows.len {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let to_k = to.d_k.add(rows.index(problem.d_k, tile.kv_head, key));
        let to_v = to.d_v.add(rows.index(problem.d_v, tile.kv_head, key));
        OutputRow::new(to_k, forward.scale, forward.depth as usize)
            .write::<EIGHTS>(column, |eight| d_k.pair(4 * eight + 2 * BELOW));
        OutputRow::new(to_v, of_kept, forward.value_depth as usize)
            .write::<EIGHTS>(column, |eight| d_v.pair(4 * eight + 2 * BELOW));
    }
}
