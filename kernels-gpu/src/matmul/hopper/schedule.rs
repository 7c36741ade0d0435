//! Which tile a block computes, and which part of its sums.

#![cfg_attr(not(target_os = "cuda"), allow(unused_imports))]

use super::super::Problem;
use super::tile::ROWS_OF_TILE;
use bytemuck::{Pod, Zeroable};
use cuda_std::matrix::TileGrid;
use cuda_std::{cluster, gpu_only, thread};

/// The tiles of a launch, and how the matrices lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Schedule {
    /// Tiles along the rows of D.
    pub tile_rows: u32,
    /// Tiles along the columns of D.
    pub tile_columns: u32,
    /// Steps along K: stages of [`SPAN`](super::SPAN) bytes.
    pub steps: u32,
    /// Rows of tiles in a group: tiles are taken group by group, down the columns of each.
    pub group: u32,
    /// Not 0: the blocks of a cluster compute parts of the sums of one tile, and add them.
    pub adds: u32,
    /// Not 0: columns of A are contiguous, not rows.
    pub a_across: u32,
    /// Not 0: rows of B are contiguous, not columns.
    pub b_across: u32,
    /// Not 0: the copy engine stores D.
    pub d_mapped: u32,
    /// 1, or 0 if all matrices of a batch have the same A.
    pub a_batches: u32,
    /// 1, or 0 if all matrices of a batch have the same B.
    pub b_batches: u32,
}

/// The part of the work that one pass of a block does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The matrix of the batch.
    pub batch: u32,
    /// The matrix of D: that of the batch, or one for each part of the sums.
    pub output: u32,
    /// The tile's first row of D, and the one after the last that belongs to it: D may end before the tile does.
    pub rows: (u32, u32),
    /// The tile's column of tiles.
    pub column: u32,
    /// The first step along K, and the one after the last, in stages.
    pub steps: (u32, u32),
}

/// The passes of all blocks of a launch: block `i` of `n` takes `i`, `i + n`, `i + 2n` and so on.
pub(super) trait Passes: Copy {
    /// How many there are.
    fn count(self) -> u32;

    /// Pass `index`. Past the end it is one of no meaning, and no access is out of bounds.
    fn work(self, index: u32) -> Work;
}

impl Passes for (&Schedule, &Problem) {
    #[inline(always)]
    fn count(self) -> u32 {
        self.0.len(self.1)
    }

    #[inline(always)]
    fn work(self, index: u32) -> Work {
        self.0.work(self.1, index)
    }
}

impl Schedule {
    /// The tiles of a matrix.
    #[inline(always)]
    #[must_use]
    pub const fn tiles(&self) -> TileGrid {
        TileGrid { rows: self.tile_rows, columns: self.tile_columns, group: self.group }
    }

    /// All passes: the tiles of all matrices, and of all parts of their sums.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self, problem: &Problem) -> u32 {
        self.tile_rows * self.tile_columns * problem.batches * problem.splits
    }

    /// The first pass of this block; of a cluster whose blocks `adds` parts of the sums, this block's part of its only one.
    #[gpu_only]
    #[inline(always)]
    pub(super) fn first(&self, problem: &Problem, adds: bool) -> Work {
        if adds {
            self.work(problem, cluster::idx_x()).part_of(cluster::rank(), cluster::size())
        } else {
            self.work(problem, thread::block_idx_x())
        }
    }

    /// Pass `index` of them, in an order in which neighbours share rows and columns of tiles: groups of rows of tiles, down
    /// the columns of a group.
    #[inline(always)]
    #[must_use]
    pub const fn work(&self, problem: &Problem, index: u32) -> Work {
        let (output, tile) = divide(index, self.tiles().len());
        let (batch, split) = divide(output, problem.splits);
        let (row, column) = self.tiles().place(tile);
        Work {
            batch,
            output,
            rows: (row * ROWS_OF_TILE as u32, problem.m),
            column,
            steps: (
                part(self.steps, split, problem.splits),
                part(self.steps, split + 1, problem.splits),
            ),
        }
    }
}

impl Work {
    /// What block `own` of `parts` in a cluster does of this, which adds parts of the sums.
    #[inline(always)]
    #[must_use]
    pub const fn part_of(self, own: u32, parts: u32) -> Self {
        let (first, end) = self.steps;
        let all = end - first;
        Self { steps: (first + part(all, own, parts), first + part(all, own + 1, parts)), ..self }
    }
}

/// Quotient and remainder, 0 for a divisor of 0: a kernel that cannot panic has no calls, across which `wgmma` would not
/// be asynchronous.
#[inline(always)]
pub(in super::super) const fn divide(a: u32, b: u32) -> (u32, u32) {
    match (a.checked_div(b), a.checked_rem(b)) {
        (Some(quotient), Some(remainder)) => (quotient, remainder),
        _ => (0, 0),
    }
}

/// Where part `index` of `parts` of `all` begins: the first ones are one longer, where they are not all equal.
#[inline(always)]
pub(in super::super) const fn part(all: u32, index: u32, parts: u32) -> u32 {
    let (each, more) = divide(all, parts);
    index * each + if index < more { index } else { more }
}
