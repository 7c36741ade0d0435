//! The gradients of keys and values.
//!
//! The kernel is that of the queries with rows and columns exchanged: a lane has two keys, and its columns are queries. Heads of queries that share
//! the keys are passed over one after the other.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::memory::{Memory, Pair, Place as Rows, copy_numbers};
use super::queries::exponent_of;
use super::{BackwardProblem, MOST_IN_STAGES, Operands, ROWS, alone, rows_of_block};
use crate::attention::batch::Slots;
use crate::attention::dropout::{self, keeps, kept_or_zero};
use crate::attention::hopper::Half;
use crate::attention::output::OutputRow;
use crate::attention::scores::{Scores, Tiles, left_operands};
use crate::attention::softmax::exp2_flushed;
use crate::attention::warps::products::{multiply_keys, multiply_values};
use crate::attention::warps::{Multiplies, ROWS_OF_WARP};
use crate::attention::{
    Batch, Batches, Keys, Place, Problem, RowStrides, Score, factor_before, factor_of_kept,
};
use crate::prelude::*;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::{gpu_only, unrolled};

/// Blocks of the launch, for rows of `depth` elements: one for each tile of keys, or two, one for the gradients of keys and one for those of values, for rows of more than
/// [`MOST_IN_STAGES`] elements.
#[must_use]
pub const fn blocks(problem: &BackwardProblem, depth: usize) -> u64 {
    tiles_of_keys(&problem.forward, ROWS as u32) as u64
        * problem.forward.kv_heads as u64
        * problem.forward.batches_of_keys() as u64
        * roles(depth) as u64
}

/// Blocks of a tile of keys: one, or two where registers do not hold both gradients.
const fn roles(depth: usize) -> u32 {
    if depth <= MOST_IN_STAGES { 1 } else { 2 }
}

/// Tiles of `tile` keys of a head, or of packed keys the places for them.
#[inline(always)]
#[must_use]
pub const fn tiles_of_keys(forward: &Problem, tile: u32) -> u32 {
    if forward.has_packed_keys() {
        Slots::len(forward.keys, tile, forward.batches)
    } else {
        forward.keys.div_ceil(tile)
    }
}

/// The head of keys, the batch, and which tile of `tile` keys there, of one of `tiles` of a head; whether these are taken from the last one on.
#[inline(always)]
pub(super) fn place_of_tile(
    forward: &Problem,
    batches: Batches<'_>,
    (block, tiles, tile): (u32, u32, u32),
    from_last: bool,
) -> (u32, Batch, u32) {
    // Numbers by which is divided are not 0 where there is a block. A division of which the compiler sees that, too, has no panic.
    let (tiles, kv_heads) = (tiles.max(1), forward.kv_heads.max(1));
    let (head, index) = (block / tiles, block % tiles);
    let index = if from_last { tiles - 1 - index } else { index };
    let (batch, index) = if forward.has_packed_keys() {
        Slots::new(batches.keys, forward.batches, forward.keys, tile).find(index)
    } else {
        (head / kv_heads, index)
    };
    (head % kv_heads, Batch::new(forward, batches, batch), index)
}

/// Computes the gradients of keys and values; rows have at most `D` elements, that is `8 COLUMNS`. A block of queries has `8 E`, or `16 G`.
///
/// # Safety
/// - All threads of a block of [`BLOCK`](super::BLOCK) call this together, with [`shared_bytes`](super::shared_bytes) of dynamic shared memory that nothing else uses; there are
///   [`blocks`] of them.
/// - The operands have every element that the problem leads to.
#[gpu_only]
#[inline(always)]
pub unsafe fn add<
    T: Half + Multiplies,
    C: Score,
    const D: usize,
    const COLUMNS: usize,
    const E: usize,
    const G: usize,
>(
    operands: Operands<'_, T>,
    problem: &BackwardProblem,
    (score, factor): (C, f32),
) {
    const { assert!(8 * E == rows_of_block(D) && 16 * G == 8 * E && 8 * COLUMNS == D) };
    let (block, lane) = (thread::block_idx_x(), thread::index_in_block() as usize % 32);
    let own_row = thread::index_in_block() as usize / 32 * ROWS_OF_WARP;
    let tile_of = |queries: usize| {
        KeyTile::new(problem, operands.batches, score, block / roles(D), queries as u32)
    };
    // SAFETY: the caller's promise. Which gradients a block of two computes is the same for all of its threads.
    unsafe {
        if D <= MOST_IN_STAGES {
            let tile = tile_of(8 * E);
            let own = Sixteen::new(problem, &tile, (score, factor), own_row, lane);
            let (d_k, d_v) = own.add_stages::<T, D, COLUMNS, E, G>(operands, own_row);
            own.write_keys(&d_k, operands.d_k);
            own.write_values(&d_v, operands.d_v);
        } else if block % roles(D) == 0 {
            let tile = tile_of(8 * E);
            let own = Sixteen::new(problem, &tile, (score, factor), own_row, lane);
            let d_k = alone::keys::<T, C, D, COLUMNS, E, G>(&own, operands, own_row);
            own.write_keys(&d_k, operands.d_k);
        } else {
            // Values need no tile of their own, and leave room for more queries.
            let tile = tile_of(ROWS);
            let own = Sixteen::new(problem, &tile, (score, factor), own_row, lane);
            let d_v = alone::values::<T, C, D, COLUMNS, { ROWS / 8 }, { ROWS / 16 }>(
                &own, operands, own_row,
            );
            own.write_values(&d_v, operands.d_v);
        }
    }
}

/// A tile of keys.
#[derive(Clone, Copy)]
pub(super) struct KeyTile {
    batch: Batch,
    kv_head: u32,
    /// The first key.
    key: u32,
    /// The blocks of queries of which some query sees a key of the tile: the first, and the one after the last.
    blocks: (u32, u32),
    /// Those of which every query sees every key.
    whole: (u32, u32),
    /// Queries of a block.
    queries: u32,
}

impl KeyTile {
    /// Number `index`, with blocks of `queries` queries.
    #[inline(always)]
    fn new(
        problem: &BackwardProblem,
        batches: Batches<'_>,
        score: impl Score,
        index: u32,
        queries: u32,
    ) -> Self {
        let (forward, rows) = (&problem.forward, ROWS as u32);
        // The first keys, which the most queries see, come first.
        let (kv_head, batch, index) =
            place_of_tile(forward, batches, (index, tiles_of_keys(forward, rows), rows), false);
        let (band, lengths) = (score.band(), batch.lengths());
        let key = index.min(lengths.keys.div_ceil(rows)) * rows;
        let last = (key + rows).min(lengths.keys).saturating_sub(1);
        let any = band.any_queries((key, last), lengths);
        let all = band.all_queries((key, last), lengths);
        let first = any.first / queries;
        // A place without a tile has no queries.
        let end = if key < lengths.keys { any.end.max(any.first).div_ceil(queries) } else { first };
        let whole = (all.first.div_ceil(queries), all.end / queries);
        Self { batch, kv_head, key, blocks: (first, end), whole, queries }
    }

    /// Blocks of queries of a head.
    #[inline(always)]
    fn of_head(&self) -> u32 {
        self.blocks.1 - self.blocks.0
    }

    /// Blocks of queries of all heads that share the keys.
    #[inline(always)]
    pub fn len(&self, problem: &BackwardProblem) -> u32 {
        self.of_head() * (problem.forward.heads / problem.forward.kv_heads.max(1))
    }

    /// The queries of a block.
    #[inline(always)]
    pub fn place_of_queries(&self, problem: &BackwardProblem, at: u32) -> Rows {
        let (forward, of_head) = (&problem.forward, self.of_head().max(1));
        let head = self.kv_head * (forward.heads / forward.kv_heads.max(1)) + at / of_head;
        let first = (self.blocks.0 + at % of_head) * self.queries;
        Rows { rows: self.batch.queries, head, first }
    }

    /// The keys.
    #[inline(always)]
    pub fn place_of_keys(&self) -> Rows {
        Rows { rows: self.batch.keys, head: self.kv_head, first: self.key }
    }
}

/// Sixteen keys of a warp, of which this lane has two.
pub(super) struct Sixteen<'a, C> {
    pub problem: &'a BackwardProblem,
    pub tile: &'a KeyTile,
    score: C,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// The lane's first key, and its first query in a block.
    key: u32,
    column: u32,
    pub lane: usize,
}

impl<'a, C: Score> Sixteen<'a, C> {
    /// Those from row `own_row` of the tile on.
    #[inline(always)]
    fn new(
        problem: &'a BackwardProblem,
        tile: &'a KeyTile,
        (score, factor): (C, f32),
        own_row: usize,
        lane: usize,
    ) -> Self {
        let key = tile.key + (own_row + lane / 4) as u32;
        Self { problem, tile, score, factor, key, column: 2 * (lane as u32 % 4), lane }
    }

    /// The gradients of keys and values by all blocks of queries: one is used while the next one is copied. The warp has the rows from `own_row` on.
    ///
    /// # Safety
    /// As [`add`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn add_stages<
        T: Half + Multiplies,
        const D: usize,
        const COLUMNS: usize,
        const E: usize,
        const G: usize,
    >(
        &self,
        operands: Operands<'_, T>,
        own_row: usize,
    ) -> (Tiles<COLUMNS>, Tiles<COLUMNS>) {
        let Self { problem, tile, lane, .. } = *self;
        let (mut d_k, mut d_v) = (Tiles::<COLUMNS>::zeroed(), Tiles::<COLUMNS>::zeroed());
        let (memory, of_queries) = (Memory::<D>::get(), Pair::of_queries(problem, operands));
        let len = tile.len(problem);
        let copy = |at: u32| {
            let (place, numbers) = (tile.place_of_queries(problem, at), memory.numbers(at));
            // SAFETY: the stage is free, and nothing reads it before the barrier below.
            unsafe {
                of_queries.copy::<D>(memory.stage(at), place);
                copy_numbers(problem, operands, numbers, ROWS, place);
            }
        };
        // SAFETY: the caller's promise; every thread takes the same way through the barriers.
        unsafe {
            if len > 0 {
                let of_keys = Pair::of_keys(problem, operands);
                of_keys.copy::<D>(memory.tiles(), tile.place_of_keys());
                copy(0);
            }
            commit_group();
            let mut at = 0;
            while at < len {
                if at + 1 < len {
                    copy(at + 1);
                }
                commit_group();
                wait_groups::<1>();
                thread::sync_threads();
                let [q, d_o] = memory.stage(at);
                let [k, v] = memory.tiles().map(|rows| rows.wrapping_add(own_row * 2 * D));
                let numbers = memory.numbers(at).cast_const();
                let found = self.weights::<T, D, E>([k, q], numbers, at);
                let bits = self.kept::<E>(at);
                let kept = kept_operands::<T, E, G>(&found[0], bits);
                multiply_values::<T, D, COLUMNS, G>(&mut d_v, kept, d_o, lane);
                let gradients = multiply_keys::<T, D, E>(v, d_o, lane);
                let of_scores = (found, bits, numbers);
                let operands = self.of_scores::<T, E, G>(gradients, of_scores);
                multiply_values::<T, D, COLUMNS, G>(&mut d_k, operands, q, lane);
                at += 1;
                // All warps are done with the stage, which is filled next.
                thread::sync_threads();
            }
        }
        (d_k, d_v)
    }

    /// The weights of a block of queries, of which `numbers` has the logarithms of the sums, and the derivatives of what the functor makes of scores.
    ///
    /// # Safety
    /// All lanes of the warp call this together, and the rows are there.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn weights<T: Half + Multiplies, const D: usize, const E: usize>(
        &self,
        [k, q]: [*mut u8; 2],
        numbers: *const f32,
        at: u32,
    ) -> [Tiles<E>; 2] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = multiply_keys::<T, D, E>(k, q, self.lane);
            let slopes = self.apply(&mut weights, at);
            weights.map(|index, score| {
                let lse = self.number(numbers, index);
                exp2_flushed(score.mul_add(self.factor, -exponent_of(lse)))
            });
            [weights, slopes]
        }
    }

    /// Left operands of products with queries: gradients of scores, from those of weights, from what [`weights`](Self::weights) and [`kept`](Self::kept) gave, and from `numbers`,
    /// which have `delta` after the logarithms of all queries of a block.
    ///
    /// # Safety
    /// As [`weights`](Self::weights).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn of_scores<T: Half, const E: usize, const G: usize>(
        &self,
        mut gradients: Tiles<E>,
        ([weights, slopes], bits, numbers): ([Tiles<E>; 2], u64, *const f32),
    ) -> [[u32; 4]; G] {
        let of_kept = factor_of_kept(self.score);
        gradients.map(|index, gradient| {
            let weight = weights.0[index / 4][index % 4];
            let slope = if C::CHANGES { slopes.0[index / 4][index % 4] } else { 1.0 };
            let gradient = kept_or_zero(gradient * of_kept, keeps(bits, index));
            // SAFETY: the caller's promise.
            let delta = unsafe { self.number(numbers.wrapping_add(8 * E), index) };
            weight * (gradient - delta) * slope
        });
        left_operands::<T, G>(&gradients)
    }

    /// The number of a score's query.
    ///
    /// # Safety
    /// There is a number for each query of the block.
    #[inline(always)]
    unsafe fn number(&self, numbers: *const f32, index: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { numbers.add((self.column + query_of(index)) as usize).read() }
    }

    /// Which weights of a block of queries are kept.
    ///
    /// # Safety
    /// As [`weights`](Self::weights).
    #[inline(always)]
    pub unsafe fn kept<const E: usize>(&self, at: u32) -> u64 {
        let Rows { head, first, .. } = self.tile.place_of_queries(self.problem, at);
        let head = self.problem.forward.head_of_all(self.tile.batch.index, head);
        // SAFETY: the caller's promise.
        unsafe { dropout::of_keys::<C, E>(self.score, head, (first + self.column, self.key)) }
    }

    /// Makes of scores what counts, negative infinity where the query does not see the key. Returns the derivatives.
    #[gpu_only]
    #[inline(always)]
    fn apply<const E: usize>(&self, scores: &mut Tiles<E>, at: u32) -> Tiles<E> {
        let (tile, forward) = (self.tile, &self.problem.forward);
        let Rows { head, first, .. } = tile.place_of_queries(self.problem, at);
        let (query, lengths) = (first + self.column, tile.batch.lengths());
        let mut slopes = *scores;
        if C::CHANGES {
            let place = |index: usize| {
                let query = query + query_of(index);
                let own = query as i32 + lengths.keys as i32 - lengths.queries as i32;
                let key = self.key + 8 * (index as u32 / 2 % 2);
                Place { batch: tile.batch.index, head, query, key, own }
            };
            slopes.map(|index, sum| self.score.slope(sum * forward.scale, place(index)));
            scores.map(|index, sum| {
                self.score.apply(sum * factor_before::<C>(forward), place(index))
            });
        }
        let block = first / tile.queries;
        if block < tile.whole.0 || block >= tile.whole.1 {
            let band = self.score.band();
            let seen = [0, 8].map(|below| {
                let Keys { first, end } = band.of_key(self.key + below, lengths);
                [first.saturating_sub(query), end.saturating_sub(query)]
            });
            scores.map(|index, score| {
                let [low, end] = seen[index / 2 % 2];
                let sees = query_of(index) >= low && query_of(index) < end;
                if sees { score } else { f32::NEG_INFINITY }
            });
        }
        slopes
    }

    /// Writes the lane's gradients of keys, in two rows, to `to`.
    ///
    /// # Safety
    /// Each row is four lanes', each of which writes columns of its own.
    #[gpu_only]
    #[inline(always)]
    unsafe fn write_keys<T: Half, const COLUMNS: usize>(&self, sums: &Tiles<COLUMNS>, to: *mut T) {
        let forward = &self.problem.forward;
        let of_row = (forward.scale, forward.depth);
        // SAFETY: the caller's promise.
        unsafe { self.write(sums, to, self.problem.d_k, of_row) };
    }

    /// Writes the lane's gradients of values, in two rows, to `to`.
    ///
    /// # Safety
    /// As [`write_keys`](Self::write_keys).
    #[gpu_only]
    #[inline(always)]
    unsafe fn write_values<T: Half, const COLUMNS: usize>(
        &self,
        sums: &Tiles<COLUMNS>,
        to: *mut T,
    ) {
        let of_row = (factor_of_kept(self.score), self.problem.forward.value_depth);
        // SAFETY: the caller's promise.
        unsafe { self.write(sums, to, self.problem.d_v, of_row) };
    }

    /// Writes the lane's part of its two rows of `depth` elements, multiplied by `factor`, those that are inside.
    ///
    /// # Safety
    /// As [`write_keys`](Self::write_keys).
    #[gpu_only]
    #[inline(always)]
    unsafe fn write<T: Half, const COLUMNS: usize>(
        &self,
        sums: &Tiles<COLUMNS>,
        to: *mut T,
        strides: RowStrides,
        (factor, depth): (f32, u32),
    ) {
        let rows = self.tile.batch.keys;
        unrolled!(2, |below| {
            let key = self.key + 8 * below as u32;
            if key < rows.len {
                let to = to.wrapping_add(rows.index(strides, self.tile.kv_head, key));
                let row = OutputRow::new(to, factor, depth as usize);
                // SAFETY: the caller's promise.
                unsafe {
                    row.write::<COLUMNS>(2 * (self.lane % 4), |eight| {
                        let tile = sums.0[eight];
                        [tile[2 * below], tile[2 * below + 1]]
                    });
                }
            }
        });
    }
}

/// Left operands of products with gradients of results: the weights that are kept.
#[gpu_only]
#[inline(always)]
pub(super) fn kept_operands<T: Half, const E: usize, const G: usize>(
    weights: &Tiles<E>,
    bits: u64,
) -> [[u32; 4]; G] {
    let mut kept = *weights;
    kept.map(|index, weight| kept_or_zero(weight, keeps(bits, index)));
    left_operands::<T, G>(&kept)
}

/// The query of a score, relative to the first of the lane.
#[inline(always)]
const fn query_of(index: usize) -> u32 {
    (index / 4 * 8 + index % 2) as u32
}
