//! The first steps of a staircase: attention as a textbook has it, and with the online softmax.
//!
//! In both a warp has a query, and its lanes divide the elements of rows: a score is a sum over the lanes.
//!
//! * [`attention_textbook`](fn@attention_textbook): three passes over the keys, for the maximum of the scores, the sum of their exponentials, and the results. Each computes all scores again.
//! * [`attention_online`](fn@attention_online): one pass. The sum and the results so far are multiplied by `e^(old maximum - new maximum)` where a score is larger than all before it
//!   (M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018).
//!
//! The steps after them give a warp sixteen queries, for tensor cores ([`warps`](super::warps)), and a warpgroup sixty-four ([`hopper`](super::hopper)).

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports, unused_variables))]

use super::{Band, Keys, Problem};
use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::intrinsics::fast_expf;
use cuda_std::unroll::{build, each};
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{bf16, f16, gpu_only};

/// Threads of a block: four warps.
pub const BLOCK: usize = 128;
/// Elements of a row that a lane has at most: rows have up to 256.
const OWN: usize = 8;

/// Blocks for all queries.
#[must_use]
pub const fn blocks(problem: &Problem) -> u64 {
    problem.all_queries().div_ceil(BLOCK / 32) as u64
}

/// Attention by three passes over the keys.
///
/// # Safety
/// Tensors have every element that the problem leads to, no two results are one element, and rows have at most 256 elements. Heads are not packed, keys neither divided nor
/// in pages.
#[kernel(bf16, f16, block = BLOCK)]
pub unsafe fn attention_textbook<T: Value>(
    problem: Problem,
    band: Band,
    q: &[T],
    k: &[T],
    v: &[T],
    mut o: DisjointSlice<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = row_of_warp();
        if row >= problem.all_queries() {
            return;
        }
        let query = Query::new(&problem, band, [q.as_ptr(), k.as_ptr(), v.as_ptr()], row);
        let Keys { first, end } = query.keys;
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0);
        for key in first..end {
            max = max.max(query.score(key));
        }
        for key in first..end {
            sum += fast_expf(query.score(key) - max);
        }
        let mut result = [0.0; OWN];
        for key in first..end {
            let weight = fast_expf(query.score(key) - max) / sum;
            let value = query.value(key);
            each::<OWN>(|i| result[i] = weight.mul_add(value[i], result[i]));
        }
        query.write(o.as_mut_ptr(), result);
    }
}

/// Attention by one pass over the keys.
///
/// # Safety
/// As [`attention_textbook`](fn@attention_textbook).
#[kernel(bf16, f16, block = BLOCK)]
pub unsafe fn attention_online<T: Value>(
    problem: Problem,
    band: Band,
    q: &[T],
    k: &[T],
    v: &[T],
    mut o: DisjointSlice<T>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let row = row_of_warp();
        if row >= problem.all_queries() {
            return;
        }
        let query = Query::new(&problem, band, [q.as_ptr(), k.as_ptr(), v.as_ptr()], row);
        let Keys { first, end } = query.keys;
        let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0f32);
        let mut result = [0.0; OWN];
        for key in first..end {
            let score = query.score(key);
            let larger = max.max(score);
            let (before, weight) = (fast_expf(max - larger), fast_expf(score - larger));
            max = larger;
            sum = sum.mul_add(before, weight);
            let value = query.value(key);
            each::<OWN>(|i| result[i] = weight.mul_add(value[i], before * result[i]));
        }
        each::<OWN>(|i| result[i] = if sum == 0.0 { 0.0 } else { result[i] / sum });
        query.write(o.as_mut_ptr(), result);
    }
}

/// The query of a warp, of which each lane has every 32nd element.
struct Query<'a, T> {
    problem: &'a Problem,
    k: *const T,
    v: *const T,
    place: [u32; 3],
    keys: Keys,
    lane: usize,
    own: [f32; OWN],
}

impl<'a, T: Value> Query<'a, T> {
    /// Query `row` of those of all heads and batches.
    ///
    /// # Safety
    /// As [`attention_textbook`](fn@attention_textbook); there is such a query.
    #[gpu_only]
    #[inline(always)]
    unsafe fn new(problem: &'a Problem, band: Band, [q, k, v]: [*const T; 3], row: usize) -> Self {
        let (queries, heads) = (problem.queries.max(1) as usize, problem.heads.max(1) as usize);
        let (head, query) = (row / queries, (row % queries) as u32);
        let place = [(head / heads) as u32, (head % heads) as u32, query];
        let lane = thread::index_in_block() as usize % 32;
        // SAFETY: the caller's promise.
        let own = unsafe {
            let row = q.add(problem.q.index(place[0], place[1], query));
            row_of_lane(row, problem.depth as usize, lane)
        };
        Self { problem, k, v, place, keys: band.of_query(query, problem.lengths()), lane, own }
    }

    /// The score of a key.
    ///
    /// # Safety
    /// All lanes of the warp call this together, with a key that is inside.
    #[gpu_only]
    #[inline(always)]
    unsafe fn score(&self, key: u32) -> f32 {
        let ([batch, head, _], problem) = (self.place, self.problem);
        // SAFETY: the caller's promise.
        unsafe {
            let row = self.k.add(problem.k.index(batch, problem.kv_head(head), key));
            let own = row_of_lane(row, problem.depth as usize, self.lane);
            let mut sum = 0.0f32;
            each::<OWN>(|i| sum = self.own[i].mul_add(own[i], sum));
            each::<5>(|step| sum += warp_shuffle_xor(!0, sum, 16 >> step, 32).0);
            sum * problem.scale
        }
    }

    /// The lane's elements of a value.
    ///
    /// # Safety
    /// As [`score`](Self::score).
    #[gpu_only]
    #[inline(always)]
    unsafe fn value(&self, key: u32) -> [f32; OWN] {
        let ([batch, head, _], problem) = (self.place, self.problem);
        // SAFETY: the caller's promise.
        unsafe {
            let row = self.v.add(problem.v.index(batch, problem.kv_head(head), key));
            row_of_lane(row, problem.value_depth as usize, self.lane)
        }
    }

    /// Writes the lane's elements of the result.
    ///
    /// # Safety
    /// Each warp has a query of its own.
    #[gpu_only]
    #[inline(always)]
    unsafe fn write(&self, o: *mut T, result: [f32; OWN]) {
        let ([batch, head, query], problem) = (self.place, self.problem);
        // SAFETY: the caller's promise.
        unsafe {
            let row = o.add(problem.o.index(batch, head, query));
            each::<OWN>(|i| {
                let column = self.lane + 32 * i;
                if column < problem.value_depth as usize {
                    row.add(column).write(T::narrow(result[i]));
                }
            });
        }
    }
}

/// Which query a warp has.
#[gpu_only]
#[inline(always)]
fn row_of_warp() -> usize {
    let warp = thread::index_in_block() as usize / 32;
    thread::block_idx_x() as usize * (BLOCK / 32) + warp
}

/// Every 32nd element of a row, from the lane's on; 0 past the end.
///
/// # Safety
/// The row has `depth` elements.
#[gpu_only]
#[inline(always)]
unsafe fn row_of_lane<T: Value>(row: *const T, depth: usize, lane: usize) -> [f32; OWN] {
    build(|i| {
        let column = lane + 32 * i;
        // SAFETY: inside of the row.
        if column < depth { unsafe { row.add(column).read() }.widen() } else { 0.0 }
    })
}
