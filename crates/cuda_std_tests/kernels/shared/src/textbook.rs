//! The textbook's kernels, without `unsafe`.

use cuda_std::prelude::*;
use cuda_std::shared::{Double, Tile};

/// Threads in a block.
pub const BLOCK: usize = 256;
/// Side of a tile of the transpose.
pub const TILE: usize = 32;
/// Rows of threads in a block of the transpose.
pub const ROWS: usize = 8;

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
