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

/// Lanes of a warp, which takes a row, and adds as many neighbouring columns at a time.
const LANES: usize = 32;
/// Columns of a lane, [`LANES`] apart.
const COLUMNS: usize = 4;
/// Rows that a warp combines side by side, so that it waits for both at once.
const ROWS: usize = 2;
/// Splits of each row that are loaded before the first one is added. It divides the lanes.
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
            let apart = (writers.threads / LANES) as u32;
            let mut row = work.row + of_first_lane(warp);
            while row < end {
                self.combine_rows(work, build(|i| row + i as u32 * apart), end, lane);
                row += ROWS as u32 * apart;
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

    /// Combines the splits of rows, of which the first one is inside, and others are if they are below `end`.
    ///
    /// # Safety
    /// All lanes of a warp call this together; the splits are visible to them, and nothing else writes the rows.
    #[gpu_only]
    #[inline(always)]
    unsafe fn combine_rows(&self, work: &Work, rows: [u32; ROWS], end: u32, lane: usize) {
        // In place of a row that is not inside, the first one is combined once more, and not written.
        let places: [_; ROWS] =
            build(|r| self.place(work, if rows[r] < end { rows[r] } else { rows[0] }));
        let parts: [RowParts; ROWS] = build(|r| self.parts(places[r].1));
        let depth = parts[0].depth;
        let mut first = 0;
        // SAFETY: the caller's promise.
        unsafe {
            while first < depth {
                let combined = Combined::of(&parts, (first, lane));
                each::<ROWS>(|r| {
                    let (place, index) = places[r];
                    let Combined { max, sum, values } = combined[r];
                    let inverse = if sum == 0.0 { 0.0 } else { 1.0 / sum };
                    let to = self.results(work, place);
                    each::<COLUMNS>(|c| {
                        let column = first + c * LANES + lane;
                        if rows[r] < end && column < depth {
                            to.add(column).write(T::narrow(values[c] * inverse));
                        }
                    });
                    if rows[r] < end && first + lane == 0 && !self.lse.is_null() {
                        let lse = if sum == 0.0 { f32::NEG_INFINITY } else { max + logf(sum) };
                        self.lse.add(index).write(lse);
                    }
                });
                first += COLUMNS * LANES;
            }
        }
    }
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

    /// The largest logarithm of the splits, of which the first [`LANES`] are each lane's `own`.
    ///
    /// # Safety
    /// All lanes of a warp call this together; the splits are visible to them.
    #[gpu_only]
    #[inline(always)]
    unsafe fn max(&self, own: f32, lane: usize) -> f32 {
        let (mut max, mut first) = (own, LANES);
        // SAFETY: the caller's promise.
        unsafe {
            while first < self.splits {
                max = max.max(self.load_lse(first + lane));
                first += LANES;
            }
            each::<5>(|step| max = max.max(warp_shuffle_xor(!0, max, 1 << step, 32).0));
        }
        max
    }

    /// Columns of [`LOADED`] splits from `split` on; 0 of splits that there are not.
    ///
    /// # Safety
    /// The splits are visible to this thread, and the columns are inside.
    #[gpu_only]
    #[inline(always)]
    unsafe fn load(&self, split: usize, columns: [usize; COLUMNS]) -> [[f32; COLUMNS]; LOADED] {
        build(|k| {
            if split + k >= self.splits {
                return [0.0; COLUMNS];
            }
            // SAFETY: the caller's promise.
            build(|c| unsafe { load(&*self.result(split + k).add(columns[c]), LoadHint::L2) })
        })
    }
}

/// The weighted sum of the splits of a row.
#[derive(Clone, Copy)]
struct Combined {
    /// The largest logarithm of the splits.
    max: f32,
    /// The weights of the splits, relative to it, added in order.
    sum: f32,
    /// The results of the splits times their weights, added in order, in this lane's columns.
    values: [f32; COLUMNS],
}

impl Combined {
    /// Adds the splits of each row, in the columns `first + lane` and those that are [`LANES`] apart from it. What does not depend on another load is loaded
    /// before anything is added.
    ///
    /// # Safety
    /// As [`RowParts::max`]; all rows have as many splits.
    #[gpu_only]
    #[inline(always)]
    unsafe fn of(parts: &[RowParts; ROWS], (first, lane): (usize, usize)) -> [Self; ROWS] {
        let RowParts { depth, splits, .. } = parts[0];
        // A column that there is not is loaded from the last one's address, and not written.
        let columns = build(|c| (first + c * LANES + lane).min(depth.saturating_sub(1)));
        let mut split = 0;
        // SAFETY: the caller's promise.
        unsafe {
            let mut own: [f32; ROWS] = build(|r| parts[r].load_lse(lane));
            let mut loaded: [_; ROWS] = build(|r| parts[r].load(0, columns));
            let mut all: [Self; ROWS] = build(|r| Self {
                max: parts[r].max(own[r], lane),
                sum: 0.0,
                values: [0.0; COLUMNS],
            });
            while split < splits {
                // Each lane has the weight of one split. That of a split that there is not is 0.
                let weights: [f32; ROWS] = build(|r| {
                    if own[r] == f32::NEG_INFINITY { 0.0 } else { fast_expf(own[r] - all[r].max) }
                });
                let mut of_lane = 0;
                while of_lane < LANES && split + of_lane < splits {
                    each::<ROWS>(|r| all[r].add(weights[r], of_lane, &loaded[r]));
                    of_lane += LOADED;
                    loaded = build(|r| parts[r].load(split + of_lane, columns));
                }
                split += LANES;
                own = build(|r| parts[r].load_lse(split + lane));
            }
            all
        }
    }

    /// Adds splits, whose weights the lanes from `of_lane` on have.
    ///
    /// # Safety
    /// All lanes of a warp call this together.
    #[gpu_only]
    #[inline(always)]
    unsafe fn add(&mut self, weight: f32, of_lane: usize, loaded: &[[f32; COLUMNS]; LOADED]) {
        each::<LOADED>(|k| {
            // SAFETY: the caller's promise.
            let weight = unsafe { warp_shuffle_idx(!0, weight, (of_lane + k) as u32, 32).0 };
            self.sum += weight;
            each::<COLUMNS>(|c| {
                self.values[c] = weight.mul_add(loaded[k][c], self.values[c]);
            });
        });
    }
}
