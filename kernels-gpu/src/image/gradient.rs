//! Edges by Sobel's operator (Sobel and Feldman, 1968): the length of the gradient of a 3×3 neighbourhood.

use crate::prelude::*;

/// Threads along x in a block.
pub const BLOCK_X: usize = 32;
/// Threads along y in a block.
pub const BLOCK_Y: usize = 8;

const TILE_X: usize = BLOCK_X + 2;
const TILE_Y: usize = BLOCK_Y + 2;

/// Gradient of a neighbourhood of rows `p[0..3]`, as `|gx| + |gy|`, clamped to 255.
#[inline(always)]
pub fn gradient(p: [[u8; 3]; 3]) -> u8 {
    let p = p.map(|row| row.map(i32::from));
    let gx = p[0][2] + 2 * p[1][2] + p[2][2] - p[0][0] - 2 * p[1][0] - p[2][0];
    let gy = p[2][0] + 2 * p[2][1] + p[2][2] - p[0][0] - 2 * p[0][1] - p[0][2];
    (gx.abs() + gy.abs()).min(255) as u8
}

/// `out = gradient(image)`, both `[height, width]` bytes; pixels past the edge repeat the edge.
///
/// A block loads its pixels and a border of one into shared memory, then each thread takes nine of them.
/// One thread a pixel.
#[kernel(block = (BLOCK_X, BLOCK_Y))]
pub fn sobel(index: ThreadIndex2, image: &[u8], mut out: DisjointGrid<u8>) {
    let (width, height) = (out.width(), out.height());
    let tile = shared_array![u8; TILE_X * TILE_Y].as_mut_ptr();
    let (tx, ty) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (left, top) = (index.x() - tx, index.y() - ty);

    let mut i = ty * BLOCK_X + tx;
    while i < TILE_X * TILE_Y {
        // The tile starts one pixel up and left of the block's first.
        let x = (left + i % TILE_X).saturating_sub(1).min(width - 1);
        let y = (top + i / TILE_X).saturating_sub(1).min(height - 1);
        // SAFETY: `i` is inside the tile and this thread's alone.
        unsafe { *tile.add(i) = image[y * width + x] };
        i += BLOCK_X * BLOCK_Y;
    }
    // A thread reads what its neighbours loaded.
    thread::sync_threads();

    if let Some(out) = out.get_mut(index) {
        // SAFETY: `ty + 2 < TILE_Y` and `tx + 2 < TILE_X`; all written before the barrier.
        let pixel = |dy: usize, dx: usize| unsafe { *tile.add((ty + dy) * TILE_X + tx + dx) };
        *out = gradient(core::array::from_fn(|dy| core::array::from_fn(|dx| pixel(dy, dx))));
    }
}
