//! The parts of a tile of D, in shared memory: what the copies, the products and the stores agree on.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::Value;
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::number::E4m3;
use cuda_std::{bf16, f16};

/// Rows of D that a block computes at a time.
pub const ROWS_OF_TILE: usize = 2 * ROWS;
/// Threads: a producer and two consumers.
pub const BLOCK: usize = 3 * WARPGROUP;
/// Bytes of a row of a box of A, B and D in shared memory: the span of the swizzle, and what a stage has along K.
pub const SPAN: usize = 128;
/// Rows of a box that is not one of A along K.
pub const ROWS_OF_BOX: usize = 64;
/// Boxes of D in shared memory for each consumer: one is stored while the next one is written.
pub const STAGED: usize = 2;
/// The widest tile whose blocks may add their sums in a cluster, and the smallest one whose sums fill the registers.
pub const SQUARE: usize = 128;

/// A box of A whose rows are contiguous along K, as bytes.
pub type RowsOfA = [[[u8; SPAN]; ROWS_OF_TILE]; 1];
/// Any other box of A or B, as bytes: 64 columns of B that are contiguous along K (in small tiles fewer), or 64 rows along K of elements of
/// 16 bits that are contiguous across.
pub type SmallBox = [[[u8; SPAN]; ROWS_OF_BOX]; 1];
/// A box of D: 64 rows of 128 bytes.
pub type Stored<D> = Tile<StoredRows<D>, Swizzle128>;
/// The bytes of [`Stored`], as the copy engine sees them, by the size of D's elements.
pub type StoredRows<D> = <D as Output>::Rows;

/// An element of D.
pub trait Output: Value {
    /// 64 rows of 128 bytes.
    type Rows: Extents<Element = Self>;
}

impl Output for bf16 {
    type Rows = [[[Self; 64]; ROWS]; 1];
}

impl Output for f16 {
    type Rows = [[[Self; 64]; ROWS]; 1];
}

impl Output for E4m3 {
    type Rows = [[[Self; 128]; ROWS]; 1];
}

impl Output for f32 {
    type Rows = [[[Self; 32]; ROWS]; 1];
}

/// Columns of a box of D.
#[must_use]
pub const fn stored_columns<D>() -> usize {
    SPAN / size_of::<D>()
}

/// Columns of a box of B in tiles with `columns` of them.
#[must_use]
pub const fn columns_of_box(columns: usize) -> usize {
    if columns < ROWS_OF_BOX { columns } else { ROWS_OF_BOX }
}

/// Elements along K in a stage, each of `element_bytes`.
#[must_use]
pub const fn depth(element_bytes: usize) -> usize {
    SPAN / element_bytes
}

/// Stages between copies and products of tiles with `columns`: as many as shared memory has a place for, of all blocks at once.
#[must_use]
pub const fn stages(columns: usize) -> usize {
    match columns {
        256 | 192 => 4,
        64 => 8,
        _ => 5,
    }
}

/// Blocks that a multiprocessor runs at a time. Of the smallest tiles these are two: they take so little time that one block alone would leave the
/// memory idle at its ends.
#[must_use]
pub const fn blocks_at_once(columns: usize) -> usize {
    if columns <= 16 { 2 } else { 1 }
}

/// One stage: boxes of A and B, in either order.
#[repr(C, align(1024))]
pub struct Stage<const N: usize> {
    pub(super) a: [[u8; SPAN]; ROWS_OF_TILE],
    pub(super) b: [[u8; SPAN]; N],
}
