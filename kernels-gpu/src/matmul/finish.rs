//! The end of a product that was split along K: partial sums to D, in a fixed order.
//!
//! Where D has fewer tiles than the device runs blocks, several blocks each add a part of a tile's K and store f32 sums; this kernel
//! adds the parts in their order, so that the result is the same bits from run to run, and applies the epilogue. With no
//! parts at all it is a product whose K is 0: `epilogue(beta · C)`.

use super::beside::Beside;
use super::{Epilogue, Problem, Value};
use crate::prelude::*;
use cuda_std::gpu_only;

/// Threads of a block.
pub const BLOCK: usize = 256;

/// `D = epilogue(alpha · Σ partials + beta · C)`: `partials: [batches, splits, m, n]`. Any grid.
///
/// # Safety
/// `partials` has that many values, and the rest is as [`multiply`](super::hopper::multiply) has it.
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
    let (m, n, splits) = (problem.m as usize, problem.n as usize, problem.splits as usize);
    let rows = m * problem.batches as usize;
    for row in (thread::block_idx_x() as usize..rows).step_by(thread::grid_dim_x() as usize) {
        let (batch, i) = (row / m, row % m);
        for j in (thread::thread_idx_x() as usize..n).step_by(BLOCK) {
            let mut sum = 0.0;
            for split in 0..splits {
                // SAFETY: inside of the partial sums.
                sum += unsafe { *partials.add(((batch * splits + split) * m + i) * n + j) };
            }
            // SAFETY: the element exists, and is this thread's alone.
            unsafe { d.add(problem.d.index(batch, i, j)).write(beside.finish(sum, batch, i, j)) };
        }
    }
}
