//! A copy of an operand of f32 as two parts of TF32: what [`hopper_three_tf32`](fn@super::hopper::hopper_three_tf32) multiplies.
//!
//! A row of the copy is contiguous along K: the upper parts of [`DEPTH`] elements, then the lower parts of the same ones, then those of the next. Past the end of K both are 0.

use super::Strides;
use super::form::take_turn;
use super::pack::{TILE, tile_of_block, tiles};
use super::tf32::{DEPTH, split};
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::shared::Tile;
use cuda_std::unroll::build;

/// Elements that a thread moves at a time: 16 bytes.
const VECTOR: usize = 4;
/// Threads along a row of the tile, and down the tile.
const ACROSS: usize = TILE / VECTOR;
const DOWN: usize = 16;
/// Vectors of a thread.
const EACH: usize = TILE / DOWN;

/// What is copied. The parts of element `k` of row `row` of matrix `batch` are at `(batch * rows + row) * row_len() + place(k)`, and [`DEPTH`] further.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct PartsPacking {
    /// Rows of A, or columns of B.
    pub rows: u32,
    /// The length of a row.
    pub k: u32,
    /// Matrices.
    pub batches: u32,
    /// Not 0: rows are contiguous along K, and begin at multiples of 16 bytes.
    pub has_vectors: u32,
    /// Where the elements are, K being the column.
    pub from: Strides,
}

impl PartsPacking {
    /// Elements of a row of the copy.
    #[must_use]
    pub const fn row_len(&self) -> u32 {
        2 * self.k.next_multiple_of(DEPTH as u32)
    }

    /// Blocks of the grid.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        tiles(self.rows as usize, self.k as usize) * self.batches as usize
    }

    /// Elements of the copy.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.batches as usize * self.rows as usize * self.row_len() as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Where the upper part of element `k` of a row is in the row's copy.
#[must_use]
pub const fn place(k: usize) -> usize {
    k / DEPTH * 2 * DEPTH + k % DEPTH
}

/// Copies tile by tile. Launch [`PartsPacking::blocks`].
///
/// # Safety
/// `from` has every element that `packing.from` leads to, and `to`, which begins at a multiple of 16 bytes, has [`PartsPacking::len`].
#[kernel(dependent)]
pub unsafe fn pack_parts(
    mut block: Block<ACROSS, DOWN>,
    tile: Shared<Tile<f32, TILE, TILE>>,
    packing: PartsPacking,
    from: &[f32],
    mut to: DisjointSlice<f32>,
) {
    take_turn();
    let (rows, k) = (packing.rows as usize, packing.k as usize);
    let [left, top, batch] = tile_of_block(rows, k);
    let from = from.as_ptr();
    let row_len = packing.row_len() as usize;
    let to = to.as_mut_ptr().wrapping_add((batch * rows + top) * row_len);
    let load = |row: usize, column: usize| {
        let (row, column) = (top + row, left + column);
        if row < rows && column < k {
            // SAFETY: inside; the caller's promise.
            unsafe { from.add(packing.from.index(batch, row, column)).read() }
        } else {
            0.0
        }
    };
    let store = |row: usize, column: usize, values: Vec4<f32>| {
        if top + row < rows && left + column < k.next_multiple_of(DEPTH) {
            let place = to.wrapping_add(row * row_len + place(left + column)).cast::<Vec4<u32>>();
            // SAFETY: inside; all elements of the vector are this thread's.
            unsafe {
                place.write(values.map(|value| split(value.to_bits())[0]));
                place.add(DEPTH / VECTOR).write(values.map(|value| split(value.to_bits())[1]));
            }
        }
    };
    let (column, row) = (VECTOR * block.x(), block.y());
    if packing.has_vectors != 0 && left + TILE <= k && top + TILE <= rows {
        let first = packing.from.index(batch, top + row, left + column);
        let stride = DOWN * packing.from.row as usize;
        // SAFETY: inside; rows begin at multiples of 16 bytes.
        let vectors: [Vec4<f32>; EACH] =
            build(|i| unsafe { from.add(first + i * stride).cast::<Vec4<f32>>().read() });
        for (i, vector) in vectors.into_iter().enumerate() {
            store(row + i * DOWN, column, vector);
        }
        return;
    }
    // Lanes are neighbours along what is contiguous: a row of the tile is one of A, or one index of K.
    let by_k = packing.from.column == 1;
    let tile = tile.fill(&block, |(i, j)| if by_k { load(i, j) } else { load(j, i) });
    // The tile is read by other threads than wrote it.
    let tile = block.sync(tile);
    for i in (row..TILE).step_by(DOWN) {
        let of = |k: usize| if by_k { tile[i][column + k] } else { tile[column + k][i] };
        store(i, column, Vec4::new(of(0), of(1), of(2), of(3)));
    }
}
