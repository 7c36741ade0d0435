//! The scales of blocks, on their way to the sums: each thread loads those of its two rows, and of both blocks of columns of a wide tile, some stages ahead.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports, unused_variables))]

use super::super::Problem;
use super::super::form::WIDE;
use super::super::scaling::{BLOCK, Pointers, ScaleLayout, ScaleLayouts};
use super::Work;
use crate::prelude::*;
use cuda_std::access::{CacheLevel, prefetch};
use cuda_std::gpu_only;
use cuda_std::matrix::*;
use cuda_std::warp::{lane_id, warp_shuffle_idx};

/// Stages ahead of which the scales of rows are brought to the L2 cache. Every stage has others, as they are contiguous along the rows.
const PREFETCHED: u32 = 6;
/// Blocks of columns of a tile.
pub(super) const ACROSS: usize = WIDE / BLOCK;

/// What a thread loads for a stage.
#[derive(Clone, Copy)]
pub(super) struct OfStage {
    /// The scales of its two rows.
    of_rows: [f32; 2],
    /// Those of the blocks of columns.
    of_columns: [f32; ACROSS],
}

impl OfStage {
    /// By which the sums in a block of columns are multiplied, in each of the two rows.
    #[inline(always)]
    pub fn factors(self, block: usize) -> [f32; 2] {
        self.of_rows.map(|of_row| of_row * self.of_columns[block])
    }
}

/// The scales of a product as a consumer's thread takes them, stage after stage of a pass.
pub(super) struct BlockScales<'a> {
    layouts: &'a ScaleLayouts,
    /// Those of the next stage.
    of_rows: [*const f32; 2],
    of_columns: [*const f32; ACROSS],
    /// Stages of the pass that are not loaded yet.
    left: u32,
}

impl<'a> BlockScales<'a> {
    /// Of consumer `own` in a pass.
    ///
    /// # Safety
    /// All threads of the consumer call this together.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn new(
        problem: &Problem,
        (layouts, pointers): (&'a ScaleLayouts, Pointers),
        own: usize,
        work: &Work,
    ) -> Self {
        let (in_tile, _) = Accumulator::<f32, 8>::position(thread_in_warpgroup(), 0);
        let row = work.rows.0 as usize + own * ROWS + in_tile;
        let at = |layout: ScaleLayout, base: *const f32, line: usize| {
            let of_batch = work.batch as usize * layout.batch as usize;
            let of_step = work.steps.0 as usize * layout.along_k as usize;
            base.wrapping_add(of_batch + line * layout.line as usize + of_step)
        };
        // Rows and columns outside of D have the scales of the last ones: their sums are not stored.
        let of_row = |below: usize| {
            let line = (row + below).min(problem.m as usize - 1);
            at(layouts.a, pointers.a, line)
        };
        let of_column = |block: usize| {
            let column = work.column as usize * WIDE + block * BLOCK;
            // All lanes have the same one, which ptxas must not see: it moves loads from uniform addresses to uniform registers at once, and so waits for them in the
            // stage in which they start.
            let line = (column.min(problem.n as usize - 1) / BLOCK) as u32;
            // SAFETY: all lanes of the warp are here, and each asks itself.
            let (line, _) = unsafe { warp_shuffle_idx(!0, line, lane_id(), 32) };
            at(layouts.b, pointers.b, line as usize)
        };
        Self {
            layouts,
            of_rows: [of_row(0), of_row(8)],
            of_columns: [of_column(0), of_column(1)],
            left: work.steps.1 - work.steps.0,
        }
    }

    /// Starts to load those of the next stage; after the last one it is that one again.
    ///
    /// # Safety
    /// The pass has a stage, and the scales are there.
    #[gpu_only]
    #[inline(always)]
    pub unsafe fn next(&mut self) -> OfStage {
        // SAFETY: the caller's promise; the pointers stay at the last stage.
        unsafe {
            let loaded = OfStage {
                of_rows: self.of_rows.map(|at| at.read()),
                of_columns: self.of_columns.map(|at| at.read()),
            };
            self.left = self.left.saturating_sub(1);
            let ahead = self.left.min(PREFETCHED) as usize * self.layouts.a.along_k as usize;
            prefetch(&*self.of_rows[0].wrapping_add(ahead), CacheLevel::L2);
            let [a, b] = [self.layouts.a, self.layouts.b]
                .map(|layout| if self.left > 0 { layout.along_k as usize } else { 0 });
            self.of_rows = self.of_rows.map(|at| at.wrapping_add(a));
            self.of_columns = self.of_columns.map(|at| at.wrapping_add(b));
            loaded
        }
    }
}
