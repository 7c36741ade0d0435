//! The sums `delta = Σ do · o` of each query.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::{BLOCK, BackwardProblem, Operands};
use crate::attention::batch::batch_of_row;
use crate::attention::hopper::Half;
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::unroll::each;
use cuda_std::warp::warp_shuffle_xor;

/// Blocks for all queries, of which each warp takes one.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    problem.forward.all_queries().div_ceil(BLOCK / 32) as u64
}

/// Computes the sums.
///
/// # Safety
/// All threads of a block of [`BLOCK`] call this together; the operands have every element that the problem leads to.
#[gpu_only]
#[inline(always)]
pub unsafe fn add<T: Half>(problem: &BackwardProblem, operands: Operands<'_, T>) {
    let BackwardProblem { forward, d_o, .. } = problem;
    let thread = thread::index_in_block() as usize;
    let row = thread::block_idx_x() as usize * (BLOCK / 32) + thread / 32;
    if row >= forward.all_queries() {
        return;
    }
    let (queries, heads) = (forward.queries.max(1) as usize, forward.heads.max(1) as usize);
    let (head, query) = (row / queries, (row % queries) as u32);
    let (batch, head) = ((head / heads) as u32, (head % heads) as u32);
    if forward.has_packed_queries()
        && batch_of_row(operands.batches.queries, forward.batches, query).is_none()
    {
        return;
    }
    // SAFETY: the caller's promise; each warp has a row of its own, with all of its lanes.
    unsafe {
        let o = operands.o.add(forward.o.index(batch, head, query));
        let d_o = operands.d_o.add(d_o.index(batch, head, query));
        let (mut sum, mut column) = (0.0f32, thread % 32);
        while column < forward.value_depth as usize {
            sum = T::widen(o.add(column).read()).mul_add(T::widen(d_o.add(column).read()), sum);
            column += 32;
        }
        each::<5>(|step| sum += warp_shuffle_xor(!0, sum, 16 >> step, 32).0);
        if thread % 32 == 0 {
            operands.delta.add(row).write(sum);
        }
    }
}
