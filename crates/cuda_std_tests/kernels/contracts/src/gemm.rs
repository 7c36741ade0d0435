//! `c = a * b` for `a: [m, k]`, `b: [k, n]`, `c: [m, n]`, row-major f32: through pointers, and through
//! safe views that cost the same.

use cuda_std::prelude::*;
use cuda_std::shared::Tile;

/// Threads of a block of the naive kernels.
pub const NAIVE: (usize, usize) = (32, 8);
/// Side of a tile, and of the blocks of the tiled kernels.
pub const TILE: usize = 32;

/// One thread an element, through pointers.
///
/// # Safety
/// The matrices have these sizes.
#[kernel(block = (NAIVE.0, NAIVE.1))]
pub unsafe fn naive_pointers(
    index: ThreadIndex2,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: usize,
    n: usize,
    k: usize,
) {
    let (x, y) = (index.x(), index.y());
    if x < n && y < m {
        let mut sum = 0.0;
        for i in 0..k {
            // SAFETY: the caller's promise.
            sum += unsafe { *a.add(y * k + i) * *b.add(i * n + x) };
        }
        // SAFETY: as above.
        unsafe { *c.add(y * n + x) = sum };
    }
}

/// One thread an element, through views whose bounds are checked once.
#[kernel(block = (NAIVE.0, NAIVE.1))]
pub fn naive_views(index: ThreadIndex2, a: &[f32], b: &[f32], k: usize, mut c: DisjointGrid<f32>) {
    let (m, n) = (c.height(), c.width());
    let Some(c) = c.get_mut(index) else { return };
    let (a, b) = (Matrix::new(a, m, k), Matrix::new(b, k, n));
    let mut sum = 0.0;
    for (b, a) in b.column(index.x()).zip(a.row(index.y())) {
        sum += a * b;
    }
    *c = sum;
}

/// One thread an element, with an index checked at each access: what the views save.
#[kernel(block = (NAIVE.0, NAIVE.1))]
pub fn naive_checked(
    index: ThreadIndex2,
    a: &[f32],
    b: &[f32],
    k: usize,
    mut c: DisjointGrid<f32>,
) {
    let n = c.width();
    let Some(c) = c.get_mut(index) else { return };
    let mut sum = 0.0;
    for i in 0..k {
        sum += a[index.y() * k + i] * b[i * n + index.x()];
    }
    *c = sum;
}

/// Tiles in shared memory, through pointers: one thread an element, any size.
///
/// # Safety
/// The matrices have these sizes.
#[kernel(block = (TILE, TILE))]
pub unsafe fn tiled_pointers(
    index: ThreadIndex2,
    a: *const f32,
    b: *const f32,
    c: *mut f32,
    m: usize,
    n: usize,
    k: usize,
) {
    let left = shared_array![f32; TILE * TILE].as_mut_ptr();
    let right = shared_array![f32; TILE * TILE].as_mut_ptr();
    let (x, y) = (thread::thread_idx_x() as usize, thread::thread_idx_y() as usize);
    let (column, row) = (index.x(), index.y());
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let first = step * TILE;
        // SAFETY: the caller's promise; each thread writes elements of its own.
        unsafe {
            let inside = row < m && first + x < k;
            *left.add(y * TILE + x) = if inside { *a.add(row * k + first + x) } else { 0.0 };
            let inside = first + y < k && column < n;
            *right.add(y * TILE + x) = if inside { *b.add((first + y) * n + column) } else { 0.0 };
        }
        // The tiles are read by other threads than wrote them.
        thread::sync_threads();
        for i in 0..TILE {
            // SAFETY: inside the tiles, written before the barrier.
            sum += unsafe { *left.add(y * TILE + i) * *right.add(i * TILE + x) };
        }
        // All have read before anybody writes the next tiles.
        thread::sync_threads();
    }
    if column < n && row < m {
        // SAFETY: the caller's promise.
        unsafe { *c.add(row * n + column) = sum };
    }
}

/// A square tile without padding: its rows are read by whole warps.
type Square = Tile<f32, TILE, TILE, 0>;

/// Tiles in shared memory without `unsafe`: one thread an element, any size.
#[kernel]
pub fn tiled_views(
    index: ThreadIndex2,
    mut block: Block<TILE, TILE>,
    left: Shared<Square>,
    right: Shared<Square>,
    a: &[f32],
    b: &[f32],
    k: usize,
    mut c: DisjointGrid<f32>,
) {
    let (a, b) = (Matrix::new(a, c.height(), k), Matrix::new(b, k, c.width()));
    let (x, y) = (block.x(), block.y());
    let (left_column, top_row) = (index.x() - x, index.y() - y);
    let (mut left, mut right) = (left.zeroed(&block), right.zeroed(&block));
    let mut sum = 0.0;
    for step in 0..k.div_ceil(TILE) {
        let first = step * TILE;
        left.fill(&block, |(i, j)| a.get_or(top_row + i, first + j, 0.0));
        right.fill(&block, |(i, j)| b.get_or(first + i, left_column + j, 0.0));
        let (l, r) = block.sync((left, right));
        for i in 0..TILE {
            sum += l[y][i] * r[i][x];
        }
        (left, right) = block.sync((l, r));
    }
    if let Some(c) = c.get_mut(index) {
        *c = sum;
    }
}
