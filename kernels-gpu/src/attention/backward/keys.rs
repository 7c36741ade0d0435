//! The gradients of keys and values.
//!
//! The kernel is that of the queries with rows and columns exchanged: a lane has two keys, and its columns are queries. Heads of queries that share
//! the keys are passed over one after the other.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::memory::{Memory, Pair, Place as Rows, copy_numbers};
use super::queries::exponent_of;
use super::{BackwardProblem, Operands, ROWS};
use crate::attention::batch::Slots;
use crate::attention::dropout::{self, keeps, kept_or_zero};
use crate::attention::hopper::Half;
use crate::attention::output::OutputRow;
use crate::attention::scores::{Scores, Tiles, left_operands};
use crate::attention::softmax::exp2_flushed;
use crate::attention::warps::products::{multiply_keys, multiply_values};
use crate::attention::warps::{Multiplies, ROWS_OF_WARP};
use crate::attention::{
    Batch, Batches, Keys, Place, Problem, Score, factor_before, factor_of_kept,
};
use crate::prelude::*;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::gpu_only;

/// Queries of a block, in eights.
const EIGHTS: usize = ROWS / 8;

/// Blocks of the launch: one for each tile of keys.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    tiles_of_keys(&problem.forward, ROWS as u32) as u64
        * problem.forward.kv_heads as u64
        * problem.forward.batches_of_keys() as u64
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

/// Computes the gradients of keys and values; rows have at most `D` elements, that is `8 COLUMNS`.
///
/// # Safety
/// - All threads of a block of [`BLOCK`](super::BLOCK) call this together, with [`shared_bytes`](super::shared_bytes) of dynamic shared memory that nothing else uses; there are
///   [`blocks`] of them.
/// - The operands have every element that the problem leads to.
#[gpu_only]
#[inline(always)]
pub unsafe fn add<T: Half + Multiplies, C: Score, const D: usize, const COLUMNS: usize>(
    operands: Operands<'_, T>,
    problem: &BackwardProblem,
    (score, factor): (C, f32),
) {
    let tile = KeyTile::new(problem, operands.batches, score, thread::block_idx_x());
    let thread = thread::index_in_block() as usize;
    let (own_row, lane) = (thread / 32 * ROWS_OF_WARP, thread % 32);
    let memory = Memory::<D>::get();
    let key = tile.key + (own_row + lane / 4) as u32;
    let column = 2 * (lane as u32 % 4);
    let own = Sixteen { problem, tile: &tile, score, factor, key, column, lane };
    let (mut d_k, mut d_v) = (Tiles::<COLUMNS>::zeroed(), Tiles::<COLUMNS>::zeroed());
    let (len, of_queries) = (tile.len(problem), Pair::of_queries(problem, operands));
    let copy = |at: u32| {
        let place = tile.place_of_queries(problem, at);
        // SAFETY: the stage is free, and nothing reads it before the barrier below.
        unsafe {
            of_queries.copy::<D>(memory.stage(at), place);
            copy_numbers(problem, operands, memory.numbers(at), place);
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
            own.add::<T, D, COLUMNS>([&mut d_k, &mut d_v], [k, v, q, d_o], numbers, at);
            at += 1;
            // All warps are done with the stage, which is filled next.
            thread::sync_threads();
        }
        let sums = ([&d_k, &d_v], factor_of_kept(score));
        write::<T, COLUMNS, 0>(sums, problem, &tile, operands, key, lane);
        write::<T, COLUMNS, 1>(sums, problem, &tile, operands, key + 8, lane);
    }
}

/// A tile of keys.
#[derive(Clone, Copy)]
struct KeyTile {
    batch: Batch,
    kv_head: u32,
    /// The first key.
    key: u32,
    /// The blocks of queries of which some query sees a key of the tile: the first, and the one after the last.
    blocks: (u32, u32),
    /// Those of which every query sees every key.
    whole: (u32, u32),
}

impl KeyTile {
    #[inline(always)]
    fn new(problem: &BackwardProblem, batches: Batches<'_>, score: impl Score, block: u32) -> Self {
        let (forward, rows) = (&problem.forward, ROWS as u32);
        // The first keys, which the most queries see, come first.
        let (kv_head, batch, index) =
            place_of_tile(forward, batches, (block, tiles_of_keys(forward, rows), rows), false);
        let (band, lengths) = (score.band(), batch.lengths());
        let key = index.min(lengths.keys.div_ceil(rows)) * rows;
        let last = (key + rows).min(lengths.keys).saturating_sub(1);
        let any = band.any_queries((key, last), lengths);
        let all = band.all_queries((key, last), lengths);
        let first = any.first / rows;
        // A place without a tile has no queries.
        let end = if key < lengths.keys { any.end.max(any.first).div_ceil(rows) } else { first };
        let whole = (all.first.div_ceil(rows), all.end / rows);
        Self { batch, kv_head, key, blocks: (first, end), whole }
    }

    /// Blocks of queries of a head.
    #[inline(always)]
    fn of_head(&self) -> u32 {
        self.blocks.1 - self.blocks.0
    }

    /// Blocks of queries of all heads that share the keys.
    #[inline(always)]
    fn len(&self, problem: &BackwardProblem) -> u32 {
        self.of_head() * (problem.forward.heads / problem.forward.kv_heads.max(1))
    }

    /// The queries of a block.
    #[inline(always)]
    fn place_of_queries(&self, problem: &BackwardProblem, at: u32) -> Rows {
        let (forward, of_head) = (&problem.forward, self.of_head().max(1));
        let head = self.kv_head * (forward.heads / forward.kv_heads.max(1)) + at / of_head;
        let first = (self.blocks.0 + at % of_head) * ROWS as u32;
        Rows { rows: self.batch.queries, head, first }
    }

    /// The keys.
    #[inline(always)]
    fn place_of_keys(&self) -> Rows {
        Rows { rows: self.batch.keys, head: self.kv_head, first: self.key }
    }
}

/// Sixteen keys of a warp, of which this lane has two.
struct Sixteen<'a, C> {
    problem: &'a BackwardProblem,
    tile: &'a KeyTile,
    score: C,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// The lane's first key, and its first query in a block.
    key: u32,
    column: u32,
    lane: usize,
}

impl<C: Score> Sixteen<'_, C> {
    /// Adds the gradients by a block of queries, of which `numbers` has the logarithms of the sums, and then `delta`.
    ///
    /// # Safety
    /// All lanes of the warp call this together, and the rows are there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<T: Half + Multiplies, const D: usize, const COLUMNS: usize>(
        &self,
        [d_k, d_v]: [&mut Tiles<COLUMNS>; 2],
        [k, v, q, d_o]: [*mut u8; 4],
        numbers: *const f32,
        at: u32,
    ) {
        let (lane, column) = (self.lane, self.column as usize);
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = multiply_keys::<T, D, EIGHTS>(k, q, lane);
            let number = |index: usize| numbers.add(column + index / 4 * 8 + index % 2);
            let slopes = self.apply(&mut weights, at);
            weights.map(|index, score| {
                exp2_flushed(score.mul_add(self.factor, -exponent_of(number(index).read())))
            });
            let bits = self.kept(at);
            let mut kept = weights;
            kept.map(|index, weight| kept_or_zero(weight, keeps(bits, index)));
            let operands = left_operands::<T, { EIGHTS / 2 }>(&kept);
            multiply_values::<T, D, COLUMNS, { EIGHTS / 2 }>(d_v, operands, d_o, lane);
            let mut gradients = multiply_keys::<T, D, EIGHTS>(v, d_o, lane);
            let of_kept = factor_of_kept(self.score);
            gradients.map(|index, gradient| {
                let weight = weights.0[index / 4][index % 4];
                let slope = if C::CHANGES { slopes.0[index / 4][index % 4] } else { 1.0 };
                let gradient = kept_or_zero(gradient * of_kept, keeps(bits, index));
                weight * (gradient - number(index).add(ROWS).read()) * slope
            });
            let operands = left_operands::<T, { EIGHTS / 2 }>(&gradients);
            multiply_values::<T, D, COLUMNS, { EIGHTS / 2 }>(d_k, operands, q, lane);
        }
    }

    /// Which weights of a block of queries are kept.
    ///
    /// # Safety
    /// As [`add`](Self::add).
    #[inline(always)]
    unsafe fn kept(&self, at: u32) -> u64 {
        let Rows { head, first, .. } = self.tile.place_of_queries(self.problem, at);
        let head = self.problem.forward.head_of_all(self.tile.batch.index, head);
        // SAFETY: the caller's promise.
        unsafe { dropout::of_keys::<C, EIGHTS>(self.score, head, (first + self.column, self.key)) }
    }

    /// Makes of scores what counts, negative infinity where the query does not see the key. Returns the derivatives.
    #[gpu_only]
    #[inline(always)]
    fn apply(&self, scores: &mut Tiles<EIGHTS>, at: u32) -> Tiles<EIGHTS> {
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
        let block = first / ROWS as u32;
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
}

/// The query of a score, relative to the first of the lane.
#[inline(always)]
const fn query_of(index: usize) -> u32 {
    (index / 4 * 8 + index % 2) as u32
}

/// Writes a lane's part of one of its two rows, if that is inside.
///
/// # Safety
/// Each row is four lanes', each of which writes columns of its own.
#[gpu_only]
#[inline(always)]
unsafe fn write<T: Half, const COLUMNS: usize, const BELOW: usize>(
    ([d_k, d_v], of_kept): ([&Tiles<COLUMNS>; 2], f32),
    problem: &BackwardProblem,
    tile: &KeyTile,
    to: Operands<'_, T>,
    key: u32,
    lane: usize,
) {
    let (forward, rows) = (&problem.forward, tile.batch.keys);
    if key >= rows.len {
        return;
    }
    // SAFETY: the caller's promise.
    unsafe {
        let to_k = to.d_k.add(rows.index(problem.d_k, tile.kv_head, key));
        let to_v = to.d_v.add(rows.index(problem.d_v, tile.kv_head, key));
        OutputRow::new(to_k, forward.scale, forward.depth as usize)
            .write::<COLUMNS>(2 * (lane % 4), |e| [d_k.0[e][2 * BELOW], d_k.0[e][2 * BELOW + 1]]);
        OutputRow::new(to_v, of_kept, forward.value_depth as usize)
            .write::<COLUMNS>(2 * (lane % 4), |e| [d_v.0[e][2 * BELOW], d_v.0[e][2 * BELOW + 1]]);
    }
}
