//! The gradients of the queries.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::memory::{Memory, Pair, Place};
use super::{BackwardProblem, Operands, ROWS};
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

/// Computes the gradients of the queries; rows have at most `D` elements, that is `8 COLUMNS`.
///
/// # Safety
/// - All threads of a block of [`BLOCK`](super::BLOCK) call this together, with [`shared_bytes`](super::shared_bytes) of dynamic shared memory that nothing else uses.
/// - The operands have every element that the problem leads to, and the schedule is one of tiles of [`ROWS`] queries.
#[gpu_only]
#[inline(always)]
pub unsafe fn add<T: Half + Multiplies, C: Score, const D: usize, const COLUMNS: usize>(
    operands: Operands<'_, T>,
    (schedule, problem): (&Schedule, &BackwardProblem),
    (score, factor): (C, f32),
) {
    let forward = &problem.forward;
    let sizes = (ROWS as u32, ROWS as u32);
    let work = schedule.work(forward, score, thread::block_idx_x(), sizes, operands.batches);
    let thread = thread::index_in_block() as usize;
    let (own_row, lane) = (thread / 32 * ROWS_OF_WARP, thread % 32);
    let memory = Memory::<D>::get();
    let row = work.row + (own_row + lane / 4) as u32;
    let own = Sixteen::<C>::new(problem, &work, operands, (score, factor), row, lane);
    let mut sums = Tiles::<COLUMNS>::zeroed();
    let (first, mut at) = work.blocks;
    let of_keys = Pair::of_keys(problem, operands);
    let copy = |at: u32| {
        let (head, first) = (forward.kv_head(work.head), at * ROWS as u32);
        let place = Place { rows: work.batch.keys, head, first };
        // SAFETY: the stage is free, and nothing reads it before the barrier below.
        unsafe { of_keys.copy::<D>(memory.stage(at), place) };
    };
    // SAFETY: the caller's promise; every thread takes the same way through the barriers.
    unsafe {
        if first < at {
            let rows = work.batch.queries;
            let place = Place { rows, head: work.head, first: work.row };
            Pair::of_queries(problem, operands).copy::<D>(memory.tiles(), place);
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
            own.add::<T, D, COLUMNS>(&mut sums, [q, d_o, k, v], at);
            // All warps are done with the stage, which is filled next.
            thread::sync_threads();
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

    /// Adds the gradients by a block of keys.
    ///
    /// # Safety
    /// All lanes of the warp call this together, and the rows are there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<T: Half + Multiplies, const D: usize, const COLUMNS: usize>(
        &self,
        sums: &mut Tiles<COLUMNS>,
        [q, d_o, k, v]: [*mut u8; 4],
        at: u32,
    ) {
        let Self { work, score, factor, lane, .. } = *self;
        let forward = &self.problem.forward;
        // SAFETY: the caller's promise.
        unsafe {
            let mut weights = multiply_keys::<T, D, EIGHTS>(q, k, lane);
            let first = First { row: self.row, key: at * ROWS as u32 + self.key };
            let slopes = slopes(&weights, score, forward, work, first);
            if C::CHANGES || at < work.whole.0 || at >= work.whole.1 {
                mask(&mut weights, score, forward, work, first);
            }
            weights
                .map(|index, score| exp2_flushed(score.mul_add(factor, -self.lse[index / 2 % 2])));
            let mut gradients = multiply_keys::<T, D, EIGHTS>(d_o, v, lane);
            let of_kept = factor_of_kept(score);
            dropout::of_queries(
                &mut gradients,
                score,
                (forward, work),
                first,
                |number, is_kept| kept_or_zero(number * of_kept, is_kept),
            );
            gradients.map(|index, gradient| {
                let weight = weights.0[index / 4][index % 4];
                let slope = if C::CHANGES { slopes.0[index / 4][index % 4] } else { 1.0 };
                weight * (gradient - self.delta[index / 2 % 2]) * slope
            });
            let operands = left_operands::<T, { EIGHTS / 2 }>(&gradients);
            multiply_values::<T, D, COLUMNS, { EIGHTS / 2 }>(sums, operands, k, lane);
        }
    }
}

/// Keys of a block, in eights.
const EIGHTS: usize = ROWS / 8;

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
