//! The consumers: two warpgroups, each of which has 64 keys of a tile.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::{BackwardProblem, Operands};
use super::block::Block;
use super::block::barriers::SCORES;
use super::scores::ThreadScores;
use super::tile::Tile;
use super::{STAGES, sums};
use crate::attention::hopper::consume::{multiply_keys, multiply_values};
use crate::attention::hopper::{Half, KeyTile, SPAN};
use crate::attention::output::OutputRow;
use crate::attention::{Problem, RowStrides, Score, Segment, factor_of_kept};
use crate::prelude::*;
use cuda_std::copy::{Tile as Matrix, *};
use cuda_std::matrix::*;
use cuda_std::{gpu_only, unrolled};

/// Keys of a tile: 64 of each consumer.
const KEYS: usize = 2 * ROWS;
/// Threads of both consumers.
pub(super) const BOTH: u32 = 2 * WARPGROUP as u32;

/// Computes the gradients of this consumer's keys and values, and its share of those of the queries.
///
/// # Safety
/// All threads of a consumer call this together, with what the producer and the warps that add go by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const M: usize,
    const F: usize,
>(
    block: Block<KEYS, BOXES, M, STAGES>,
    problem: &BackwardProblem,
    tile: &Tile<KEYS, M>,
    operands: Operands<'_, T>,
    (score, factor): (C, f32),
    own: usize,
) where
    T: Half,
    C: Score,
    Columns<M>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
    Columns<64>: Instruction<T, T, f32>,
{
    let thread = thread_in_warpgroup();
    let (row, column) = Accumulator::<f32, D>::position(thread, 0);
    let key = tile.index * KEYS as u32 + (own * ROWS + row) as u32;
    let scores = ThreadScores { problem, tile, score, factor, key, column };
    let consumer = Consumer { block, scores, own, thread };
    let (mut d_k, mut d_v) = (Accumulator::<f32, D>::zeroed(), Accumulator::<f32, D>::zeroed());
    // SAFETY: the caller's promise.
    unsafe {
        if tile.len() > 0 {
            consumer.add::<T, D, F>(&mut d_k, &mut d_v);
        }
        let rows = (tile.batch.keys, tile.kv_head);
        Output::of_keys(problem, operands).write::<D, E>(&d_k, rows, (key, column));
        Output::of_values(problem, operands, score).write::<D, E>(&d_v, rows, (key, column));
    }
}

/// A thread of a consumer. Of its scores, rows are the consumer's keys and columns are queries.
#[derive(Clone, Copy)]
struct Consumer<'a, C, const BOXES: usize, const M: usize> {
    block: Block<KEYS, BOXES, M, STAGES>,
    scores: ThreadScores<'a, C, KEYS, M, M>,
    /// Which consumer, and which of its threads.
    own: usize,
    thread: usize,
}

impl<C: Score, const BOXES: usize, const M: usize> Consumer<'_, C, BOXES, M> {
    /// Passes over the tiles of queries.
    ///
    /// The products that need all keys come after those of the values, during which the consumers wait for each other, and before those of the keys, during which their sums
    /// are stored.
    ///
    /// # Safety
    /// As [`all`]; there is a tile of queries.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<T: Half, const D: usize, const F: usize>(
        &self,
        d_k: &mut Accumulator<f32, D>,
        d_v: &mut Accumulator<f32, D>,
    ) where
        Columns<M>: Instruction<T, T, f32>,
        Columns<D>: Instruction<T, T, f32>,
        Columns<64>: Instruction<T, T, f32>,
    {
        let Self { block, scores: of_thread, .. } = *self;
        let tile = of_thread.tile;
        // SAFETY: the caller's promise. A warp releases a stage when its products with it are done, and its lanes have read the numbers.
        unsafe {
            let (mut keys, mut queries, mut results) =
                (block.keys.consumer(), block.queries.consumer(), block.results.consumer());
            let k = keys.wait();
            keys.step();
            let [of_k, of_v] = [k, keys.wait()].map(|tile| self.rows_of(tile));
            let (mut place, mut at) = (tile.first(), 0);
            while at < tile.len() {
                let q = queries.wait();
                let mut scores = Accumulator::<f32, M>::zeroed();
                multiply_keys::<T, KEYS, M, BOXES>(&mut scores, of_k, q);
                let d_o = results.wait();
                let mut gradients = Accumulator::<f32, M>::zeroed();
                multiply_keys::<T, KEYS, M, BOXES>(&mut gradients, of_v, d_o);
                // All but the gradients.
                match BOXES {
                    1 => scores.wait::<1>(),
                    _ => scores.wait::<2>(),
                }
                let numbers = block.numbers(at).cast_const();
                let slopes = of_thread.weights(&mut scores, numbers, place);
                gradients.wait::<0>();
                let bits = of_thread.kept(place);
                let both = (&mut scores, &mut gradients, &slopes);
                let [weights, gradients] = of_thread.operands::<T, F>(both, numbers, bits);
                self.store_gradients::<F>(at, gradients);
                multiply_values::<T, M, BOXES, D, F>(d_v, weights, d_o, true);
                // `wgmma` of both consumers reads what these threads stored.
                fence_proxy_async_shared();
                sync_at_barrier(SCORES, BOTH);
                let mut sums = Accumulator::<f32, 64>::zeroed();
                self.multiply_gradients::<T>(&mut sums, at, k);
                multiply_values::<T, M, BOXES, D, F>(d_k, gradients, q, true);
                sums.wait::<1>();
                results.release_by_warp(0);
                results.step();
                sums::store(block, (self.own, self.thread), at, &sums);
                d_k.wait::<0>();
                d_v.wait::<0>();
                queries.release_by_warp(0);
                queries.step();
                place = tile.after(place);
                at += 1;
            }
        }
    }

    /// This consumer's rows of keys or values.
    #[gpu_only]
    #[inline(always)]
    fn rows_of(&self, tile: *const KeyTile<KEYS, BOXES>) -> Descriptor {
        Descriptor::of_rows(tile.cast::<Matrix<[[u8; SPAN]; KEYS], Swizzle128>>(), self.own * ROWS)
    }

    /// Stores gradients of scores, transposed: rows of keys for each query.
    ///
    /// # Safety
    /// As [`all`]; no product reads the stage.
    #[gpu_only]
    #[inline(always)]
    unsafe fn store_gradients<const F: usize>(&self, at: u32, gradients: [[u32; 4]; F]) {
        let lane = self.thread % 32;
        // Each register of a fragment is a matrix of eight keys by eight queries, of which eight lanes give the rows.
        let (matrix, row) = (lane / 8, lane % 8);
        let (query, eight) = (matrix / 2 * 8 + row, self.thread / 32 * 2 + matrix % 2);
        let offset = (self.own * M + query) * SPAN + (eight ^ row) * 16;
        let first = self.block.scores(at).wrapping_add(offset);
        // SAFETY: the caller's promise.
        unsafe {
            unrolled!(F, |sixteen| store_matrices::<4, true>(
                first.wrapping_add(16 * sixteen * SPAN),
                gradients[sixteen]
            ));
        }
    }

    /// Starts to multiply gradients of scores and keys: two groups. Of rows of 128 elements a consumer has half of the columns, else half of the rows.
    ///
    /// # Safety
    /// As [`all`]; both consumers have stored their gradients.
    #[gpu_only]
    #[inline(always)]
    unsafe fn multiply_gradients<T: Half>(
        &self,
        sums: &mut Accumulator<f32, 64>,
        at: u32,
        keys: *const KeyTile<KEYS, BOXES>,
    ) where
        Columns<64>: Instruction<T, T, f32>,
    {
        let (row, part) = if BOXES == 1 { (self.own * ROWS, 0) } else { (0, self.own) };
        let gradients = self.block.scores(at).cast_const();
        let a = Descriptor::of_rows(gradients.cast::<Matrix<[[u8; SPAN]; M], Swizzle128>>(), row);
        let keys = keys.cast::<Matrix<[[u16; SPAN / 2]; KEYS], Swizzle128>>();
        let b = Descriptor::of_columns(keys, 0).advanced((part * KEYS * SPAN) as u32);
        unrolled!(2, |half| {
            let a = a.advanced((half * M * SPAN) as u32);
            let b = b.advanced((half * ROWS * SPAN) as u32);
            // SAFETY: the caller's promise.
            unsafe { sums.multiply_operands::<T, T, 4, false, true>([a, b], half > 0) };
        });
    }
}

/// Where gradients of keys or of values go.
pub(super) struct Output<T> {
    to: *mut T,
    strides: RowStrides,
    /// Elements of a row.
    depth: u32,
    /// Factor of the sums.
    factor: f32,
}

impl<T: Half> Output<T> {
    /// Of keys.
    #[inline(always)]
    pub fn of_keys(problem: &BackwardProblem, operands: Operands<'_, T>) -> Self {
        let Problem { depth, scale, .. } = problem.forward;
        Self { to: operands.d_k, strides: problem.d_k, depth, factor: scale }
    }

    /// Of values.
    #[inline(always)]
    pub fn of_values(
        problem: &BackwardProblem,
        operands: Operands<'_, T>,
        score: impl Score,
    ) -> Self {
        let (depth, factor) = (problem.forward.value_depth, factor_of_kept(score));
        Self { to: operands.d_v, strides: problem.d_v, depth, factor }
    }

    /// Writes a thread's sums, from `key` and `column` on: two rows, eight apart, those of them that are inside.
    ///
    /// # Safety
    /// The rows are those of the tensor and the head; each is four lanes', each of which writes columns of its own.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn write<const D: usize, const EIGHTS: usize>(
        &self,
        sums: &Accumulator<f32, D>,
        (rows, head): (Segment, u32),
        (key, column): (u32, usize),
    ) where
        Columns<D>: Width<f32>,
    {
        unrolled!(2, |below| {
            let key = key + 8 * below as u32;
            if key < rows.len {
                // SAFETY: the caller's promise.
                unsafe {
                    let to = self.to.add(rows.index(self.strides, head, key));
                    OutputRow::new(to, self.factor, self.depth as usize)
                        .write::<EIGHTS>(column, |eight| sums.pair(4 * eight + 2 * below));
                }
            }
        });
    }
}
