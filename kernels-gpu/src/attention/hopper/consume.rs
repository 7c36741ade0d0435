//! The consumers: two or three warpgroups, each of which takes 64 rows of a tile.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::combine::Writers;
use super::super::dropout;
use super::super::output::Output;
use super::super::scores::{First, left_operands, mask, unmerged};
use super::super::softmax::Rows;
use super::super::{Batches, Problem, Schedule, Score, Work};
use super::queue::{Next, Queue};
use super::{Block, Half, KeyTile, QueryTile, SPAN};
use crate::prelude::*;
use bytemuck::Zeroable;
use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::{gpu_only, unrolled};

/// The barrier at which the first consumer waits for its turn; those of the others are the next ones. Before them are those of the block and of the
/// warpgroups.
pub(in crate::attention) const TURNS: u32 = 4;
/// Threads that meet at one of these: those of the consumer whose turn ends, and of the next one.
pub(in crate::attention) const BOTH: u32 = 2 * WARPGROUP as u32;
/// The barrier at which all consumers meet, when they have written their rows of a tile.
const PARTS: u32 = TURNS + MOST_CONSUMERS;
/// Consumers of a block at most.
const MOST_CONSUMERS: u32 = 3;

/// Computes this consumer's rows of the tiles of this block.
///
/// # Safety
/// All threads of a consumer call this together, with what the producer goes by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<
    T,
    C,
    const D: usize,
    const BOXES: usize,
    const E: usize,
    const N: usize,
    const F: usize,
    const S: usize,
    const R: usize,
>(
    block: Block<R, BOXES, N, S>,
    (schedule, problem, batches): (&Schedule, &Problem, Batches<'_>),
    (score, factor): (C, f32),
    output: Output<'_, T>,
    own: usize,
) where
    T: Half,
    C: Score,
    Columns<N>: Instruction<T, T, f32>,
    Columns<D>: Instruction<T, T, f32>,
{
    let thread = thread_in_warpgroup();
    let (row, column) = Accumulator::<f32, D>::position(thread, 0);
    let (len, lists, sizes) = (schedule.len(problem), batches.lists, (R as u32, N as u32));
    // SAFETY: the caller's promise.
    unsafe {
        let mut consumer = Consumer::begin(block, own);
        while consumer.index < len {
            let work = schedule.work(problem, score, consumer.index, sizes, batches);
            let row = work.row + (own * ROWS + row) as u32;
            let own_rows = OwnRows { problem, work: &work, score, lists, factor, own, row, column };
            let (mut rows, mut sums) = (Rows::EMPTY, Accumulator::<f32, D>::zeroed());
            if work.blocks.0 < work.blocks.1 {
                own_rows.add::<T, D, BOXES, N, F, S, R>(&mut consumer.shared, &mut sums, &mut rows);
            }
            let totals = rows.whole_sums();
            // Computed again, so that it takes no registers until here.
            let index = unmerged(consumer.index);
            let work = schedule.work(problem, score, index, sizes, batches);
            write::<T, D, E>(&sums, &output, &work, (row, column), (rows.max, totals));
            output.finish(&work, R as u32, writers::<R>(block.queue));
            consumer.step();
        }
        consumer.end();
    }
}

/// A consumer of a block, and the tile that it is at.
pub(in crate::attention) struct Consumer<
    const R: usize,
    const BOXES: usize,
    const N: usize,
    const S: usize,
> {
    /// What it waits for.
    pub shared: Shared<R, BOXES, N, S>,
    /// The index of the tile.
    pub index: u32,
    next: Next,
    own: usize,
}

impl<const R: usize, const BOXES: usize, const N: usize, const S: usize> Consumer<R, BOXES, N, S> {
    /// At the first tile: consumer `own` of the block, which is the only one in the first turn if it is the first one.
    ///
    /// # Safety
    /// All threads of all consumers call this together, and take the same turns at each tile until they [end](Self::end).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn begin(block: Block<R, BOXES, N, S>, own: usize) -> Self {
        // SAFETY: one thread of each consumer releases a stage; the caller's promise.
        unsafe {
            let shared = (block.queries.consumer(), block.ring.consumer());
            let (index, next) = (thread::block_idx_x(), block.queue.consumer());
            if own == R / ROWS - 1 {
                arrive_at_barrier(TURNS, BOTH);
            }
            Self { shared, index, next, own }
        }
    }

    /// Goes on to the next tile.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn step(&mut self) {
        // SAFETY: the caller's promise.
        self.index = unsafe { self.next.take() };
    }

    /// Takes the last turn, which no consumer waits for.
    ///
    /// # Safety
    /// As [`begin`](Self::begin).
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn end(self) {
        if self.own == 0 {
            // SAFETY: the caller's promise.
            unsafe { sync_at_barrier(TURNS, BOTH) }
        }
    }
}

/// The consumers, as those that write a tile of `R` rows.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) fn writers<const R: usize>(queue: Queue) -> Writers {
    // Nothing that is computed from it is kept in a register while tiles are multiplied.
    let thread = unmerged(thread::index_in_block()) - WARPGROUP as u32;
    Writers { thread, threads: R / ROWS * WARPGROUP, barrier: PARTS, word: queue.word() }
}

/// A consumer's 64 rows of a tile, of which this thread has two.
pub(in crate::attention) struct OwnRows<'a, C> {
    pub problem: &'a Problem,
    pub work: &'a Work,
    pub score: C,
    /// Lists of blocks of keys.
    pub lists: &'a [u32],
    /// Factor of scores in exponents to base 2.
    pub factor: f32,
    /// Which consumer.
    pub own: usize,
    /// The thread's first row of the packed head, and its first column of scores.
    pub row: u32,
    pub column: usize,
}

/// What a consumer waits for: queries, and the ring of keys and values.
pub(in crate::attention) type Shared<
    const R: usize,
    const BOXES: usize,
    const N: usize,
    const S: usize,
> = (TileConsumer<QueryTile<R, BOXES>, 1>, TileConsumer<KeyTile<N, BOXES>, S>);

impl<C: Score> OwnRows<'_, C> {
    /// Multiplies the rows with all of their keys and values.
    ///
    /// # Safety
    /// As [`all`]; there is a block of keys.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add<
        T: Half,
        const D: usize,
        const BOXES: usize,
        const N: usize,
        const F: usize,
        const S: usize,
        const R: usize,
    >(
        &self,
        (queries, ring): &mut Shared<R, BOXES, N, S>,
        sums: &mut Accumulator<f32, D>,
        rows: &mut Rows,
    ) where
        Columns<N>: Instruction<T, T, f32>,
        Columns<D>: Instruction<T, T, f32>,
    {
        let mut scores = Accumulator::<f32, N>::zeroed();
        let (first, mut at) = (self.work.blocks.0, self.work.blocks.1 - 1);
        // SAFETY: the caller's promise. A stage is released when the products with it are done.
        unsafe {
            let q = queries_of(queries.wait(), self.own);
            self.begin_turn();
            multiply_keys::<T, R, N, BOXES>(&mut scores, q, ring.wait());
            self.end_turn::<R>();
            ring.step();
            scores.wait::<0>();
            release(ring, 1);
            self.exponentials::<N>(&mut scores, rows, at);
            let mut weights = self.weights::<T, N, F>(&scores, at);
            let mut has_values = false;
            // ptxas hoists the second wait to the top of its basic block, and so the products with values end before the exponentials begin. With the wait in a
            // block of its own, behind them, rows of 64 elements had 502 instead of 548 TFLOP/s on an H200, and rows of 128 no more than they have: consumers that take
            // turns fill the tensor cores better than one consumer's own products do.
            while at > first {
                at -= 1;
                self.begin_turn();
                multiply_keys::<T, R, N, BOXES>(&mut scores, q, ring.wait());
                ring.step();
                multiply_values::<T, N, BOXES, D, F>(sums, weights, ring.wait(), has_values);
                ring.step();
                self.end_turn::<R>();
                has_values = true;
                scores.wait::<1>();
                release(ring, 2);
                let scales = self.exponentials::<N>(&mut scores, rows, at);
                sums.wait::<0>();
                release(ring, 1);
                sums.map(|index, sum| sum * scales[index / 2 % 2]);
                weights = self.weights::<T, N, F>(&scores, at);
            }
            multiply_values::<T, N, BOXES, D, F>(sums, weights, ring.wait(), has_values);
            (queries.step(), ring.step());
            sums.wait::<0>();
            release(queries, 1);
            release(ring, 1);
        }
    }

    /// Replaces scores by exponentials; see [`Rows::exponentials`].
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    unsafe fn exponentials<const N: usize>(
        &self,
        scores: &mut Accumulator<f32, N>,
        rows: &mut Rows,
        at: u32,
    ) -> [f32; 2]
    where
        Columns<N>: Width<f32>,
    {
        self.mask(scores, at);
        // SAFETY: the caller's promise.
        unsafe { rows.exponentials(scores, self.factor) }
    }

    /// Does with scores what the functor says, where rows do not see all keys of the block.
    #[gpu_only]
    #[inline(always)]
    pub(in crate::attention) fn mask<const N: usize>(
        &self,
        scores: &mut Accumulator<f32, N>,
        at: u32,
    ) where
        Columns<N>: Width<f32>,
    {
        let (block, is_whole) = self.work.block::<C>(self.lists, at);
        if !is_whole {
            let key = block * N as u32 + self.column as u32;
            mask(scores, self.score, self.problem, self.work, First { row: self.row, key });
        }
    }

    /// Exponentials as left operands, 0 where they are dropped.
    #[gpu_only]
    #[inline(always)]
    fn weights<T: Half, const N: usize, const F: usize>(
        &self,
        scores: &Accumulator<f32, N>,
        at: u32,
    ) -> [[u32; 4]; F]
    where
        Columns<N>: Width<f32>,
    {
        let mut weights = left_operands::<T, F>(scores);
        let first = First { row: self.row, key: at * N as u32 + self.column as u32 };
        dropout::drop_operands(&mut weights, self.score, (self.problem, self.work), first);
        weights
    }

    /// Waits until the consumer before this one has started its products.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    pub(in crate::attention) unsafe fn begin_turn(&self) {
        // SAFETY: the caller's promise.
        unsafe { sync_at_barrier(TURNS + self.own as u32, BOTH) }
    }

    /// Lets the next consumer start its products.
    ///
    /// # Safety
    /// As [`all`].
    #[gpu_only]
    #[inline(always)]
    pub(in crate::attention) unsafe fn end_turn<const R: usize>(&self) {
        let next = if self.own == R / ROWS - 1 { 0 } else { self.own + 1 };
        // SAFETY: the caller's promise.
        unsafe { arrive_at_barrier(TURNS + next as u32, BOTH) }
    }
}

/// Says for the whole consumer that a stage may be filled again.
///
/// # Safety
/// As [`TileConsumer::release`]; all threads of the consumer have done with the stage.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn release<T, const S: usize>(
    consumer: &TileConsumer<T, S>,
    behind: usize,
) {
    if thread_in_warpgroup() == 0 {
        // SAFETY: the caller's promise.
        unsafe { consumer.release(behind) }
    }
}

/// A consumer's rows of the first box of queries.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) fn queries_of<const R: usize, const BOXES: usize>(
    tile: *const QueryTile<R, BOXES>,
    own: usize,
) -> Descriptor {
    let tile = tile.cast::<Tile<[[u8; SPAN]; R], Swizzle128>>();
    Descriptor::of_rows(tile, own * ROWS)
}

/// Starts to multiply queries, of tiles of `R` rows, and keys: as many groups as there are boxes.
///
/// # Safety
/// As [`all`]; the keys are there.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn multiply_keys<
    T,
    const R: usize,
    const N: usize,
    const BOXES: usize,
>(
    scores: &mut Accumulator<f32, N>,
    q: Descriptor,
    keys: *const KeyTile<N, BOXES>,
) where
    Columns<N>: Instruction<T, T, f32>,
{
    let k = Descriptor::of_rows(keys.cast::<Tile<[[u8; SPAN]; N], Swizzle128>>(), 0);
    // SAFETY: the caller's promise.
    unsafe { multiply_rows::<T, N, BOXES>(scores, [q, k], [R, N]) };
}

/// Starts to multiply rows and rows, of tiles of so many `rows`: as many groups as there are boxes.
///
/// # Safety
/// As [`all`]; the rows are there.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn multiply_rows<T, const N: usize, const BOXES: usize>(
    products: &mut Accumulator<f32, N>,
    [a, b]: [Descriptor; 2],
    rows: [usize; 2],
) where
    Columns<N>: Instruction<T, T, f32>,
{
    unrolled!(BOXES, |part| {
        let a = a.advanced((part * rows[0] * SPAN) as u32);
        let b = b.advanced((part * rows[1] * SPAN) as u32);
        // SAFETY: the caller's promise.
        unsafe { products.multiply_operands::<T, T, 4, false, false>([a, b], part > 0) };
    });
}

/// Starts to add products of exponentials and values: one group.
///
/// # Safety
/// As [`all`]; the values are there.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn multiply_values<
    T,
    const N: usize,
    const BOXES: usize,
    const D: usize,
    const F: usize,
>(
    sums: &mut Accumulator<f32, D>,
    weights: [[u32; 4]; F],
    values: *const KeyTile<N, BOXES>,
    accumulate: bool,
) where
    Columns<D>: Instruction<T, T, f32>,
{
    let v = Descriptor::of_columns(values.cast::<Tile<[[u16; SPAN / 2]; N], Swizzle128>>(), 0);
    // SAFETY: the caller's promise.
    unsafe { sums.multiply_fragments::<T, T, F, true>(weights, v, accumulate) };
}

/// Writes a thread's columns of its two rows, if these are inside. It has the first row and column, maxima, and sums of exponentials.
///
/// # Safety
/// Each row is four lanes', each of which writes columns of its own.
#[gpu_only]
#[inline(always)]
pub(in crate::attention) unsafe fn write<T: Half, const D: usize, const EIGHTS: usize>(
    sums: &Accumulator<f32, D>,
    output: &Output<'_, T>,
    work: &Work,
    (row, column): (u32, usize),
    (max, totals): ([f32; 2], [f32; 2]),
) where
    Columns<D>: Width<f32>,
{
    const { assert!(EIGHTS * 8 == D) };
    unrolled!(2, |below| {
        let (row, of_row) = (row + 8 * below as u32, (max[below], totals[below]));
        // SAFETY: the caller's promise.
        unsafe {
            if let Some(to) = output.row(work, row, of_row, column == 0) {
                to.write::<EIGHTS>(column, |eight| sums.pair(4 * eight + 2 * below));
            }
        }
    });
}
