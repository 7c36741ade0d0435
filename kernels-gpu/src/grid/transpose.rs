//! Transpose of a row-major f32 matrix: `out[x][y] = input[y][x]`.
//!
//! * [`transpose_naive`](fn@transpose_naive): writes along rows and reads along columns, so each warp's read touches 32 sectors.
//! * [`transpose_tiled`](fn@transpose_tiled): a block carries a square tile through shared memory and reads and writes along rows.
//!   Rows of the tile are padded by one word, so that a column of it lies in 32 different banks.

use cuda_std::prelude::*;

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

/// The fast form, with the same arguments. Launch one block a tile of `out`.
///
/// The index is there for the launch that it asks for: in two dimensions no two blocks have the same tile.
#[kernel(block = (TILE, ROWS))]
pub fn transpose_tiled(index: ThreadIndex2, input: &[f32], mut out: DisjointGrid<f32>) {
    let (width, height) = (out.width(), out.height());
    assert!(input.len() == width * height, "`input` and `out` differ in size");
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let place = Place { left: index.x() - x, top: thread::block_idx_y() as usize * TILE, x, y };
    let tile = shared_array![f32; TILE * PITCH].as_mut_ptr();
    let (input, out) = (input.as_ptr(), out.as_mut_ptr());

    // SAFETY: `place` is this thread's alone in a block of that shape; the tile's bounds are known or checked.
    unsafe {
        if place.left + TILE <= width && place.top + TILE <= height {
            carry(place, tile, input, out, width, height, |_, _| true);
        } else {
            carry(place, tile, input, out, width, height, |x, y| x < width && y < height);
        }
    }
}

/// A tile of `out`, and a thread's column and first row in it.
#[derive(Clone, Copy)]
struct Place {
    left: usize,
    top: usize,
    x: usize,
    y: usize,
}

/// Moves a tile through shared memory: `TILE / ROWS` elements a thread in, a barrier, as many out.
///
/// `is_inside(x, y)` says which elements of `out: [height, width]` exist; where it is constant, all loads are
/// under way before the first store.
///
/// # Safety
/// * All threads of a block of [`TILE`] by [`ROWS`] call it, with the same arguments but for `place.x` and
///   `place.y`, which are the thread's own; no other block has the same tile.
/// * `tile` is shared memory of `TILE * PITCH` elements; `input` and `out` have `width * height`.
/// * `is_inside` is false for every element of the tile that is not below `(width, height)`.
#[inline(always)]
unsafe fn carry(
    Place { left, top, x, y }: Place,
    tile: *mut f32,
    input: *const f32,
    out: *mut f32,
    width: usize,
    height: usize,
    is_inside: impl Fn(usize, usize) -> bool,
) {
    for step in 0..TILE / ROWS {
        let row = y + step * ROWS;
        if is_inside(left + row, top + x) {
            // SAFETY: inside the input; (row, x) of the tile is this thread's alone until the barrier.
            unsafe { *tile.add(row * PITCH + x) = *input.add((left + row) * height + top + x) };
        }
    }
    // The tile is read by other threads than wrote it.
    thread::sync_threads();
    for step in 0..TILE / ROWS {
        let row = y + step * ROWS;
        if is_inside(left + x, top + row) {
            // SAFETY: inside `out`, where no other thread writes this element; (x, row) of the tile was written
            // above, by the thread for which that element was inside.
            unsafe { *out.add((top + row) * width + left + x) = *tile.add(x * PITCH + row) };
        }
    }
}
