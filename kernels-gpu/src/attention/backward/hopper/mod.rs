//! The fastest backward pass on Hopper: the copy engine and warpgroups, and each score once.
//!
//! The method is that of FlashAttention-3 (J. Shah and others, 2024). A block has 128 keys and values of a head, 64 for each of two consumers, and passes over
//! tiles of the queries that see them. The consumers compute scores transposed, keys by queries. Weights and gradients of scores are then in the registers from which
//! `wgmma` reads its left operand, for the gradients of values and of keys, which stay in registers until the end. The gradients of queries are sums over all keys: each block
//! adds its share to sums in global memory.
//!
//! | kernel | does |
//! |---|---|
//! | [`prepare`](fn@prepare) | writes logarithms and sums `delta` of all queries, and zeros to the sums |
//! | [`add`] | computes gradients of keys and values, and adds up those of queries |
//! | [`finish`](fn@finish) | rounds the sums to gradients of queries |
//!
//! | warps of [`add`] | do |
//! |---|---|
//! | a producer | copies keys and values, and a ring of tiles of queries and of gradients of the results |
//! | one for each stage of sums | adds a tile's sums to global memory by a reducing copy |
//! | two warpgroups, the consumers | multiply: five products for each tile of queries |
//!
//! Blocks add to the same sums in any order, unless [`in_turns`](BackwardProblem::in_turns) is set. Then a block waits at each tile of queries until all blocks with later keys have added
//! to it, and the result has the same bits in every run. Blocks with later keys have smaller indices, so the device starts them before those that wait for them.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

mod consume;
pub mod finish;
pub mod prepare;
mod produce;
mod sums;
mod tile;

pub use finish::finish;
pub use prepare::prepare;

use super::keys::tiles_of_keys;
use super::{BackwardProblem, Operands};
use crate::attention::batch::Slots;
use crate::attention::hopper::{Half, KeyTile, warpgroup_of_warp};
use crate::attention::{Batch, Batches, Score};
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use tile::Tile;

/// Keys of a tile: 64 of each consumer.
pub const KEYS: usize = 2 * ROWS;
/// Threads: a warpgroup with the producer and the warps that add, and two of consumers.
pub const BLOCK: usize = 3 * WARPGROUP;
/// Elements of a tile of queries.
const ELEMENTS: usize = 8192;
/// Stages of everything that goes through shared memory.
const STAGES: usize = 2;

/// Queries of a tile, of `depth` elements each.
#[must_use]
pub const fn queries_of_tile(depth: usize) -> usize {
    ELEMENTS / depth
}

/// Dynamic shared memory of a block, in bytes: keys and values; and of each stage queries, gradients of results, gradients of scores, sums, and two numbers of each query; and
/// barriers.
#[must_use]
pub const fn shared_bytes(depth: usize) -> usize {
    let queries = queries_of_tile(depth);
    let of_stage = 2 * ELEMENTS * 2 + queries * KEYS * 2 + ELEMENTS * 4 + queries * 2 * 4;
    2 * KEYS * depth * 2 + STAGES * of_stage + 3 * 2 * STAGES * 8
}

/// Blocks of [`add`]: one for each tile of keys.
#[must_use]
pub const fn blocks(problem: &BackwardProblem) -> u64 {
    let forward = &problem.forward;
    let tiles = tiles_of_keys(forward, KEYS as u32) as u64;
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
        let depth = if forward.depth <= 64 && forward.value_depth <= 64 { 64 } else { 128 };
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
        self.sums() + self.all_tiles() * ELEMENTS
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

/// Computes the gradients of keys and values, and adds those of the queries up. Rows have at most `D` elements, that is `BOXES` × 64 or `E` × 8, and tiles `M` queries, that
/// is `F` × 16.
///
/// # Safety
/// - All threads of a block of [`BLOCK`] call this together, with [`shared_bytes`] of dynamic shared memory that nothing else uses; there are [`blocks`] of them.
/// - `maps` are those of queries, keys, values and gradients of the results, with dimensions of batches, heads, rows and elements, in boxes of 64 elements and [`KEYS`] keys or
///   [`queries_of_tile`]; those of packed tensors are as [`Segment::coordinates`](crate::attention::Segment::coordinates) has it.
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
    const { assert!(M * D == ELEMENTS && 64 * BOXES == D && 8 * E == D && 16 * F == M) };
    // SAFETY: all lanes of each warp are here.
    let (group, thread) = (unsafe { warpgroup_of_warp() }, thread_in_warpgroup());
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<BOXES, M>::new() };
    let tile = Tile::new::<M>(problem, operands.batches, score.0, thread::block_idx_x());
    // SAFETY: each branch is one of whole warpgroups. 24 and twice 240 registers are the block's 168 each at entry.
    unsafe {
        if group == 0 {
            lower_registers::<24>();
            let warp = thread / 32;
            if warp < STAGES {
                let stage = warp as u32;
                sums::add::<T, BOXES, M>(block, problem, &tile, operands, score.0, stage);
            } else if warp == STAGES {
                produce::all(block, maps, problem, &tile, operands);
            }
        } else {
            raise_registers::<240>();
            let own = group - 1;
            consume::all::<T, C, D, BOXES, E, M, F>(block, problem, &tile, operands, score, own);
        }
    }
    // Where the paths of both kinds of warps do not meet, the assembler has the multiplications wait for each other.
    thread::sync_threads();
}

/// The dynamic shared memory of a block.
#[derive(Clone, Copy)]
struct Block<const BOXES: usize, const M: usize> {
    /// Keys, and then values.
    keys: TilePipeline<KeyTile<KEYS, BOXES>, 2>,
    queries: TilePipeline<KeyTile<M, BOXES>, STAGES>,
    /// Gradients of the results.
    results: TilePipeline<KeyTile<M, BOXES>, STAGES>,
    scores: *mut u8,
    sums: *mut f32,
    numbers: *mut f32,
}

impl<const BOXES: usize, const M: usize> Block<BOXES, M> {
    /// # Safety
    /// All threads of the block call this together; the launch gives [`shared_bytes`], and nothing else uses them.
    #[gpu_only]
    #[inline(always)]
    unsafe fn new() -> Self {
        let keys = DynamicSharedArray::<u8, 1024>::get();
        let queries = keys.wrapping_add(2 * size_of::<KeyTile<KEYS, BOXES>>());
        let results = queries.wrapping_add(STAGES * size_of::<KeyTile<M, BOXES>>());
        let scores = results.wrapping_add(STAGES * size_of::<KeyTile<M, BOXES>>());
        let sums = scores.wrapping_add(STAGES * M * KEYS * 2);
        let numbers = sums.wrapping_add(STAGES * ELEMENTS * 4);
        let barriers = numbers.wrapping_add(STAGES * M * 2 * 4);
        // SAFETY: the caller's promise; one warp fills a stage, and one thread of each consumer releases it.
        unsafe {
            let barriers = |at: usize| {
                let first = barriers.wrapping_add(at * 2 * STAGES * 8);
                SharedArray::<u64, { 2 * STAGES }>::from_raw(first.cast())
            };
            let keys = SharedArray::<KeyTile<KEYS, BOXES>, 2>::from_raw(keys.cast());
            let queries = SharedArray::<KeyTile<M, BOXES>, STAGES>::from_raw(queries.cast());
            let results = SharedArray::<KeyTile<M, BOXES>, STAGES>::from_raw(results.cast());
            Self {
                keys: TilePipeline::new(keys, barriers(0), 2),
                queries: TilePipeline::new(queries, barriers(1), 2),
                results: TilePipeline::new(results, barriers(2), 2),
                scores,
                sums: sums.cast(),
                numbers: numbers.cast(),
            }
        }
    }

    /// The logarithms of the queries of a tile, and after these `M` the sums `delta`. They come with queries and with gradients of results.
    #[inline(always)]
    fn numbers(&self, at: u32) -> *mut f32 {
        self.numbers.wrapping_add(at as usize % STAGES * 2 * M)
    }

    /// The gradients of scores of a tile, `[2, queries, 64 keys]`, each half as a swizzled tile.
    #[inline(always)]
    fn scores(&self, at: u32) -> *mut u8 {
        self.scores.wrapping_add(at as usize % STAGES * M * KEYS * 2)
    }

    /// A consumer's half of the sums of a tile: the fours of sums of its threads, thread after thread.
    #[inline(always)]
    fn sums(&self, at: u32, own: usize) -> *mut f32 {
        self.sums.wrapping_add((at as usize % STAGES * 2 + own) * ELEMENTS / 2)
    }
}

/// Barriers of the block. Those before them are of the block and of the warpgroups.
mod barriers {
    /// Both consumers have written gradients of scores.
    pub const SCORES: u32 = 4;
    /// A consumer has written its sums. There is one for each consumer of each stage.
    pub const FULL: u32 = 5;
    /// A consumer's sums have been read. There is one for each consumer of each stage.
    pub const FREE: u32 = 9;
    /// Threads that meet at each of these: a consumer and a warp that adds.
    pub const OF_SUMS: u32 = 128 + 32;
}
