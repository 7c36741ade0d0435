//! Transpose of a row-major f32 matrix: `out[x][y] = input[y][x]`.
//!
//! * [`transpose_naive`]: writes along rows and reads along columns, so each warp's read touches 32 sectors.
//! * [`transpose_tiled`]: a block carries a square tile through shared memory and reads and writes along rows.
//!   Rows of the tile are padded by one word, so that a column of it lies in 32 different banks.

use cuda_std::prelude::*;

use crate::block::shape;

/// Side of a tile, and threads along x in a block.
pub const TILE: usize = 32;
/// Threads along y in a block: each moves `TILE / ROWS` elements.
pub const ROWS: usize = 8;

/// Row length of the tile in shared memory: one more than the tile, against bank conflicts.
const PITCH: usize = TILE + 1;

/// The plain form. `input: [height, width]`, `out: [width, height]`; one thread an element of `out`.
#[kernel]
pub fn transpose_naive(index: ThreadIndex2, input: &[f32], mut out: DisjointGrid<f32>) {
    let (x, y, width) = (index.x(), index.y(), out.height());
    if let Some(out) = out.get_mut(index) {
        *out = input[x * width + y];
    }
}

/// The fast form, with the same arguments. Launch one block of [`TILE`] by [`ROWS`] threads a tile of `out`.
#[kernel]
pub fn transpose_tiled(input: &[f32], mut out: DisjointGrid<f32>) {
    shape::require(TILE as u32, ROWS as u32, 1);
    let tile = shared_array![f32; TILE * PITCH].as_mut_ptr();
    let (out_width, out_height) = (out.width(), out.height());
    let out = out.as_mut_ptr();
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let left = thread::block_idx_x() as usize * TILE;
    let top = thread::block_idx_y() as usize * TILE;

    for row in (ty..TILE).step_by(ROWS) {
        let (x, y) = (top + tx, left + row);
        if x < out_height && y < out_width {
            // SAFETY: inside the tile, where this thread alone writes (row, tx).
            unsafe { *tile.add(row * PITCH + tx) = input[y * out_height + x] };
        }
    }
    // The tile is read by other threads than wrote it.
    thread::sync_threads();
    for row in (ty..TILE).step_by(ROWS) {
        let (x, y) = (left + tx, top + row);
        if x < out_width && y < out_height {
            // SAFETY: inside `out`; the tile's place, the block shape and (tx, row) tell this element from any
            // other thread's. Element (tx, row) of the tile was written above: it is (x, y) in `out`'s terms.
            unsafe { *out.add(y * out_width + x) = *tile.add(tx * PITCH + row) };
        }
    }
}
