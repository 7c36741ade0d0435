//! Attention of 8-bit floats (E4M3) on Hopper, with a scale for each head of the queries, keys and values.
//!
//! It is the [method for 16-bit elements](super::hopper) with half of the bytes. What differs:
//!
//! | what | why |
//! |---|---|
//! | a kernel before it writes the values [with keys as neighbours](values) | `wgmma` reads both operands of 8 bits along the dimension that it sums over |
//! | that kernel swaps keys within each 16 | scores in registers are then left operands as they are: a thread's neighbours among the sums of one product are its neighbours in the operand of the next |
//! | exponentials are times 2^8 | the smallest number of E4M3 is 2^-9; so weights down to 2^-17 of the largest count |
//! | the products of 768 keys are summed on their own, and added to the others in f32 | sums of 8-bit products have 13 bits of fraction in the tensor core |
//!
//! The sums of those before wait in shared memory, which has room for rows of up to 128 elements. Longer rows are summed in the tensor core over all keys.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod consume;
pub mod form;
pub mod values;

use super::hopper::{self, Block, queue, warpgroup_of_warp};
use super::output::Output;
use super::{Batches, Problem, Schedule, Score, Work};
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::number::E4m3;

/// Rows of a tile: those of two consumers.
pub const ROWS_OF_TILE: usize = 2 * ROWS;
/// Keys of a block, of `depth` elements each.
#[must_use]
pub const fn keys_of_block(depth: usize) -> usize {
    if depth <= 128 { 192 } else { 128 }
}
/// Threads: a producer and the consumers.
pub const THREADS: usize = 3 * WARPGROUP;
/// The logarithm to base 2 of the factor of exponentials.
pub const SHIFT: u32 = 8;

/// Blocks of keys or values in shared memory, of rows of `depth` elements.
#[must_use]
pub const fn stages(depth: usize) -> usize {
    if depth <= 128 { 6 } else { 4 }
}

/// Dynamic shared memory of a block, in bytes: queries, the ring, barriers, and sums of parts.
#[must_use]
pub const fn shared_bytes(depth: usize) -> usize {
    (ROWS_OF_TILE + stages(depth) * keys_of_block(depth)) * depth
        + ((2 + 2 * stages(depth)) * 8 + queue::BYTES).next_multiple_of(16)
        + consume::bytes_of_parts(depth)
}

/// By what the numbers of each head are multiplied: `[heads]` of the tensor, the same for all batches, or `[batches, heads]`. Without scales they are 1.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeadScales<'a> {
    #[allow(missing_docs)]
    pub q: &'a [f32],
    #[allow(missing_docs)]
    pub k: &'a [f32],
    #[allow(missing_docs)]
    pub v: &'a [f32],
}

impl HeadScales<'_> {
    /// The problem with the factor of scores of a tile's head, and that head's factor of values.
    #[inline(always)]
    #[must_use]
    pub fn applied(&self, problem: &Problem, work: &Work) -> (Problem, f32) {
        let (of_scores, of_values) = self.factors(problem, work.batch.index, work.head);
        (Problem { scale: problem.scale * of_scores, ..*problem }, of_values)
    }

    /// The factors of scores and of values, for a head of the queries of a batch.
    #[inline(always)]
    #[must_use]
    pub fn factors(&self, problem: &Problem, batch: u32, head: u32) -> (f32, f32) {
        let of = |scales: &[f32], heads: u32, head: u32| {
            let first = if scales.len() == heads as usize { 0 } else { batch.wrapping_mul(heads) };
            scales.get(first.wrapping_add(head) as usize).copied().unwrap_or(1.0)
        };
        let kv_head = problem.kv_head(head);
        let of_q = of(self.q, problem.heads, head);
        let of_k = of(self.k, problem.kv_heads, kv_head);
        (of_q * of_k, of(self.v, problem.kv_heads, kv_head))
    }
}

/// Attention with rows of at most `D` elements, that is `BOXES` × 128 or `E` × 8, and `N` keys in a block of keys, of which `F` times 32 and `G` times 64; `S` such blocks in shared
/// memory.
///
/// # Safety
/// - All threads of a block of [`THREADS`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else uses.
/// - `maps` are those of the queries, keys and values, of bytes. The dimensions of keys are batches, heads, rows, elements; those of queries batches, heads,
///   queries, one, elements; those of [values](values::transpose) batches, heads, elements, keys. Boxes have [`ROWS_OF_TILE`] queries, `N` keys, or
///   as [`ValueBox`](hopper::ValueBox) has it.
/// - The schedule is one of tiles of [`ROWS_OF_TILE`] rows; each head is a packed one. `work` has what is known of the batches on the device, and no table of pages.
/// - `counter` and `output` are as [`hopper::attend`] has them.
#[gpu_only]
#[inline(always)]
pub unsafe fn attend<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const N: usize,
    const F: usize,
    const G: usize,
    const S: usize,
>(
    maps: GridConstant<'_, [MapWords; 3]>,
    work: (&Schedule, &Problem, Batches<'_>),
    counter: *mut u32,
    (score, scales): (C, HeadScales<'_>),
    output: Output<'_, T>,
) where
    T: hopper::Half,
    C: Score,
    Columns<N>: Instruction<E4m3, E4m3, f32>,
    Columns<D>: Instruction<E4m3, E4m3, f32>,
{
    // SAFETY: all lanes of each warp are here.
    let (group, thread) = (unsafe { warpgroup_of_warp() }, thread_in_warpgroup());
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<ROWS_OF_TILE, BOXES, N, S>::new() };
    // SAFETY: each branch is one of whole warpgroups. 40 and twice 232 registers, or 24 and twice 240, are the block's 168 each at entry.
    unsafe {
        if group == 0 {
            if D <= 128 {
                lower_registers::<40>()
            } else {
                lower_registers::<24>()
            }
            if thread < 32 {
                let (schedule, problem, batches) = work;
                let work = (schedule, problem, &[][..], batches);
                hopper::produce::all::<C, ROWS_OF_TILE, BOXES, N, S, true>(
                    block, maps, work, score, counter,
                );
            }
        } else {
            if D <= 128 {
                raise_registers::<232>()
            } else {
                raise_registers::<240>()
            }
            consume::all::<T, C, D, BOXES, E, N, F, G, S>(
                block,
                work,
                (score, scales),
                output,
                group - 1,
            );
        }
    }
    // Where the paths of both kinds of warps do not meet, the assembler has the multiplications wait for each other.
    thread::sync_threads();
}
