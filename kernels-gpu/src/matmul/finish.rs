//! The end of a product that was split along K: partial sums to D, in a fixed order.
//!
//! Where D has fewer tiles than the device runs blocks, several blocks each add a part of a tile's K and store f32 sums; this kernel
//! adds the parts in their order, so that the result is the same bits from run to run, and applies the epilogue. With no
//! parts at all it is a product whose K is 0: `epilogue(beta · C)`.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::beside::Beside;
use super::hopper::divide;
use super::{Epilogue, Problem, Value};
use crate::prelude::*;
use cuda_std::gpu_only;

/// Threads of a block.
pub const BLOCK: usize = 256;

/// `D = epilogue(alpha · Σ partials + beta · C)`: `partials: [batches, splits, m, n]`, with `problem.a` as their strides, and fewer than
/// 2^32 rows in all batches. Any grid.
///
/// # Safety
/// `partials` has every value that the strides lead to, and the rest is as [`multiply`](super::hopper::multiply) has it.
#[gpu_only]
#[inline(always)]
pub unsafe fn finish<D: Value, E: Epilogue>(
    problem: &Problem,
    partials: *const f32,
    c: *const D,
    per_row: *const D,
    per_column: *const D,
    d: *mut D,
    epilogue: E,
) {
    // SAFETY: the caller's promise.
    let beside = unsafe { Beside::new(problem, c, per_row, per_column, epilogue) };
    let (n, splits) = (problem.n as usize, problem.splits as usize);
    let rows = problem.m * problem.batches;
    let mut row = thread::block_idx_x();
    while row < rows {
        let (batch, i) = divide(row, problem.m);
        let (batch, i) = (batch as usize, i as usize);
        for j in (thread::thread_idx_x() as usize..n).step_by(BLOCK) {
            let mut sum = 0.0;
            for split in 0..splits {
                // SAFETY: inside of the partial sums.
                sum += unsafe { *partials.add(problem.a.index(batch * splits + split, i, j)) };
            }
            // SAFETY: the element exists, and is this thread's alone.
            unsafe { d.add(problem.d.index(batch, i, j)).write(beside.finish(sum, batch, i, j)) };
        }
        row += thread::grid_dim_x();
    }
}
