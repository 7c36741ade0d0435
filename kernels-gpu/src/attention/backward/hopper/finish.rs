//! The gradients of queries from their sums.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BLOCK, BackwardProblem, Operands};
use super::{ELEMENTS, Scratch, rounds};
use crate::attention::Segment;
use crate::attention::hopper::Half;
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::unroll::{build, each};
use cuda_std::vector::Vec4;

/// Elements that a thread takes at a time: eight neighbours of two rows.
const SIXTEEN: usize = 16;
/// How many times it does.
const TIMES: usize = ELEMENTS / SIXTEEN / BLOCK;

/// Blocks: one for each round of each tile of queries.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    let scratch = Scratch::of(problem);
    (scratch.all_tiles() * rounds(scratch.depth)) as u64
}

/// Multiplies the sums by the scale, and rounds them.
///
/// # Safety
/// All threads of a block of [`BLOCK`] call this together; there are [`blocks`] of them. The operands have every element that the problem leads to.
#[gpu_only]
#[inline(always)]
pub unsafe fn finish<T: Half>(problem: &BackwardProblem, operands: Operands<'_, T>) {
    let scratch = Scratch::of(problem);
    let (rounds, block) = (rounds(scratch.depth), thread::block_idx_x() as usize);
    let (batch, head, first) = scratch.place(problem, operands.batches, (block / rounds) as u32);
    let first_column = block % rounds * 128;
    let thread = thread::index_in_block() as usize;
    // SAFETY: the caller's promise; each thread has elements of its own.
    unsafe {
        let sums = operands.delta.add(scratch.sums() + block * ELEMENTS);
        let sums = sums.cast_const().cast::<Vec4<f32>>();
        // All loads before the first store.
        let fours: [[Vec4<f32>; 4]; TIMES] = build(|time| {
            let Sixteen { from, .. } = Sixteen::new(time * BLOCK + thread, scratch.depth);
            build(|lane| sums.add(from + lane).read())
        });
        each::<TIMES>(|time| {
            let Sixteen { row, column, .. } = Sixteen::new(time * BLOCK + thread, scratch.depth);
            let (query, column, fours) = (first + row as u32, first_column + column, fours[time]);
            let at = (batch.queries, head, query, column);
            write(problem, operands.d_q, at, fours.map(|four| [four.x, four.y]));
            let at = (batch.queries, head, query + 8, column);
            write(problem, operands.d_q, at, fours.map(|four| [four.z, four.w]));
        });
    }
}

/// Eight columns of two rows of a round, eight apart, of which four lanes of a consumer had sums.
struct Sixteen {
    /// Where the first lane's sums of these begin, in fours; those of the other lanes follow.
    from: usize,
    /// The first row, and the first of the round's columns.
    row: usize,
    column: usize,
}

impl Sixteen {
    /// Number `index` of a round. Those of eight neighbouring indices are in the same rows.
    #[inline(always)]
    const fn new(index: usize, depth: usize) -> Self {
        let (eight, pair, own) = (index % 8, index / 8 % 32, index / 256);
        // A warp of a consumer has 16 rows.
        let row = pair / 8 * 16 + pair % 8;
        let from = own * (ELEMENTS / 2 / 4) + eight * 128 + pair / 8 * 32 + pair % 8 * 4;
        // A consumer has 64 columns of all rows, or 64 rows.
        let (row, column) = if depth > 64 { (row, 64 * own) } else { (row + 64 * own, 0) };
        Self { from, row, column: column + 8 * eight }
    }
}

/// Writes eight neighbours of a row, those of them that are inside.
///
/// # Safety
/// As [`finish`]; no other thread writes these.
#[gpu_only]
#[inline(always)]
unsafe fn write<T: Half>(
    problem: &BackwardProblem,
    d_q: *mut T,
    (rows, head, query, column): (Segment, u32, u32, usize),
    sums: [[f32; 2]; 4],
) {
    let forward = &problem.forward;
    let len = (forward.depth as usize).saturating_sub(column);
    if query >= rows.len || len == 0 {
        return;
    }
    let sums = sums.map(|pair| pair.map(|sum| sum * forward.scale));
    // SAFETY: the caller's promise.
    unsafe {
        let to = d_q.add(rows.index(problem.d_q, head, query) + column);
        if len >= 8 && to.addr().is_multiple_of(16) {
            let [a, b, c, d] = sums.map(T::pair);
            to.cast::<Vec4<u32>>().write(Vec4::new(a, b, c, d));
        } else {
            each::<8>(|at| {
                if at < len {
                    to.add(at).write(T::narrow(sums[at / 2][at % 2]));
                }
            });
        }
    }
}
