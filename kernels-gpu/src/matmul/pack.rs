//! A copy of an operand as the tiles of [`hopper`](super::hopper) take it: contiguous along K, in rows that begin at multiples of 16 bytes.
//!
//! Operands whose rows the copy engine cannot address go through it first, and those of elements that warpgroups multiply along K alone and that
//! lie otherwise. The copy moves each element twice; a large product uses it thousands of times.

use super::Strides;
use super::form::take_turn;
use crate::prelude::*;
use bytemuck::{Pod, Zeroable};
use cuda_std::gpu_only;
use cuda_std::shared::{Element, Tile};

/// Side of the tile that a block carries through shared memory.
pub const TILE: usize = 64;
/// Threads along a row of the tile.
const ACROSS: usize = 32;
/// Threads down the tile.
const DOWN: usize = 8;

/// What is copied. The copy of element `k` of row `row` of matrix `batch` is at `(batch * rows + row) * leading + k`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Packing {
    /// Rows of A, or columns of B.
    pub rows: u32,
    /// The length of a row.
    pub k: u32,
    /// Matrices.
    pub batches: u32,
    /// Elements from a row of the copy to the next, at least `k`; those past `k` are not written.
    pub leading: u32,
    /// Where the elements are, K being the column.
    pub from: Strides,
}

impl Packing {
    /// Blocks of the grid.
    #[must_use]
    pub const fn blocks(&self) -> usize {
        tiles(self.rows as usize, self.k as usize) * self.batches as usize
    }

    /// Elements of the copy.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.batches as usize * self.rows as usize * self.leading as usize
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Tiles of a matrix, each of which is a block's.
pub(super) const fn tiles(rows: usize, k: usize) -> usize {
    rows.div_ceil(TILE) * k.div_ceil(TILE)
}

/// The first element along K of this block's tile, its first row, and its matrix.
#[gpu_only]
#[inline(always)]
pub(super) fn tile_of_block(rows: usize, k: usize) -> [usize; 3] {
    // A block exists only where there are tiles.
    let (down, across) = (rows.div_ceil(TILE).max(1), k.div_ceil(TILE).max(1));
    let index = thread::block_idx_x() as usize;
    let (x, rest) = (index % across, index / across);
    [x * TILE, rest % down * TILE, rest / down]
}

/// Copies tile by tile. Lanes are neighbours along what is contiguous, on either side. Launch [`Packing::blocks`].
///
/// # Safety
/// `from` has every element that `packing.from` leads to, and `to` has [`Packing::len`].
#[kernel(u8, u16, u32, u64, dependent)]
pub unsafe fn pack<T: Pod + Element>(
    mut block: Block<ACROSS, DOWN>,
    tile: Shared<Tile<T, TILE, TILE>>,
    packing: Packing,
    from: &[T],
    mut to: DisjointSlice<T>,
) {
    take_turn();
    let (rows, k) = (packing.rows as usize, packing.k as usize);
    let [left, top, batch] = tile_of_block(rows, k);
    let (from, to) = (from.as_ptr(), to.as_mut_ptr());
    let load = |row: usize, k_index: usize| {
        if row < rows && k_index < k {
            // SAFETY: inside; the caller's promise.
            unsafe { from.add(packing.from.index(batch, row, k_index)).read() }
        } else {
            T::zeroed()
        }
    };
    let store = |row: usize, k_index: usize, value: T| {
        if row < rows && k_index < k {
            let at = (batch * rows + row) * packing.leading as usize + k_index;
            // SAFETY: inside, and each element is one thread's.
            unsafe { to.add(at).write(value) };
        }
    };
    let (lane, line) = (block.x(), block.y());
    let own = || (line..TILE).step_by(DOWN).flat_map(|i| [(i, lane), (i, lane + ACROSS)]);
    if packing.from.column == 1 {
        own().for_each(|(i, j)| store(top + i, left + j, load(top + i, left + j)));
        return;
    }
    // A row of the tile is one index of K.
    let tile = tile.fill(&block, |(i, j)| load(top + j, left + i));
    // The tile is read by other threads than wrote it.
    let tile = block.sync(tile);
    own().for_each(|(i, j)| store(top + i, left + j, tile[j][i]));
}
