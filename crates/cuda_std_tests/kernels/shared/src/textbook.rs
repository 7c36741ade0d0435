//! The textbook's kernels, without `unsafe`.

use cuda_std::block::DisjointTiles2;
use cuda_std::prelude::*;
use cuda_std::shared::{Double, Tile};

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Side of a tile of the transpose.
pub const TILE: usize = 32;
/// Rows of threads in a block of the transpose.
pub const ROWS: usize = 8;
/// Side of a tile of the product, and of its block.
pub const SIDE: usize = 16;
/// Threads in a block of the convolution.
pub const THREADS: usize = 256;
/// Elements that a sum of the convolution has on either side.
pub const RADIUS: usize = 3;

/// `out[i]` becomes the element of `x` at the mirrored place of the block.
#[kernel]
pub fn reverse(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    tile: Shared<[u32; BLOCK]>,
    x: &[u32],
    mut out: DisjointSlice<u32>,
) {
    let tile = tile.put(&block, x[index.get()]);
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        *out = tile[BLOCK - 1 - block.thread()];
    }
}

/// `sums[block]` becomes the sum of the block's elements.
#[kernel]
pub fn reduce(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    tile: Shared<[f32; BLOCK]>,
    x: &[f32],
    sums: AtomicSlice<f32>,
) {
    let own = x.get(index.get()).copied().unwrap_or(0.0);
    let mut tree = tile.put(&block, own).halving();
    while let Some(pairs) = tree.halve(&mut block) {
        pairs.each(|own, other| *own += *other);
    }
    if let Some(sum) = tree.root(&block) {
        sums.store(index.get() / BLOCK, sum, Relaxed);
    }
}

/// `out[i]` becomes the sum of the block's elements up to `i` (Hillis and Steele, 1986).
#[kernel]
pub fn scan(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    sums: Shared<Double<[u32; BLOCK]>>,
    x: &[u32],
    mut out: DisjointSlice<u32>,
) {
    let own = x.get(index.get()).copied().unwrap_or(0);
    let mut sums = block.sync(sums.fill(&block, |_| own));
    let mut distance = 1;
    while distance < BLOCK {
        let next = sums.fill(&block, |sums, i| {
            let own = sums[i];
            if i < distance { own } else { own.wrapping_add(sums[i - distance]) }
        });
        sums = block.sync(next);
        distance *= 2;
    }
    if let Some(out) = out.get_mut(index) {
        *out = sums.front()[block.thread()];
    }
}

/// `out[x][y] = input[y][x]`; `input: [height, width]`, one element a thread.
#[kernel]
pub fn transpose(
    mut block: Block<16, 16>,
    index: ThreadIndex2,
    tile: Shared<Tile<f32, 16, 16>>,
    input: &[f32],
    mut out: DisjointGrid<f32>,
) {
    let (x, y) = (block.x(), block.y());
    let (left, top) = (index.x() - x, index.y() - y);
    let tile = tile.fill(&block, |(row, column)| {
        let inside = left + row < out.width() && top + column < out.height();
        if inside { input[(left + row) * out.height() + top + column] } else { 0.0 }
    });
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        *out = tile[x][y];
    }
}

/// `c = a b`: `a: [m, k]`, `b: [k, n]`, `c: [m, n]`, row by row. A block for each tile of `c`.
#[kernel]
pub fn product(
    mut block: Block<SIDE, SIDE>,
    a_tile: Shared<Tile<f32, SIDE, SIDE>, 0>,
    b_tile: Shared<Tile<f32, SIDE, SIDE>, 1>,
    inner: usize,
    a: &[f32],
    b: &[f32],
    mut c: DisjointTiles2<f32, SIDE, SIDE>,
) {
    let (top, left) = c.origin();
    let (a, b) = (Matrix::new(a, c.height(), inner), Matrix::new(b, inner, c.width()));
    let (mut a_tile, mut b_tile) = (a_tile.zeroed(&block), b_tile.zeroed(&block));
    let mut sum = 0.0;
    for start in (0..inner).step_by(SIDE) {
        a_tile.fill(&block, |(row, k)| a.get_or(top + row, start + k, 0.0));
        b_tile.fill(&block, |(k, column)| b.get_or(start + k, left + column, 0.0));
        // Both tiles are there before a thread reads what others wrote …
        let (a_read, b_read) = block.sync((a_tile, b_tile));
        for k in 0..SIDE {
            sum += a_read[block.y()][k] * b_read[k][block.x()];
        }
        // … and read before the next ones replace them.
        (a_tile, b_tile) = block.sync((a_read, b_read));
    }
    c.fill(&block, |_| sum);
}

/// `out[i]` becomes the sum of `weights[k] * x[i + k - RADIUS]`, where what lies outside of `x` is 0. All `[n]`.
#[kernel]
pub fn convolve(
    mut block: Block<THREADS>,
    index: ThreadIndex,
    tile: Shared<[f32; THREADS + 2 * RADIUS]>,
    weights: &[f32; 2 * RADIUS + 1],
    x: &[f32],
    mut out: DisjointSlice<f32>,
) {
    // The block's elements, and a halo of RADIUS elements on either side: the first threads write two.
    let start = index.get() - block.thread();
    let tile = tile.fill(&block, |i| {
        let at = (start + i).checked_sub(RADIUS);
        at.and_then(|at| x.get(at)).copied().unwrap_or(0.0)
    });
    // All threads come here, those past the end of `out` too: they have filled a part of the halo.
    let tile = block.sync(tile);
    if let Some(out) = out.get_mut(index) {
        *out = (0..=2 * RADIUS).map(|k| weights[k] * tile[block.thread() + k]).sum();
    }
}
