//! One value of many: sums, products, extremes and where they are, by an operator of one's own too.
//!
//! * [`reduce_tree_f32`](fn@reduce_tree_f32): the textbook's sum. Each thread loads one element into shared memory, the block halves it
//!   step by step; one partial sum a block, which a second launch (or the host) adds up.
//! * [`reduce_sum`](fn@reduce_sum) and its kin, all of them [`whole`]: 16-byte loads, eight in flight a thread; registers, then shuffles instead
//!   of shared memory; the last block to finish joins the blocks' partials, so one launch does it all.
//! * [`segment_sum`](fn@segment_sum), [`segment_extreme`](fn@segment_extreme): a result for each segment of an array, or for each row of a matrix.
//! * [`column_sum`](fn@column_sum), [`column_extreme`](fn@column_extreme): a result for each column.
//!
//! All but the first are dependent launches, which let the next one start early where they read little: of small arrays reduced
//! one after the other, a kernel takes its places while the one before still joins its partials.
//!
//! The order in which values are joined depends on lengths and alignment of the input alone, never on the
//! device or on which block runs first: the same input gives the same bits everywhere.
//!
//! A kernel of another crate calls [`whole_to`], [`segments`] or [`columns`] with its own
//! [`Operator`]:
//!
//! ```
//! use cuda_std::prelude::*;
//! use kernels_gpu::reduce::{BLOCK, Operator, whole_to};
//!
//! /// The largest magnitude.
//! #[derive(Clone, Copy)]
//! struct LargestMagnitude;
//!
//! impl Operator for LargestMagnitude {
//!     type Input = f32;
//!     type Value = f32;
//!     type Output = f32;
//!
//!     fn identity(self) -> f32 {
//!         0.0
//!     }
//!
//!     fn value(self, element: f32) -> f32 {
//!         element.abs()
//!     }
//!
//!     fn join(self, a: f32, b: f32) -> f32 {
//!         a.max(b)
//!     }
//!
//!     fn finish(self, all: f32) -> f32 {
//!         all
//!     }
//! }
//!
//! #[kernel]
//! pub fn largest_magnitude(
//!     mut block: Block<{ BLOCK as usize }>,
//!     index: ThreadIndex,
//!     x: &[f32],
//!     partials: AtomicSlice<u32>,
//!     finished: AtomicSlice<u32>,
//!     mut out: DisjointSlice<f32>,
//! ) {
//!     whole_to(&mut block, index, LargestMagnitude, x, partials, finished, &mut out);
//! }
//! # fn main() {}
//! ```

mod columns;
pub mod operator;
mod partials;
mod segments;
mod tree;
mod whole;

pub use columns::{COLUMN_ROUND, Shape, column_extreme, column_lanes, column_sum, columns};
pub use operator::{Extreme, Found, Operator, Ordered, Product, Sum};
pub use segments::{Segments, Split, segment_extreme, segment_sum, segments};
pub use tree::reduce_tree_f32;
pub use whole::{
    Reduction, reduce_extreme, reduce_place, reduce_product, reduce_sum, whole, whole_to,
};

use crate::quads::QUAD_BYTES;

/// Threads in a block.
pub const BLOCK: u32 = 256;
/// 16-byte loads that each thread makes of a tile.
pub const QUADS_PER_THREAD: usize = 4;
/// Quads of 16 bytes that a block loads at a time.
pub const TILE: usize = BLOCK as usize * QUADS_PER_THREAD;
/// Most blocks of a launch: four for each of the 132 multiprocessors of an H100 or H200, which is what its registers have room
/// for. The number is fixed, so that the order of a sum does not depend on the device.
pub const MAX_BLOCKS: u32 = 4 * 132;

/// Registers of a thread: as many as four blocks on a multiprocessor leave room for. Left to itself the compiler uses fewer, and
/// waits for the first loads before it starts the last ones.
pub const REGISTERS: u32 = 64;

/// Up to this many tiles, each has a block of its own.
const FEW_TILES: usize = 132;

/// Blocks to launch for `n_bytes` bytes: one a tile where these are few, then one for two, at most [`MAX_BLOCKS`], at
/// least one. Fewer blocks have fewer partial values to hand over, which is what small arrays wait for.
#[must_use]
pub const fn blocks(n_bytes: usize) -> u32 {
    let tiles = n_bytes / QUAD_BYTES / TILE;
    let blocks = if tiles <= FEW_TILES { tiles } else { tiles.div_ceil(2) };
    if blocks == 0 {
        1
    } else if blocks < MAX_BLOCKS as usize {
        blocks as u32
    } else {
        MAX_BLOCKS
    }
}

/// Words of scratch for the partial values of `blocks` blocks.
#[must_use]
pub const fn partial_words<V>(blocks: usize) -> usize {
    blocks * size_of::<V>().div_ceil(4)
}
