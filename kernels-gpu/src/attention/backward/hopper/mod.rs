//! The fastest backward pass on Hopper: the copy engine and warpgroups, and each score once.
//!
//! The method is that of FlashAttention-3 (J. Shah and others, 2024). A block has 128 keys and values of a head, 64 for each of two consumers, and passes over
//! tiles of the queries that see them. The consumers compute scores transposed, keys by queries. Weights and gradients of scores are then in the registers from which
//! `wgmma` reads its left operand, for the gradients of values and of keys, which stay in registers until the end. The gradients of queries are sums over all keys: each block
//! adds its share to sums in global memory. Of rows of more than 128 elements registers hold 64 keys and values, which the consumers share (`wide.rs`).
//!
//! | kernel | does |
//! |---|---|
//! | [`prepare`](fn@prepare) | writes logarithms and sums `delta` of all queries, and zeros to the sums |
//! | [`add`], for longer rows [`add_wide`] | computes gradients of keys and values, and adds up those of queries |
//! | [`finish`](fn@finish) | rounds the sums to gradients of queries |
//!
//! | warps of these | do |
//! |---|---|
//! | a producer | copies keys and values, and a ring of tiles of queries and of gradients of the results |
//! | one for each stage of sums | adds a tile's sums to global memory by a reducing copy |
//! | two warpgroups, the consumers | multiply: five products for each tile of queries |
//!
//! Blocks add to the same sums in any order, unless [`in_turns`](BackwardProblem::in_turns) is set. Then a block waits at each tile of queries until all blocks with later keys have added
//! to it, and the result has the same bits in every run. Blocks with later keys have smaller indices, so the device starts them before those that wait for them.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod block;
mod consume;
pub mod finish;
pub mod prepare;
mod produce;
mod scores;
mod sums;
mod tile;
mod wide;

pub use block::shared_bytes;
pub use finish::finish;
pub use prepare::prepare;
pub use wide::add as add_wide;

use super::keys::tiles_of_keys;
use super::{BackwardProblem, Operands};
use crate::attention::batch::Slots;
use crate::attention::hopper::{Half, warpgroup_of_warp};
use crate::attention::{Batch, Batches, Score};
use crate::prelude::*;
use block::Block;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use tile::Tile;

/// Threads: a warpgroup with the producer and the warps that add, and two of consumers.
pub const BLOCK: usize = 3 * WARPGROUP;
/// Elements of the longest rows of which a consumer has its own 64 keys: [`add`]. Of longer ones both consumers have the same: [`add_wide`].
const MOST_OF_OWN_KEYS: usize = 128;
/// Sums of gradients of queries that the consumers give at a time: 64 × 64 each.
const ELEMENTS: usize = 8192;
/// Stages of queries, and of gradients of scores.
const STAGES: usize = 2;

/// Keys of a tile, of `depth` elements each.
#[must_use]
pub const fn keys_of_tile(depth: usize) -> usize {
    if depth <= MOST_OF_OWN_KEYS { 2 * ROWS } else { ROWS }
}

/// Queries of a tile, of `depth` elements each.
#[must_use]
pub const fn queries_of_tile(depth: usize) -> usize {
    if depth <= 64 { 128 } else { 64 }
}

/// How many times the consumers give sums for a tile of queries.
const fn rounds(depth: usize) -> usize {
    depth.div_ceil(128)
}

/// Blocks of [`add`]: one for each tile of keys.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    let forward = &problem.forward;
    let keys = keys_of_tile(Scratch::of(problem).depth);
    let tiles = tiles_of_keys(forward, keys as u32) as u64;
    tiles * forward.kv_heads as u64 * forward.batches_of_keys() as u64
}

/// What the kernels leave for each other, in the scratch memory at `delta`: numbers of 32 bits of tiles of queries, of all heads of all batches.
///
/// | from | are | |
/// |---|---|---|
/// | 0 | logarithms to base 2 of the sums of the queries, infinity past the last query | f32 |
/// | [`deltas`](Self::deltas) | the sums `delta`, 0 past the last query | f32 |
/// | [`sums`](Self::sums) | sums of gradients of queries, as consumers have them | f32 |
/// | [`turns`](Self::turns) | for each tile, how many blocks have added to it | u32 |
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    /// Tiles of queries of a head; of packed ones the places for those of all batches.
    pub tiles: u32,
    /// Heads of all batches of the tensor.
    pub heads: u32,
    /// Elements of a row in shared memory.
    pub depth: usize,
}

impl Scratch {
    /// That of a problem.
    #[inline(always)]
    #[must_use]
    pub const fn of(problem: &BackwardProblem) -> Self {
        let forward = &problem.forward;
        let most = [forward.depth, forward.value_depth];
        let most = if most[0] > most[1] { most[0] } else { most[1] };
        let depth = (most as usize).next_multiple_of(64);
        let tile = queries_of_tile(depth) as u32;
        let tiles = if forward.has_packed_queries() {
            Slots::len(forward.queries, tile, forward.batches)
        } else {
            forward.queries.div_ceil(tile)
        };
        Self { tiles, heads: forward.batches_of_queries() * forward.heads, depth }
    }

    /// Tiles of all heads.
    #[inline(always)]
    #[must_use]
    pub const fn all_tiles(&self) -> usize {
        self.heads as usize * self.tiles as usize
    }

    /// Where the sums `delta` begin.
    #[inline(always)]
    #[must_use]
    pub const fn deltas(&self) -> usize {
        self.all_tiles() * queries_of_tile(self.depth)
    }

    /// Where the sums of gradients begin.
    #[inline(always)]
    #[must_use]
    pub const fn sums(&self) -> usize {
        2 * self.deltas()
    }

    /// Where the turns begin.
    #[inline(always)]
    #[must_use]
    pub const fn turns(&self) -> usize {
        self.sums() + self.all_tiles() * rounds(self.depth) * ELEMENTS
    }

    /// How many numbers there are.
    #[inline(always)]
    #[must_use]
    pub const fn len(&self) -> usize {
        self.turns() + self.all_tiles()
    }

    /// Whether there are none.
    #[inline(always)]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The batch, the head and the first query of a tile: past the last query if no tile has the place.
    #[inline(always)]
    fn place(
        &self,
        problem: &BackwardProblem,
        batches: Batches<'_>,
        tile: u32,
    ) -> (Batch, u32, u32) {
        // (A division of which the compiler sees that it is not by 0 has no panic.)
        let (tiles, heads) = (self.tiles.max(1), problem.forward.heads.max(1));
        let (head, at) = (tile / tiles, tile % tiles);
        let (forward, of_tile) = (&problem.forward, queries_of_tile(self.depth) as u32);
        let (batch, at) = if forward.has_packed_queries() {
            Slots::new(batches.queries, forward.batches, forward.queries, of_tile).find(at)
        } else {
            (head / heads, at)
        };
        let batch = Batch::new(forward, batches, batch);
        (batch, head % heads, at.min(batch.queries.len.div_ceil(of_tile)) * of_tile)
    }

    /// The place of the first tile of a head among all.
    #[inline(always)]
    fn first_tile(&self, problem: &BackwardProblem, batch: &Batch, head: u32) -> usize {
        let (forward, rows) = (&problem.forward, batch.queries);
        let of_head = (rows.batch * forward.heads + head) as usize * self.tiles as usize;
        if forward.has_packed_queries() {
            let of_tile = queries_of_tile(self.depth) as u32;
            of_head + Slots::first(rows.first, of_tile, batch.index) as usize
        } else {
            of_head
        }
    }
}

/// Computes the gradients of keys and values, and adds those of the queries up. Rows have at most `D` elements, that is `BOXES` × 64 or `E` × 8, at most 128, and tiles
/// `M` queries, that is `F` × 16.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else uses; there are [`blocks`] of them.
/// - `maps` are those of queries, keys, values and gradients of the results, with dimensions of batches, heads, rows and elements, in boxes of 64 elements and [`keys_of_tile`]
///   or [`queries_of_tile`]; those of packed tensors are as [`Segment::coordinates`](crate::attention::Segment::coordinates) has it.
/// - The operands have every element that the problem leads to, and [`prepare`](fn@prepare) has written the scratch memory.
#[gpu_only]
#[inline(always)]
pub unsafe fn add<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const M: usize,
    const F: usize,
>(
    maps: GridConstant<'_, [MapWords; 4]>,
    problem: &BackwardProblem,
    operands: Operands<'_, T>,
    score: (C, f32),
) where
    T: Half,
    C: Score,
    Columns<M>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
    Columns<64>: Instruction<T, T, f32>,
{
    const { assert!(64 * BOXES == D && 8 * E == D && 16 * F == M) };
    let tile = Tile::new(problem, operands.batches, score.0, thread::block_idx_x());
    // SAFETY: the launch gives the memory; all threads together.
    unsafe {
        let block = Block::<{ 2 * ROWS }, BOXES, M, STAGES>::new();
        match warpgroup_of_warp() {
            0 => copy_and_add(block, maps, problem, &tile, operands, score.0),
            group => {
                raise_registers::<REGISTERS>();
                let own = group - 1;
                consume::all::<T, C, D, BOXES, E, M, F>(
                    block, problem, &tile, operands, score, own,
                );
            }
        }
    }
    // Where the paths of both kinds of warps do not meet, the assembler has the multiplications wait for each other.
    thread::sync_threads();
}

/// Registers of a consumer's thread: these and 24 of each thread of the first warpgroup are the block's 168 each at entry.
const REGISTERS: u32 = 240;

/// What the first warpgroup does: one warp copies, and some add. (The branch between it and the consumers is in each kernel, and not here with a closure: LLVM did not inline
/// every one, and products do not overlap where there is a call, C7510.)
///
/// # Safety
/// As [`add`], for the warpgroup; the consumers go by the barriers of the block.
#[gpu_only]
#[inline(always)]
unsafe fn copy_and_add<T, const KEYS: usize, const BOXES: usize, const M: usize, const O: usize>(
    block: Block<KEYS, BOXES, M, O>,
    maps: GridConstant<'_, [MapWords; 4]>,
    problem: &BackwardProblem,
    tile: &Tile<KEYS, M>,
    operands: Operands<'_, T>,
    score: impl Score,
) {
    // SAFETY: the caller's promise.
    unsafe {
        lower_registers::<24>();
        let (warp, stages) = (thread_in_warpgroup() / 32, block.stages_of_sums());
        if warp < stages {
            sums::add(block, problem, tile, operands, score, warp as u32);
        } else if warp == stages {
            produce::all(block, maps, problem, tile, operands);
        }
    }
}
