//! The shared memory of a block, and its barriers.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::{ELEMENTS, MOST_OF_OWN_KEYS, STAGES, keys_of_tile, queries_of_tile};
use crate::attention::hopper::KeyTile;
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::matrix::WARPGROUP;

/// Dynamic shared memory of a block, in bytes: keys and values; of each stage queries, gradients of results, tiles of scores, sums, and two numbers of each query; and barriers.
#[must_use]
pub const fn shared_bytes(depth: usize) -> usize {
    let (keys, queries) = (keys_of_tile(depth), queries_of_tile(depth));
    let rows = 2 * keys + (STAGES + stages_of_results(depth)) * queries;
    let scores = STAGES * tiles_of_scores(depth) * queries * keys * 2;
    let sums = stages_of_sums(depth) * ELEMENTS * 4;
    rows * depth * 2 + scores + sums + STAGES * queries * 2 * 4 + 3 * 2 * STAGES * 8
}

/// Stages of gradients of results.
const fn stages_of_results(depth: usize) -> usize {
    if depth <= MOST_OF_OWN_KEYS { STAGES } else { 1 }
}

/// Stages of sums, each of which has a warp that adds them.
const fn stages_of_sums(depth: usize) -> usize {
    if depth <= MOST_OF_OWN_KEYS { 2 } else { 1 }
}

/// Tiles of queries by keys in a stage: gradients of scores, and weights before them where these do not stay in registers.
const fn tiles_of_scores(depth: usize) -> usize {
    if depth <= MOST_OF_OWN_KEYS { 1 } else { 2 }
}

/// Warps of both consumers.
const WARPS: u32 = 2 * WARPGROUP as u32 / 32;

/// The dynamic shared memory of a block, for `KEYS` keys and `M` queries of a tile, rows of `BOXES` × 64 elements, and `O` stages of gradients of results.
#[derive(Clone, Copy)]
pub(super) struct Block<const KEYS: usize, const BOXES: usize, const M: usize, const O: usize> {
    /// Keys, and then values.
    pub keys: TilePipeline<KeyTile<KEYS, BOXES>, 2>,
    pub queries: TilePipeline<KeyTile<M, BOXES>, STAGES>,
    /// Gradients of the results.
    pub results: TilePipeline<KeyTile<M, BOXES>, O>,
    scores: *mut u8,
    sums: *mut f32,
    numbers: *mut f32,
}

impl<const KEYS: usize, const BOXES: usize, const M: usize, const O: usize>
    Block<KEYS, BOXES, M, O>
{
    /// Bytes of a tile of scores.
    pub const TILE_OF_SCORES: usize = M * KEYS * 2;
    /// Bytes of a stage of these.
    const STAGE_OF_SCORES: usize = tiles_of_scores(64 * BOXES) * Self::TILE_OF_SCORES;

    /// # Safety
    /// All threads of the block call this together; the launch gives [`shared_bytes`], and nothing else uses them.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new() -> Self {
        const {
            let depth = 64 * BOXES;
            assert!(KEYS == keys_of_tile(depth) && M == queries_of_tile(depth));
            assert!(O == stages_of_results(depth));
        }
        let keys = DynamicSharedArray::<u8, 1024>::get();
        let queries = keys.wrapping_add(2 * size_of::<KeyTile<KEYS, BOXES>>());
        let results = queries.wrapping_add(STAGES * size_of::<KeyTile<M, BOXES>>());
        let scores = results.wrapping_add(O * size_of::<KeyTile<M, BOXES>>());
        let sums = scores.wrapping_add(STAGES * Self::STAGE_OF_SCORES);
        let numbers = sums.wrapping_add(stages_of_sums(64 * BOXES) * ELEMENTS * 4);
        let barriers = numbers.wrapping_add(STAGES * M * 2 * 4);
        // SAFETY: the caller's promise; one warp fills a stage, and a lane of each of the consumers' warps releases it.
        unsafe {
            let barriers = |at: usize| {
                let first = barriers.wrapping_add(at * 2 * STAGES * 8);
                SharedArray::<u64, { 2 * STAGES }>::from_raw(first.cast())
            };
            let keys = SharedArray::<KeyTile<KEYS, BOXES>, 2>::from_raw(keys.cast());
            let queries = SharedArray::<KeyTile<M, BOXES>, STAGES>::from_raw(queries.cast());
            let results = SharedArray::<KeyTile<M, BOXES>, O>::from_raw(results.cast());
            Self {
                keys: TilePipeline::new(keys, barriers(0), 2),
                queries: TilePipeline::new(queries, barriers(1), WARPS),
                results: TilePipeline::new(results, barriers(2), WARPS),
                scores,
                sums: sums.cast(),
                numbers: numbers.cast(),
            }
        }
    }

    /// Stages of sums.
    #[inline(always)]
    pub const fn stages_of_sums(&self) -> usize {
        stages_of_sums(64 * BOXES)
    }

    /// Whether a consumer has sums to give in a round. Longer rows have the columns of their boxes in rounds of two; with an odd number of boxes, the last is the first consumer's.
    #[inline(always)]
    pub const fn gives(&self, round: usize, consumer: usize) -> bool {
        64 * BOXES <= MOST_OF_OWN_KEYS || 2 * round + consumer < BOXES
    }

    /// The logarithms of the queries of a tile, and after these `M` the sums `delta`. They come with queries and with gradients of results.
    #[inline(always)]
    pub fn numbers(&self, at: u32) -> *mut f32 {
        self.numbers.wrapping_add(at as usize % STAGES * 2 * M)
    }

    /// The tiles of scores of a tile of queries, swizzled in spans of 128 bytes.
    #[inline(always)]
    pub fn scores(&self, at: u32) -> *mut u8 {
        self.scores.wrapping_add(at as usize % STAGES * Self::STAGE_OF_SCORES)
    }

    /// A consumer's sums of a stage: the fours of sums of its threads, thread after thread.
    #[inline(always)]
    pub fn sums(&self, stage: u32, own: usize) -> *mut f32 {
        self.sums.wrapping_add((stage as usize * 2 + own) * ELEMENTS / 2)
    }
}

/// Barriers of the block. Those before them are of the block and of the warpgroups.
pub(super) mod barriers {
    /// Both consumers have written tiles of scores.
    pub const SCORES: u32 = 4;
    /// A consumer has written its sums. There is one for each consumer of each stage.
    pub const FULL: u32 = 5;
    /// A consumer's sums have been read. There is one for each consumer of each stage.
    pub const FREE: u32 = 9;
    /// Threads that meet at each of these: a consumer and a warp that adds.
    pub const OF_SUMS: u32 = 128 + 32;
}
