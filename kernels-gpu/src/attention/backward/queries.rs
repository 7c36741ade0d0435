//! The gradients of the queries.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::halves::{self, Halves};
use super::memory::{Memory, Pair, Place};
use super::{BackwardProblem, MOST_IN_STAGES, Operands, ROWS, rows_of_block};
use crate::attention::dropout::{self, kept_or_zero};
use crate::attention::hopper::Half;
use crate::attention::output::OutputRow;
use crate::attention::scores::{First, Scores, Tiles, left_operands, mask, slopes};
use crate::attention::softmax::exp2_flushed;
use crate::attention::warps::products::{multiply_keys, multiply_values};
use crate::attention::warps::{Multiplies, ROWS_OF_WARP};
use crate::attention::{Schedule, Score, Work, factor_of_kept};
use crate::prelude::*;
use core::f32::consts::LOG2_E;
use cuda_std::copy::{commit_group, wait_groups};
use cuda_std::gpu_only;

/// Computes the gradients of the queries; rows have at most `D` elements, that is `8 COLUMNS`. A block of keys has `8 E`, or `16 G`.
///
/// # Safety
/// - All threads of a block of [`BLOCK`](super::BLOCK) call this together, with [`shared_bytes`](super::shared_bytes) of dynamic shared memory that nothing else uses.
/// - The operands have every element that the problem leads to, and the schedule is one of tiles of [`ROWS`] queries.
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
    (schedule, problem): (&Schedule, &BackwardProblem),
    (score, factor): (C, f32),
) {
    const { assert!(8 * E == rows_of_block(D) && 16 * G == 8 * E && 8 * COLUMNS == D) };
    let forward = &problem.forward;
    let sizes = (ROWS as u32, 8 * E as u32);
    let work = schedule.work(forward, score, thread::block_idx_x(), sizes, operands.batches);
    let thread = thread::index_in_block() as usize;
    let (own_row, lane) = (thread / 32 * ROWS_OF_WARP, thread % 32);
    let row = work.row + (own_row + lane / 4) as u32;
    let own = Sixteen::<C>::new(problem, &work, operands, (score, factor), row, lane);
    let mut sums = Tiles::<COLUMNS>::zeroed();
    // SAFETY: the caller's promise.
    unsafe {
        if D <= MOST_IN_STAGES {
            own.add_stages::<T, D, COLUMNS, E, G>(&mut sums, operands, own_row);
        } else {
            let (first, end) = work.blocks;
            let mut halves = InHalves::<T, C, D, COLUMNS, E, G> {
                own: &own,
                of_keys: Pair::of_keys(problem, operands),
                sums,
                own_row,
            };
            if first < end {
                let memory = Memory::<D>::get();
                let of_queries = Pair::of_queries(problem, operands);
                of_queries.copy::<D>(memory.tiles(), own.place_of_queries());
            }
            halves::each_block(&mut halves, end - first);
            sums = halves.sums;
        }
        write::<T, COLUMNS, 0>(&sums, problem, &work, operands.d_q, row, lane);
        write::<T, COLUMNS, 1>(&sums, problem, &work, operands.d_q, row + 8, lane);
    }
}

/// Sixteen queries of a warp, of which this lane has two.
struct Sixteen<'a, C> {
    problem: &'a BackwardProblem,
    work: &'a Work,
    score: C,
    /// Factor of scores in exponents to base 2.
    factor: f32,
    /// The lane's first query, and its first key in a block.
    row: u32,
    key: u32,
    lane: usize,
    /// The logarithms to base 2 of the sums of both queries, infinity for those that see no key, and their `delta`.
    lse: [f32; 2],
    delta: [f32; 2],
}

impl<'a, C: Score> Sixteen<'a, C> {
    #[gpu_only]
    #[inline(always)]
    fn new<T>(
        problem: &'a BackwardProblem,
        work: &'a Work,
        operands: Operands<'_, T>,
        (score, factor): (C, f32),
        row: u32,
        lane: usize,
    ) -> Self {
        let forward = &problem.forward;
        let of_query = |query: u32, values: *const f32| {
            let rows = work.batch.queries;
            let index = forward.index(rows.batch, work.head, rows.first + query);
            // SAFETY: a query that is inside.
            if query < rows.len { unsafe { values.add(index).read() } } else { 0.0 }
        };
        let lse = [row, row + 8].map(|query| exponent_of(of_query(query, operands.lse)));
        let delta = [row, row + 8].map(|query| of_query(query, operands.delta));
        Self { problem, work, score, factor, row, key: 2 * (lane as u32 % 4), lane, lse, delta }
    }

    /// Adds the gradients by all blocks of keys, from the last one on: one is used while the next one is copied. The warp has the rows from `own_row` on.
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
        sums: &mut Tiles<COLUMNS>,
        operands: Operands<'_, T>,
        own_row: usize,
    ) {
        let (memory, of_keys) = (Memory::<D>::get(), Pair::of_keys(self.problem, operands));
        let (first, mut at) = self.work.blocks;
        let copy = |at: u32| {
            // SAFETY: the stage is free, and nothing reads it before the barrier below.
            unsafe { of_keys.copy::<D>(memory.stage(at), self.place_of_keys::<E>(at)) };
        };
        // SAFETY: the caller's promise; every thread takes the same way through the barriers.
        unsafe {
            if first < at {
                let of_queries = Pair::of_queries(self.problem, operands);
                of_queries.copy::<D>(memory.tiles(), self.place_of_queries());
                copy(at - 1);
            }
            commit_group();
            while at > first {
                at -= 1;
                if at > first {
                    copy(at - 1);
                }
                commit_group();
                wait_groups::<1>();
                thread::sync_threads();
                let [k, v] = memory.stage(at);
                let [q, d_o] = memory.tiles().map(|rows| rows.wrapping_add(own_row * 2 * D));
                let weights = self.weights::<T, D, E>([q, k], at);
                let gradients = multiply_keys::<T, D, E>(d_o, v, self.lane);
                self.add_block::<T, D, COLUMNS, E, G>(sums, gradients, weights, k, at);
                // All warps are done with the stage, which is filled next.
                thread::sync_threads();
            }
        }
    }

    /// Where the queries of the tile are.
    #[inline(always)]
    fn place_of_queries(&self) -> Place {
        Place { rows: self.work.batch.queries, head: self.work.head, first: self.work.row }
    }

    /// Where the `8 E` keys of a block are.
    #[inline(always)]
    fn place_of_keys<const E: usize>(&self, at: u32) -> Place {
        let head = self.problem.forward.kv_head(self.work.head);
        Place { rows: self.work.batch.keys, head, first: at * 8 * E as u32 }
    }

    /// The lane's first query and key in a block.
    #[inline(always)]
    fn first<const E: usize>(&self, at: u32) -> First {
        First { row: self.row, key: at * 8 * E as u32 + self.key }
    }

    /// The weights of a block of keys, and the derivatives of what the functor makes of scores.
    ///
    /// # Safety
    /// All lanes of the warp call this together, and the rows are there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn weights<T: Half + Multiplies, const D: usize, const E: usize>(
        &self,
        [q, k]: [*mut u8; 2],
        at: u32,
    ) -> [Tiles<E>; 2] {
        let Self { work, score, factor, lane, .. } = *self;
        let (forward, first) = (&self.problem.forward, self.first::<E>(at));
        // SAFETY: the caller's promise.
        let mut weights = unsafe { multiply_keys::<T, D, E>(q, k, lane) };
        let slopes = slopes(&weights, score, forward, work, first);
        if C::CHANGES || at < work.whole.0 || at >= work.whole.1 {
            mask(&mut weights, score, forward, work, first);
        }
        weights.map(|index, score| exp2_flushed(score.mul_add(factor, -self.lse[index / 2 % 2])));
        [weights, slopes]
    }

    /// Adds the gradients by a block of keys, from those of its weights, and what [`weights`](Self::weights) gave.
    ///
    /// # Safety
    /// As [`weights`](Self::weights).
    #[gpu_only]
    #[inline(always)]
    unsafe fn add_block<
        T: Half + Multiplies,
        const D: usize,
        const COLUMNS: usize,
        const E: usize,
        const G: usize,
    >(
        &self,
        sums: &mut Tiles<COLUMNS>,
        mut gradients: Tiles<E>,
        [weights, slopes]: [Tiles<E>; 2],
        k: *mut u8,
        at: u32,
    ) {
        let Self { work, score, lane, .. } = *self;
        let (of, of_kept) = ((&self.problem.forward, work), factor_of_kept(score));
        dropout::of_queries(&mut gradients, score, of, self.first::<E>(at), |number, is_kept| {
            kept_or_zero(number * of_kept, is_kept)
        });
        gradients.map(|index, gradient| {
            let weight = weights.0[index / 4][index % 4];
            let slope = if C::CHANGES { slopes.0[index / 4][index % 4] } else { 1.0 };
            weight * (gradient - self.delta[index / 2 % 2]) * slope
        });
        let operands = left_operands::<T, G>(&gradients);
        // SAFETY: the caller's promise.
        unsafe { multiply_values::<T, D, COLUMNS, G>(sums, operands, k, lane) };
    }
}

/// The gradients by blocks of keys, from the last one on, of which values are the first half.
struct InHalves<'a, T, C, const D: usize, const COLUMNS: usize, const E: usize, const G: usize> {
    own: &'a Sixteen<'a, C>,
    of_keys: Pair<T>,
    sums: Tiles<COLUMNS>,
    /// The warp's first row of the tile.
    own_row: usize,
}

impl<T: Half, C: Score, const D: usize, const COLUMNS: usize, const E: usize, const G: usize>
    InHalves<'_, T, C, D, COLUMNS, E, G>
{
    /// The block of keys of an index.
    #[gpu_only]
    #[inline(always)]
    fn block(&self, at: u32) -> u32 {
        self.own.work.blocks.1 - 1 - at
    }

    /// Where keys and values are in shared memory.
    #[gpu_only]
    #[inline(always)]
    fn keys(&self) -> [*mut u8; 2] {
        Memory::<D>::get().halves(2, 8 * E)
    }

    /// Where the warp's queries, and gradients of results, are in shared memory.
    #[gpu_only]
    #[inline(always)]
    fn queries(&self) -> [*mut u8; 2] {
        Memory::<D>::get().tiles().map(|rows| rows.wrapping_add(self.own_row * 2 * D))
    }
}

impl<
    T: Half + Multiplies,
    C: Score,
    const D: usize,
    const COLUMNS: usize,
    const E: usize,
    const G: usize,
> Halves for InHalves<'_, T, C, D, COLUMNS, E, G>
{
    type Between = Tiles<E>;

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_first(&self, at: u32) {
        let ([_, v], place) = (self.keys(), self.own.place_of_keys::<E>(self.block(at)));
        // SAFETY: the caller's promise.
        unsafe { self.of_keys.copy_one::<D>(1, v, 8 * E, place) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn copy_second(&self, at: u32) {
        let ([k, _], place) = (self.keys(), self.own.place_of_keys::<E>(self.block(at)));
        // SAFETY: the caller's promise.
        unsafe { self.of_keys.copy_one::<D>(0, k, 8 * E, place) };
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn first(&mut self, _: u32) -> Tiles<E> {
        let ([_, d_o], [_, v]) = (self.queries(), self.keys());
        // SAFETY: the caller's promise.
        unsafe { multiply_keys::<T, D, E>(d_o, v, self.own.lane) }
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn second(&mut self, at: u32, gradients: Tiles<E>) {
        let ([q, _], [k, _], at) = (self.queries(), self.keys(), self.block(at));
        // SAFETY: the caller's promise.
        unsafe {
            let found = self.own.weights::<T, D, E>([q, k], at);
            self.own.add_block::<T, D, COLUMNS, E, G>(&mut self.sums, gradients, found, k, at);
        }
    }
}

/// What is subtracted in exponents to base 2 for a logarithm of a sum: nothing has weight where the sum is 0.
#[inline(always)]
pub(super) fn exponent_of(lse: f32) -> f32 {
    if lse == f32::NEG_INFINITY { f32::INFINITY } else { lse * LOG2_E }
}

/// Writes a lane's part of one of its two rows, if that is inside.
///
/// # Safety
/// Each row is four lanes', each of which writes columns of its own.
#[gpu_only]
#[inline(always)]
unsafe fn write<T: Half, const COLUMNS: usize, const BELOW: usize>(
    sums: &Tiles<COLUMNS>,
    problem: &BackwardProblem,
    work: &Work,
    to: *mut T,
    row: u32,
    lane: usize,
) {
    let (forward, rows) = (&problem.forward, work.batch.queries);
    if row < rows.len {
        // SAFETY: the caller's promise.
        unsafe {
            let to = to.add(rows.index(problem.d_q, work.head, row));
            let row = OutputRow::new(to, forward.scale, forward.depth as usize);
            row.write::<COLUMNS>(2 * (lane % 4), |eight| {
                let tile = sums.0[eight];
                [tile[2 * BELOW], tile[2 * BELOW + 1]]
            });
        }
    }
}
