//! The second step: tiles in shared memory.
//!
//! The 1024 threads of a block compute 32 × 32 of D. A tile of A and one of B, 32 × 32 each, are loaded once for all of them: each
//! element is loaded from global memory once for 32 multiplications. What is left are two loads from shared memory for each.

use super::output::Output;
use super::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use cuda_std::shared::Tile;
use cuda_std::{bf16, f16};

/// Side of a tile.
pub const TILE: usize = 32;

/// Sides by side without padding but one word: either matrix may be read along columns.
type Square = Tile<f32, TILE, TILE>;

/// Blocks of a product's grid.
#[must_use]
pub const fn tiled_blocks(problem: &Problem) -> usize {
    problem.tiles(TILE, TILE)
}

/// Multiplies. Launch a block for each tile of D, columns fastest and batches outermost.
///
/// # Safety
/// As [`naive`](fn@super::naive::naive).
#[kernel((bf16, bf16, Plain), (f16, f16, Plain), (f32, f32, Plain))]
pub unsafe fn tiled<T: Value, Out: Value, E: Epilogue>(
    mut block: Block<TILE, TILE>,
    left: Shared<Square>,
    right: Shared<Square>,
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    per_row: &[Out],
    per_column: &[Out],
    mut d: DisjointSlice<Out>,
    epilogue: E,
) {
    let (m, n, k) = (problem.m as usize, problem.n as usize, problem.k as usize);
    let (down, across) = (m.div_ceil(TILE), n.div_ceil(TILE));
    let tile = thread::block_idx_x() as usize;
    let (x, rest) = (tile % across, tile / across);
    let (top, left_column, batch) = (rest % down * TILE, x * TILE, rest / down);
    let a = |i: usize, j: usize| {
        if i < m && j < k { a[problem.a.index(batch, i, j)].widen() } else { 0.0 }
    };
    let b = |i: usize, j: usize| {
        if i < k && j < n { b[problem.b.index(batch, i, j)].widen() } else { 0.0 }
    };
    let (row, column) = (block.y(), block.x());
    let (mut left, mut right) = (left.zeroed(&block), right.zeroed(&block));
    let mut sum = 0.0;
    for first in (0..k).step_by(TILE) {
        left.fill(&block, |(i, j)| a(top + i, first + j));
        right.fill(&block, |(i, j)| b(first + i, left_column + j));
        // The tiles are read by other threads than wrote them.
        let (l, r) = block.sync((left, right));
        for i in 0..TILE {
            sum += l[row][i] * r[i][column];
        }
        // All have read before the next tiles are written.
        (left, right) = block.sync((l, r));
    }
    let vectors = [per_row.as_ptr(), per_column.as_ptr()];
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    // SAFETY: the caller's promise.
    let output = unsafe { Output::new(&problem, c_from, vectors, d.as_mut_ptr(), epilogue) };
    // SAFETY: the batch is inside, as there is a block for each tile; the rest is the caller's promise.
    unsafe { output.write(sum, batch, top + row, left_column + column) };
}
