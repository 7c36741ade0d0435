//! The gradients of attention: of queries, keys and values, from that of the results.
//!
//! With the weights `p = e^(score - lse)`, and `delta = Σ do · o` of each query, `dv = pᵀ · do`, `ds = p (do · vᵀ - delta)`, `dq = scale · ds · k` and
//! `dk = scale · dsᵀ · q` (T. Dao and others, "FlashAttention", 2022). Weights are computed again from queries and keys, tile by tile.
//!
//! | module | kernels | since |
//! |---|---|---|
//! | [`hopper`] | all gradients at once, by the copy engine and warpgroups (`wgmma`); the fastest | `sm_90a` |
//! | [`delta`], [`queries`], [`keys`] | one after the other, by `cp.async` and warps (`mma`) | `sm_80` |
//!
//! | kernel of these | a block has | and passes over |
//! |---|---|---|
//! | [`delta`] | rows of results | nothing |
//! | [`queries`] | 64 queries, whose gradients its warps add in registers | the keys that they see |
//! | [`keys`] | 64 keys and values | the queries that see them, of all heads that share them |
//!
//! They compute scores twice, and in return every sum is one thread's: no atomic addition, and the same bits in every run.
//!
//! Rows of more than 128 elements fill registers and shared memory sooner. Their kernels copy blocks of rows in halves (`halves.rs`), and a block of [`keys`] adds the gradients of keys
//! or those of values (`alone.rs`), so that scores are computed three times.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod alone;
pub mod delta;
pub mod form;
mod halves;
pub mod hopper;
pub mod keys;
mod memory;
pub mod queries;

use super::{Batches, Problem, RowStrides};
use bytemuck::{Pod, Zeroable};

/// Rows of a tile.
pub const ROWS: usize = 64;
/// Threads of a block: four warps of 16 rows.
pub const BLOCK: usize = 128;
/// Rows of at most this many elements have two blocks of rows in shared memory, longer ones a single one.
pub const MOST_IN_STAGES: usize = 128;

/// Rows of a block that a tile is multiplied with, of `depth` elements each: two tiles and a block of two tensors fit into the 99 KiB of shared memory that a block may have on
/// every device since `sm_80`.
#[must_use]
pub const fn rows_of_block(depth: usize) -> usize {
    if depth <= 192 { 64 } else { 32 }
}

/// Blocks of rows in shared memory: one is used while the next one is copied. A single one is copied [in halves](halves).
const fn stages(depth: usize) -> usize {
    if depth <= MOST_IN_STAGES { 2 } else { 1 }
}

/// Dynamic shared memory of a block, in bytes: two tiles, blocks of two tensors, and two numbers of each of their rows. In place of a tile there may be as many
/// rows more of a block.
#[must_use]
pub const fn shared_bytes(depth: usize) -> usize {
    2 * depth * (2 * ROWS + 2 * stages(depth) * rows_of_block(depth)) + stages(depth) * ROWS * 8
}

/// Attention, and where the gradients are. Heads are not packed, keys neither divided nor in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct BackwardProblem {
    /// What was computed.
    pub forward: Problem,
    /// Where the gradients of the results are.
    pub d_o: RowStrides,
    /// Where those of the queries go.
    pub d_q: RowStrides,
    /// Where those of the keys go.
    pub d_k: RowStrides,
    /// Where those of the values go.
    pub d_v: RowStrides,
    /// Not 0: [`hopper`] adds gradients of queries in an order that is always the same.
    pub in_turns: u32,
    #[allow(missing_docs)]
    pub padding: u32,
}

/// What a launch gives.
#[derive(Clone, Copy, Debug)]
pub struct Operands<'a, T> {
    /// What is known of the batches on the device.
    pub batches: Batches<'a>,
    /// Queries, keys, values, results, and the gradients of these.
    pub q: *const T,
    #[allow(missing_docs)]
    pub k: *const T,
    #[allow(missing_docs)]
    pub v: *const T,
    #[allow(missing_docs)]
    pub o: *const T,
    #[allow(missing_docs)]
    pub d_o: *const T,
    /// The logarithms of the sums of the queries, `[batches, heads, queries]`, of packed ones `[heads, queries of all batches]`.
    pub lse: *const f32,
    /// What [`delta`] gives, in the same order.
    pub delta: *mut f32,
    /// Where the gradients go.
    pub d_q: *mut T,
    #[allow(missing_docs)]
    pub d_k: *mut T,
    #[allow(missing_docs)]
    pub d_v: *mut T,
}
