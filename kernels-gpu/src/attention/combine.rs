//! The end of rows whose keys are divided among blocks (splits): the block that stores the last split of a tile adds the results of all, each weighted by its
//! sum of exponentials, in the same launch.
//!
//! Blocks count the splits of a tile as they store them, and none waits for another one: the last to count finds all splits stored. (CUDA's sample
//! `threadFenceReduction`.) The splits are added in the order of the keys, whichever block that is, so that results have the same bits in every run.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::Work;
use super::output::{Output, RowParts};
use crate::matmul::Value;
use crate::prelude::*;
use cuda_std::access::{LoadHint, load};
use cuda_std::atomic::{self, Ordering, Scope};
use cuda_std::gpu_only;
use cuda_std::intrinsics::{fast_expf, logf};
use cuda_std::matrix::sync_at_barrier;
use cuda_std::unroll::{build, each};
use cuda_std::warp::{warp_shuffle_idx, warp_shuffle_xor};

/// Lanes of a warp, which takes a row.
const LANES: usize = 32;
/// Columns of a lane: neighbours, which one instruction loads.
const COLUMNS: usize = 4;
/// Splits of a row that are loaded before the first one is added, and lanes that have their logarithms.
const LOADED: usize = 8;

/// The threads of a block that write the rows of its tiles.
#[derive(Clone, Copy)]
pub struct Writers {
    /// Which of them this thread is.
    pub thread: u32,
    /// How many they are: whole warps.
    pub threads: usize,
    /// The barrier of the block at which they meet.
    pub barrier: u32,
    /// A word of shared memory.
    pub word: *mut u32,
}

impl<T: Value<Pair = u32>> Output<'_, T> {
    /// Ends a tile of `rows` rows. If its keys are divided among blocks, this counts the block's split, and combines all splits in the block that counts the
    /// last one.
    ///
    /// # Safety
    /// - All writers call this together, once for each tile, after they have written its rows by [`row`](Output::row).
    /// - No other thread uses the barrier and the word meanwhile.
    /// - The counters of the tiles are 0 before the launch, whose blocks store all splits of each tile.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn finish(&self, work: &Work, rows: u32, writers: Writers) {
        // SAFETY: the caller's promise.
        unsafe {
            if self.problem.splits <= 1 || !self.is_last(work, writers) {
                return;
            }
            let end = (work.row + rows).min(work.rows(self.problem));
            let (warp, lane) = (writers.thread / LANES as u32, writers.thread as usize % LANES);
            let mut row = work.row + of_first_lane(warp);
            while row < end {
                self.combine_row(work, row, lane);
                row += (writers.threads / LANES) as u32;
            }
        }
    }

    /// Counts this block's split of a tile, and returns to all writers whether it is the last one, so that all splits are visible to them.
    ///
    /// # Safety
    /// As [`finish`](Self::finish).
    #[gpu_only]
    #[inline(always)]
    unsafe fn is_last(&self, work: &Work, writers: Writers) -> bool {
        let Writers { thread, threads, barrier, word } = writers;
        // SAFETY: the caller's promise.
        unsafe {
            // All writers have stored their rows when the first one counts, and have read the word of the previous tile.
            sync_at_barrier(barrier, threads as u32);
            if thread == 0 {
                let counter = self.counters.add(work.tile as usize);
                // Release: the split is visible before the count is. Acquire: the last block sees all splits.
                let before = atomic::fetch_add(counter, 1, Ordering::AcqRel, Scope::Device);
                let is_last = before + 1 == self.problem.splits;
                if is_last {
                    // No other block counts this tile: the next launch finds 0 again.
                    atomic::store(counter, 0, Ordering::Relaxed, Scope::Device);
                }
                word.write(u32::from(is_last));
            }
            // The word is written before it is read, and the splits that the first thread acquired are visible to all.
            sync_at_barrier(barrier, threads as u32);
            of_first_lane(word.read()) != 0
        }
    }

    /// Combines the splits of a row.
    ///
    /// # Safety
    /// All lanes of a warp call this together; the splits are visible to them, and nothing else writes the row.
    #[gpu_only]
    #[inline(always)]
    unsafe fn combine_row(&self, work: &Work, row: u32, lane: usize) {
        let (place, index) = self.place(work, row);
        let (to, parts) = (self.results(work, place), self.parts(index));
        let mut first = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while first < parts.depth {
                let column = first + lane * COLUMNS;
                self.write((to, index), parts.depth, column, parts.combine(column, lane));
                first += COLUMNS * LANES;
            }
        }
    }

    /// Writes a lane's columns of a row, from `first` on, and the first lane the logarithm.
    ///
    /// # Safety
    /// As [`combine_row`](Self::combine_row).
    #[gpu_only]
    #[inline(always)]
    unsafe fn write(
        &self,
        (to, index): (*mut T, usize),
        depth: usize,
        first: usize,
        Combined { max, sum, values }: Combined,
    ) {
        let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
        // SAFETY: the caller's promise.
        unsafe {
            each::<COLUMNS>(|c| {
                if first + c < depth {
                    to.add(first + c).write(T::narrow(values[c] * inverse));
                }
            });
            if first == 0 && !self.lse.is_null() {
                let lse = if sum == 0.0 { f32::NEG_INFINITY } else { max + logf(sum) };
                self.lse.add(index).write(lse);
            }
        }
    }
}

/// What a lane has of a row: the largest logarithm of the splits, and relative to it the sum of their weights, and the weighted sums of their results in the lane's columns.
#[derive(Clone, Copy)]
struct Combined {
    max: f32,
    sum: f32,
    values: [f32; COLUMNS],
}

/// A number that all lanes of a warp have, of which the assembler sees that they do: a branch on it does not divide the warp, so that the assembler keeps what later
/// code computes for the whole warp in uniform registers.
///
/// # Safety
/// All lanes of the warp call this together.
#[gpu_only]
#[inline(always)]
unsafe fn of_first_lane(number: u32) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { warp_shuffle_idx(!0, number, 0, 32).0 }
}

impl RowParts {
    /// Adds the splits in a lane's columns, from `first` on, in the order of the splits: [`LOADED`] at a time, which are on their way
    /// before their logarithms are needed. As in the online softmax, earlier sums are multiplied where the largest logarithm grows.
    ///
    /// # Safety
    /// All lanes of a warp call this together; the splits are visible to them.
    #[gpu_only]
    #[inline(always)]
    unsafe fn combine(&self, first: usize, lane: usize) -> Combined {
        let &Self { depth, splits, .. } = self;
        // Lanes past the end load what the first one does, and write nothing.
        let first = if first < depth { first } else { 0 };
        let (mut max, mut sum, mut values) = (f32::NEG_INFINITY, 0.0, [0.0; COLUMNS]);
        let mut split = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while split < splits {
                let loaded: [[f32; COLUMNS]; LOADED] = build(|k| self.load(split + k, first));
                let lse = self.load_lse(split + lane % LOADED);
                let before = max;
                max = max.max(lse);
                each::<3>(|step| max = max.max(warp_shuffle_xor(!0, max, 1 << step, 32).0));
                let weight =
                    |lse| if lse == f32::NEG_INFINITY { 0.0 } else { fast_expf(lse - max) };
                let (factor, weight) = (weight(before), weight(lse));
                sum *= factor;
                each::<COLUMNS>(|c| values[c] *= factor);
                each::<LOADED>(|k| {
                    let weight = warp_shuffle_idx(!0, weight, k as u32, 32).0;
                    sum += weight;
                    each::<COLUMNS>(|c| values[c] = weight.mul_add(loaded[k][c], values[c]));
                });
                split += LOADED;
            }
        }
        Combined { max, sum, values }
    }

    /// The result of a split in the columns from `first` on, a multiple of [`COLUMNS`]; 0 past the last split.
    ///
    /// # Safety
    /// The splits are visible to this thread.
    #[gpu_only]
    #[inline(always)]
    unsafe fn load(&self, split: usize, first: usize) -> [f32; COLUMNS] {
        if split >= self.splits {
            return [0.0; COLUMNS];
        }
        // SAFETY: the caller's promise; results are aligned to four elements.
        let four = unsafe { &*self.result(split).add(first).cast::<Vec4<f32>>() };
        load(four, LoadHint::L2).to_array()
    }

    /// The logarithm of a split; minus infinity past the last one.
    ///
    /// # Safety
    /// The splits are visible to this thread.
    #[gpu_only]
    #[inline(always)]
    unsafe fn load_lse(&self, split: usize) -> f32 {
        if split >= self.splits {
            return f32::NEG_INFINITY;
        }
        // SAFETY: the caller's promise.
        unsafe { load(&*self.lse(split), LoadHint::L2) }
    }
}
