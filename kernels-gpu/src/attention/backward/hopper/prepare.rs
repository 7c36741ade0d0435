//! What the other kernels need of each query, and sums of 0.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::queries::exponent_of;
use super::super::{BLOCK, BackwardProblem, Operands};
use super::{ELEMENTS, Scratch, queries_of_tile, rounds};
use crate::attention::hopper::Half;
use crate::prelude::*;
use cuda_std::unroll::each;
use cuda_std::vector::Vec4;
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{gpu_only, unrolled};

/// Elements of a row that a thread takes at a time.
const EIGHT: usize = 8;
/// How many times a block takes rows.
const TIMES: usize = ELEMENTS / EIGHT / BLOCK;

/// Blocks: one for each round of each tile of queries, with an equal share of the rows.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    let scratch = Scratch::of(problem);
    (scratch.all_tiles() * rounds(scratch.depth)) as u64
}

/// Writes all of the scratch memory.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together; there are [`blocks`] of them.
/// - The operands have every element that the problem leads to, and results and their gradients are aligned to 16 bytes, row by row.
#[gpu_only]
#[inline(always)]
pub unsafe fn prepare<T: Half>(problem: &BackwardProblem, operands: Operands<'_, T>) {
    let BackwardProblem { forward, d_o, .. } = problem;
    let scratch = Scratch::of(problem);
    let (rounds, block) = (rounds(scratch.depth), thread::block_idx_x() as usize);
    let (tile, round) = (block / rounds, block % rounds);
    let (batch, head, first) = scratch.place(problem, operands.batches, tile as u32);
    let rows = batch.queries;
    let thread = thread::index_in_block() as usize;
    // This many neighbouring threads take a row; the last of them may have nothing.
    let of_row = (scratch.depth / EIGHT).next_power_of_two();
    let first_row = round * TIMES * BLOCK / of_row;
    let (lane, row) = (thread % of_row, thread / of_row);
    let len = (forward.value_depth as usize).saturating_sub(EIGHT * lane);
    let to = operands.delta;
    // SAFETY: the caller's promise. Each block writes what belongs to its tile, each thread numbers of its own.
    unsafe {
        let sums = to.add(scratch.sums() + block * ELEMENTS).cast::<Vec4<f32>>();
        unrolled!(ELEMENTS / 4 / BLOCK, |time| {
            sums.add(time * BLOCK + thread).write(Vec4::splat(0.0));
        });
        if thread == 0 && round == 0 {
            to.add(scratch.turns() + tile).cast::<u32>().write(0);
        }
        unrolled!(TIMES, |time| {
            let row = first_row + time * (BLOCK / of_row) + row;
            let query = first + row as u32;
            let is_inside = query < rows.len;
            let mut sum = 0.0;
            if is_inside && len > 0 {
                let o = operands.o.add(rows.index(forward.o, head, query) + EIGHT * lane);
                let d_o = operands.d_o.add(rows.index(*d_o, head, query) + EIGHT * lane);
                sum = product(o, d_o, len);
            }
            // All lanes of a warp are here.
            each::<5>(|step| {
                if 16 >> step < of_row {
                    sum += warp_shuffle_xor(!0, sum, 16 >> step, 32).0;
                }
            });
            if lane == 0 {
                let at = tile * queries_of_tile(scratch.depth) + row;
                let index = forward.index(rows.batch, head, rows.first + query);
                let lse =
                    if is_inside { operands.lse.add(index).read() } else { f32::NEG_INFINITY };
                to.add(at).write(exponent_of(lse));
                to.add(scratch.deltas() + at).write(sum);
            }
        });
    }
}

/// The sum of the products of eight neighbours, those of them that are inside: `len`, at least one.
///
/// # Safety
/// `a` and `b` are valid for reads of `len` elements, at most eight, and aligned to 16 bytes.
#[gpu_only]
#[inline(always)]
unsafe fn product<T: Half>(a: *const T, b: *const T, len: usize) -> f32 {
    let mut sum = 0.0f32;
    // SAFETY: the caller's promise.
    unsafe {
        if len >= EIGHT {
            let (a, b) = (a.cast::<Vec4<u32>>().read(), b.cast::<Vec4<u32>>().read());
            let (a, b) = (a.to_array(), b.to_array());
            each::<4>(|pair| {
                let ([a, c], [b, d]) = (T::unpair(a[pair]), T::unpair(b[pair]));
                sum = c.mul_add(d, a.mul_add(b, sum));
            });
        } else {
            let mut at = 0;
            while at < len {
                sum = T::widen(a.add(at).read()).mul_add(T::widen(b.add(at).read()), sum);
                at += 1;
            }
        }
    }
    sum
}
