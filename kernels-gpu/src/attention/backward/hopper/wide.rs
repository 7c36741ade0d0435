//! Rows of more than 128 elements, of whose gradients the registers of a consumer hold 64 rows of one tensor.
//!
//! Both consumers have the same 64 keys. Each computes scores of all of these and half of the queries. Weights and gradients of scores go through shared memory, from where
//! the first consumer multiplies weights and gradients of results, for the gradients of values, and the second one gradients of scores and queries, for those of keys. The
//! gradients of queries, all rows of which a tile of keys adds to, are divided by columns.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BackwardProblem, Operands};
use super::block::Block;
use super::block::barriers::SCORES;
use super::consume::{BOTH, Output};
use super::scores::ThreadScores;
use super::tile::Tile;
use super::{REGISTERS, copy_and_add, rounds, sums};
use crate::attention::Score;
use crate::attention::hopper::consume::multiply_rows;
use crate::attention::hopper::{Half, KeyTile, SPAN, warpgroup_of_warp};
use crate::prelude::*;
use cuda_std::copy::{Tile as Matrix, *};
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;
use cuda_std::unroll::each;

/// Keys of a tile, and queries.
const KEYS: usize = ROWS;
const QUERIES: usize = 64;
/// Queries of which a consumer has scores.
const OWN: usize = QUERIES / 2;
/// Fragments of these.
const FRAGMENTS: usize = OWN / 16;

type Memory<const BOXES: usize> = Block<KEYS, BOXES, QUERIES, 1>;

/// [`add`](super::add()) for rows of at most `D` elements, that is `BOXES` × 64 or `E` × 8.
///
/// # Safety
/// As for [`add`](super::add()).
#[gpu_only]
#[inline(always)]
pub unsafe fn add<T, C, const D: usize, const BOXES: usize, const E: usize>(
    maps: GridConstant<'_, [MapWords; 4]>,
    problem: &BackwardProblem,
    operands: Operands<'_, T>,
    score: (C, f32),
) where
    T: Half,
    C: Score,
    Columns<OWN>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
    Columns<64>: Instruction<T, T, f32>,
{
    const { assert!(64 * BOXES == D && 8 * E == D && rounds(D) == 2) };
    let tile = Tile::new(problem, operands.batches, score.0, thread::block_idx_x());
    // SAFETY: the launch gives the memory; all threads together.
    unsafe {
        let block = Memory::<BOXES>::new();
        match warpgroup_of_warp() {
            0 => copy_and_add(block, maps, problem, &tile, operands, score.0),
            group => {
                raise_registers::<REGISTERS>();
                consume::<T, C, D, BOXES, E>(block, problem, &tile, operands, score, group - 1);
            }
        }
    }
    // As for shorter rows.
    thread::sync_threads();
}

/// Computes the gradients of values (`own` is 0) or of keys (1), and half of the columns of those of the queries.
///
/// # Safety
/// All threads of a consumer call this together, with what the producer and the warps that add go by.
#[gpu_only]
#[inline(always)]
unsafe fn consume<T, C, const D: usize, const BOXES: usize, const E: usize>(
    block: Memory<BOXES>,
    problem: &BackwardProblem,
    tile: &Tile<KEYS, QUERIES>,
    operands: Operands<'_, T>,
    (score, factor): (C, f32),
    own: usize,
) where
    T: Half,
    C: Score,
    Columns<OWN>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
    Columns<64>: Instruction<T, T, f32>,
{
    let thread = thread_in_warpgroup();
    let (row, first) = Accumulator::<f32, D>::position(thread, 0);
    let (key, column) = (tile.index * KEYS as u32 + row as u32, own * OWN + first);
    let scores = ThreadScores { problem, tile, score, factor, key, column };
    let consumer = Consumer { block, scores, own, thread };
    let mut sums = Accumulator::<f32, D>::zeroed();
    // SAFETY: the caller's promise.
    unsafe {
        if tile.len() > 0 {
            consumer.add::<T, D>(&mut sums);
        }
        let to = match own {
            0 => Output::of_values(problem, operands, score),
            _ => Output::of_keys(problem, operands),
        };
        to.write::<D, E>(&sums, (tile.batch.keys, tile.kv_head), (key, first));
    }
}

/// A thread of a consumer. Of its scores, rows are keys and columns are the consumer's queries.
#[derive(Clone, Copy)]
struct Consumer<'a, C, const BOXES: usize> {
    block: Memory<BOXES>,
    scores: ThreadScores<'a, C, KEYS, QUERIES, OWN>,
    /// Which consumer, and which of its threads.
    own: usize,
    thread: usize,
}

impl<C: Score, const BOXES: usize> Consumer<'_, C, BOXES> {
    /// Passes over the tiles of queries.
    ///
    /// The products for the gradients of keys or values, the longest ones, come between those for the gradients of queries: the warp that adds these reads the first columns while
    /// the tensor cores are busy.
    ///
    /// # Safety
    /// As [`consume`]; there is a tile of queries.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<T: Half, const D: usize>(&self, sums: &mut Accumulator<f32, D>)
    where
        Columns<OWN>: Instruction<T, T, f32>,
        Columns<D>: Instruction<T, T, f32>,
        Columns<64>: Instruction<T, T, f32>,
    {
        let Self { block, scores: of_thread, own, thread } = *self;
        let tile = of_thread.tile;
        // SAFETY: the caller's promise. A warp releases a stage when its products with it are done, and its lanes have read the numbers. Scores are written
        // to a stage again after the barrier of a later tile, to which both consumers come when the products with these scores are done.
        unsafe {
            let (mut keys, mut queries, mut results) =
                (block.keys.consumer(), block.queries.consumer(), block.results.consumer());
            let k = keys.wait();
            keys.step();
            let [of_k, of_v] = [k, keys.wait()].map(rows_of);
            let (mut place, mut at) = (tile.first(), 0);
            while at < tile.len() {
                let q = queries.wait();
                let (mut scores, mut gradients) = (Accumulator::zeroed(), Accumulator::zeroed());
                self.multiply_own::<T>(&mut scores, of_k, q);
                let d_o = results.wait();
                self.multiply_own::<T>(&mut gradients, of_v, d_o);
                // All but the gradients.
                scores.wait::<BOXES>();
                let numbers = block.numbers(at).cast_const();
                let slopes = of_thread.weights(&mut scores, numbers, place);
                gradients.wait::<0>();
                let bits = of_thread.kept(place);
                let both = (&mut scores, &mut gradients, &slopes);
                let operands = of_thread.operands::<T, FRAGMENTS>(both, numbers, bits);
                self.store_scores(at, operands);
                // `wgmma` of both consumers reads what these threads stored.
                fence_proxy_async_shared();
                sync_at_barrier(SCORES, BOTH);
                let (mut low, mut high) = (Accumulator::zeroed(), Accumulator::zeroed());
                self.multiply_keys::<T>(&mut low, at, k, 0);
                self.multiply_queries::<T, D>(sums, at, [d_o, q]);
                self.multiply_keys::<T>(&mut high, at, k, 1);
                low.wait::<2>();
                sums::store(block, (own, thread), 2 * at, &low);
                sums.wait::<1>();
                results.release_by_warp(0);
                results.step();
                queries.release_by_warp(0);
                queries.step();
                high.wait::<0>();
                sums::store(block, (own, thread), 2 * at + 1, &high);
                place = tile.after(place);
                at += 1;
            }
        }
    }

    /// Starts to multiply keys and this consumer's queries, or values and gradients of its results: as many groups as there are boxes.
    ///
    /// # Safety
    /// As [`consume`]; the rows are there.
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_own<T: Half>(
        &self,
        products: &mut Accumulator<f32, OWN>,
        keys: Descriptor,
        queries: *const KeyTile<QUERIES, BOXES>,
    ) where
        Columns<OWN>: Instruction<T, T, f32>,
    {
        let queries = queries.cast::<Matrix<[[u8; SPAN]; QUERIES], Swizzle128>>();
        let own = Descriptor::of_rows(queries, self.own * OWN);
        // SAFETY: the caller's promise.
        unsafe { multiply_rows::<T, OWN, BOXES>(products, [keys, own], [KEYS, QUERIES]) };
    }

    /// Stores weights and gradients of scores: rows of queries for each key.
    ///
    /// # Safety
    /// As [`consume`]; no product reads the stage.
    #[gpu_only]
    #[inline(always)]
    unsafe fn store_scores(&self, at: u32, operands: [[[u32; 4]; FRAGMENTS]; 2]) {
        let (warp, lane) = (self.thread / 32, self.thread % 32);
        // Each register of a fragment is a matrix of eight keys by eight queries, of which eight lanes give the rows.
        let (matrix, row) = (lane / 8, lane % 8);
        let (key, eight) = (warp * 16 + matrix % 2 * 8 + row, self.own * (OWN / 8) + matrix / 2);
        let first = self.block.scores(at).wrapping_add(key * SPAN);
        // SAFETY: the caller's promise.
        unsafe {
            each::<2>(|tile| {
                let first = first.wrapping_add(tile * Memory::<BOXES>::TILE_OF_SCORES);
                each::<FRAGMENTS>(|sixteen| {
                    let to = first.wrapping_add(((eight + 2 * sixteen) ^ row) * 16);
                    store_matrices::<4, false>(to, operands[tile][sixteen]);
                });
            });
        }
    }

    /// Starts to multiply gradients of scores and keys, for 64 columns of the gradients of queries: those of the consumer in a round. One group.
    ///
    /// # Safety
    /// As [`consume`]; both consumers have stored their scores.
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_keys<T: Half>(
        &self,
        sums: &mut Accumulator<f32, 64>,
        at: u32,
        keys: *const KeyTile<KEYS, BOXES>,
        round: usize,
    ) where
        Columns<64>: Instruction<T, T, f32>,
    {
        let gradients = self.block.scores(at).wrapping_add(Memory::<BOXES>::TILE_OF_SCORES);
        let a = Descriptor::of_columns(
            gradients.cast_const().cast::<Matrix<[[u16; QUERIES]; KEYS], Swizzle128>>(),
            0,
        );
        // Where the consumer has no columns in the round it multiplies the last ones, since `add` waits by numbers of groups.
        let part = (2 * round + self.own).min(BOXES - 1);
        let keys = keys.cast::<Matrix<[[u16; SPAN / 2]; KEYS], Swizzle128>>();
        let b = Descriptor::of_columns(keys, 0).advanced((part * KEYS * SPAN) as u32);
        // SAFETY: the caller's promise.
        unsafe { sums.multiply_operands::<T, T, 4, true, true>([a, b], false) };
    }

    /// Starts to multiply weights and gradients of results, or gradients of scores and queries. One group.
    ///
    /// # Safety
    /// As [`consume`]; both consumers have stored their scores.
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_queries<T: Half, const D: usize>(
        &self,
        sums: &mut Accumulator<f32, D>,
        at: u32,
        tiles: [*const KeyTile<QUERIES, BOXES>; 2],
    ) where
        Columns<D>: Instruction<T, T, f32>,
    {
        let scores = self.block.scores(at).wrapping_add(self.own * Memory::<BOXES>::TILE_OF_SCORES);
        let a = rows_of::<1>(scores.cast_const().cast());
        let tile = if self.own == 0 { tiles[0] } else { tiles[1] };
        let b = Descriptor::of_columns(
            tile.cast::<Matrix<[[u16; SPAN / 2]; QUERIES], Swizzle128>>(),
            0,
        );
        // SAFETY: the caller's promise.
        unsafe { sums.multiply_operands::<T, T, 4, false, true>([a, b], true) };
    }
}

/// The rows of a tile as a left operand.
#[gpu_only]
#[inline(always)]
fn rows_of<const BOXES: usize>(tile: *const KeyTile<KEYS, BOXES>) -> Descriptor {
    Descriptor::of_rows(tile.cast::<Matrix<[[u8; SPAN]; KEYS], Swizzle128>>(), 0)
}
