//! Transpose of a row-major f32 matrix: `out[x][y] = input[y][x]`.
//!
//! * [`transpose_naive`](fn@transpose_naive): writes along rows and reads along columns, so each warp's read touches 32 sectors.
//! * [`transpose_tiled`](fn@transpose_tiled): a block carries a square tile through shared memory and reads and writes along rows.
//!   Rows of the tile are padded by one word, so that a column of it lies in 32 different banks.
//! * [`vectors`]: 16 bytes at a time, elements of any size, many matrices, and permutations of three axes.

pub mod vectors;

pub use vectors::{permute_elements, transpose_vectors};

use crate::prelude::*;
use cuda_std::block::DisjointTiles2;
use cuda_std::shared::Tile;

/// Side of a tile, and threads along x in a block.
pub const TILE: usize = 32;
/// Threads along y in a block: each moves `TILE / ROWS` elements.
pub const ROWS: usize = 8;

/// The plain form. `input: [height, width]`, `out: [width, height]`; one thread an element of `out`.
#[kernel]
pub fn transpose_naive(index: ThreadIndex2, input: &[f32], mut out: DisjointGrid<f32>) {
    let (x, y, width) = (index.x(), index.y(), out.height());
    if let Some(out) = out.get_mut(index) {
        *out = input[x * width + y];
    }
}

/// The middle form, with the same arguments. Launch one block a tile of `out`.
#[kernel]
pub fn transpose_tiled(
    mut block: Block<TILE, ROWS>,
    tile: Shared<Tile<f32, TILE, TILE>>,
    input: &[f32],
    mut out: DisjointTiles2<f32, TILE, TILE>,
) {
    let (top, left) = out.origin();
    // A row of `input` is a column of `out`.
    let input = Matrix::of_shape(input, out.shape().transposed());
    match (input.tile::<TILE, TILE>(left, top), out.whole()) {
        (Some(input), Some(mut out)) => {
            // All loads are under way before the first store.
            let tile = tile.fill(&block, |place| input[place]);
            // The tile is read by other threads than wrote it.
            let tile = block.sync(tile);
            out.fill(&block, |(row, column)| tile[column][row]);
        }
        // The ragged edge, or a block too many.
        _ => {
            let tile = tile.fill(&block, |(row, column)| {
                input.get(left + row, top + column).copied().unwrap_or(0.0)
            });
            let tile = block.sync(tile);
            out.fill(&block, |(row, column)| tile[column][row]);
        }
    }
}
