//! Transpose of a row-major f32 matrix: `out[x][y] = input[y][x]`.
//!
//! * [`transpose_naive`]: reads along rows and writes along columns, so each warp's write touches 32 sectors.
//! * [`transpose_tiled`]: a block carries a square tile through shared memory and reads and writes along rows.
//!   Rows of the tile are padded by one word, so that a column of it lies in 32 different banks.

use cuda_std::prelude::*;

/// Side of a tile, and threads along x in a block.
pub const TILE: usize = 32;
/// Threads along y in a block: each moves `TILE / ROWS` elements.
pub const ROWS: usize = 8;

/// Row length of the tile in shared memory: one more than the tile, against bank conflicts.
const PITCH: usize = TILE + 1;

/// The plain form. `input: [height, width]`, `out: [width, height]`; one thread an element of `input`.
///
/// # Safety
/// * `input` and `out` point to `width * height` elements; nothing else uses `out` during the launch.
#[kernel]
pub unsafe fn transpose_naive(
    index: ThreadIndex2,
    input: *const f32,
    out: *mut f32,
    width: usize,
    height: usize,
) {
    let (x, y) = (index.x(), index.y());
    if x < width && y < height {
        // SAFETY: both indices are below `width * height`, and (x, y) is this thread's alone.
        unsafe { *out.add(x * height + y) = *input.add(y * width + x) };
    }
}

/// The fast form, with the same arguments. Launch one block of `TILE × ROWS` threads a tile of [`TILE`]².
///
/// # Safety
/// * As for [`transpose_naive`], and the block is `TILE` by `ROWS` threads.
#[kernel]
pub unsafe fn transpose_tiled(input: *const f32, out: *mut f32, width: usize, height: usize) {
    let tile = shared_array![f32; TILE * PITCH].as_mut_ptr();
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let left = thread::block_idx_x() as usize * TILE;
    let top = thread::block_idx_y() as usize * TILE;

    for row in (ty..TILE).step_by(ROWS) {
        let (x, y) = (left + tx, top + row);
        if x < width && y < height {
            // SAFETY: inside the matrix; inside the tile, where this thread alone writes (row, tx).
            unsafe { *tile.add(row * PITCH + tx) = *input.add(y * width + x) };
        }
    }
    // The tile is read by other threads than wrote it.
    thread::sync_threads();
    for row in (ty..TILE).step_by(ROWS) {
        let (x, y) = (top + tx, left + row);
        if x < height && y < width {
            // SAFETY: inside the output, written by this thread alone; (tx, row) was written above,
            // since column `row` and row `tx` of the tile lie inside the matrix.
            unsafe { *out.add(y * height + x) = *tile.add(tx * PITCH + row) };
        }
    }
}
