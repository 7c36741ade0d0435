//! The end of rows whose keys were divided among blocks: the parts are added, each with the weight of its sum of exponentials.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::batch::batch_of_row;
use super::hopper::Half;
use super::{Batches, Problem};
use crate::prelude::*;
use cuda_std::gpu_only;
use cuda_std::intrinsics::{fast_expf, logf};

/// Threads of a block. Each warp takes a row.
pub const BLOCK: usize = 128;

/// Blocks for all rows.
#[must_use]
pub const fn blocks(problem: &Problem) -> u64 {
    problem.all_queries().div_ceil(BLOCK / 32) as u64
}

/// Adds the parts of all rows, in a fixed order.
///
/// # Safety
/// All threads of a block of [`BLOCK`] call this together. `parts` is what [`Output`](super::output::Output) wrote for all splits; `lse` is empty or has
/// an element for each row.
#[gpu_only]
#[inline(always)]
pub unsafe fn combine<T: Half>(
    (problem, batches): (&Problem, Batches<'_>),
    parts: *const f32,
    lse: &mut DisjointSlice<'_, f32>,
    o: *mut T,
) {
    let thread = thread::index_in_block() as usize;
    let (warp, lane) = (thread / 32, thread % 32);
    let row = thread::block_idx_x() as usize * (BLOCK / 32) + warp;
    let (all, depth) = (problem.all_queries(), problem.value_depth as usize);
    if row >= all {
        return;
    }
    let queries = problem.queries.max(1) as usize;
    let (head, query) = ((row / queries) as u32, (row % queries) as u32);
    if problem.has_packed_queries()
        && batch_of_row(batches.queries, problem.batches, query).is_none()
    {
        // No batch has the row, so there are no parts.
        return;
    }
    let splits = problem.splits as usize;
    let lses = parts.wrapping_add(splits * all * depth);
    // SAFETY: the caller's promise; each warp writes its own row.
    unsafe {
        let mut max = f32::NEG_INFINITY;
        for split in 0..splits {
            max = max.max(lses.add(split * all + row).read());
        }
        let weight = |split: usize| {
            let own = lses.add(split * all + row).read();
            if own == f32::NEG_INFINITY { 0.0 } else { fast_expf(own - max) }
        };
        let mut sum = 0.0;
        for split in 0..splits {
            sum += weight(split);
        }
        let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        let heads = problem.heads.max(1);
        let to = o.add(problem.o.index(head / heads, head % heads, query));
        let mut column = lane;
        while column < depth {
            let mut value = 0.0;
            for split in 0..splits {
                let part = parts.add((split * all + row) * depth + column).read();
                value = weight(split).mul_add(part, value);
            }
            to.add(column).write(T::narrow(value * inverse));
            column += 32;
        }
        if lane == 0 && !lse.is_empty() {
            let total = if sum == 0.0 { f32::NEG_INFINITY } else { max + logf(sum) };
            lse.as_mut_ptr().add(row).write(total);
        }
    }
}
