//! The scales of blocks, on their way to the sums: each warp of a consumer copies its own into slots of shared memory, some stages ahead.
//!
//! A thread needs the scales of two rows and of at most two blocks of columns, other ones for each stage. Memory is further away than a stage lasts, and the sums leave
//! no registers for what is on its way: `cp.async` takes none. A warp has slots of its own, so that it waits for no other one: a barrier between a warp
//! that copies and the consumers costs a third of the speed.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports, unused_variables))]

use super::super::Problem;
use super::super::scaling::{BLOCK, Pointers, ScaleLayout, ScaleLayouts};
use super::promotion::Promotion;
use super::{ROWS_OF_BOX, Work};
use crate::prelude::*;
use cuda_std::copy::{commit_group, copy_async, wait_groups};
use cuda_std::gpu_only;
use cuda_std::matrix::*;
use cuda_std::warp::{lane_id, sync_warp};

/// Lanes of a warp.
const WARP: usize = 32;
/// Slots of a warp, a power of two.
const SLOTS: u32 = 4;
/// Stages whose scales are on their way.
const AHEAD: u32 = SLOTS - 1;
/// Rows of a warp.
const ROWS_OF_WARP: usize = 16;
/// Copies of each scale of columns in a slot: one at a single place for all lanes would go through uniform registers, for which a warp waits.
const COPIES: usize = 8;

/// Bytes of the slots of both consumers' warps.
pub(super) const BYTES: usize = 2 * WARPGROUP * SLOTS as usize * size_of::<f32>();

/// The scales of a product as a consumer's thread takes them.
pub(super) struct BlockScales<'a> {
    problem: &'a Problem,
    layouts: &'a ScaleLayouts,
    pointers: Pointers,
    /// Those of this warp. Of a slot's 32 elements the first 16 are those of the warp's rows, each beside that eight rows below; the others are those of
    /// the tile's first columns and of its last, in turn.
    slots: *mut f32,
    /// The consumer.
    own: usize,
    /// The slot of the next stage.
    at: u32,
    /// What this lane copies next: one element of each slot.
    from: *const f32,
    stride: usize,
    /// Stages of the pass that are not copied yet.
    left: u32,
    /// Whether the tile begins in the middle of a block of columns.
    begins_in_block: bool,
}

impl<'a> BlockScales<'a> {
    /// Of consumer `own`, with slots of [`BYTES`] that nothing else uses.
    #[gpu_only]
    #[inline(always)]
    pub fn new(
        problem: &'a Problem,
        (layouts, pointers): (&'a ScaleLayouts, Pointers),
        slots: *mut u8,
        own: usize,
    ) -> Self {
        let warp = own * (WARPGROUP / WARP) + thread_in_warpgroup() / WARP;
        let slots = slots.cast::<f32>().wrapping_add(warp * SLOTS as usize * WARP);
        Self {
            problem,
            layouts,
            pointers,
            slots,
            own,
            at: 0,
            from: core::ptr::null(),
            stride: 0,
            left: 0,
            begins_in_block: false,
        }
    }

    /// The lane's element of the slot `behind` the next one.
    #[inline(always)]
    fn element(&self, behind: u32, index: usize) -> *mut f32 {
        self.slots.wrapping_add((self.at + behind) as usize % SLOTS as usize * WARP + index)
    }

    /// Starts the copy of the stage that is `behind` the next one, if it is of this pass, as a group of its own.
    ///
    /// # Safety
    /// No lane reads the slot any more.
    #[gpu_only]
    #[inline(always)]
    unsafe fn copy(&mut self, behind: u32) {
        // SAFETY: a scale of the product; the slot is the warp's.
        unsafe {
            if self.left > 0 {
                copy_async(self.element(behind, lane_id() as usize), self.from);
                self.from = self.from.wrapping_add(self.stride);
                self.left -= 1;
            }
            commit_group();
        }
    }
}

impl Promotion for BlockScales<'_> {
    /// Two rows, and the first and the last columns.
    type Loaded = [[f32; 2]; 2];
    /// Of two rows, the scales of the sums in the first 64 columns, the next and the next.
    type OfStage = [[f32; 3]; 2];

    #[inline(always)]
    fn scales(&self) -> bool {
        self.layouts.a.kind == ScaleLayout::BLOCKS
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn begin<const N: usize>(&mut self, work: &Work) {
        let (problem, lane) = (self.problem, lane_id() as usize);
        let first_column = work.column as usize * N;
        // Rows and columns outside of D have the scales of the last ones: their sums are not stored.
        let (layout, base, line) = if lane < ROWS_OF_WARP {
            let warp = self.own * (WARPGROUP / WARP) + thread_in_warpgroup() / WARP;
            let row = warp * ROWS_OF_WARP + lane / 2 + lane % 2 * 8;
            let row = (work.rows.0 as usize + row).min(problem.m as usize - 1);
            (self.layouts.a, self.pointers.a, row)
        } else {
            let column = first_column + lane % 2 * (N - 1);
            (self.layouts.b, self.pointers.b, column.min(problem.n as usize - 1) / BLOCK)
        };
        let of_batch = work.batch as usize * layout.batch as usize;
        let of_step = work.steps.0 as usize * layout.along_k as usize;
        self.from = base.wrapping_add(of_batch + line * layout.line as usize + of_step);
        self.stride = layout.along_k as usize;
        self.left = work.steps.1 - work.steps.0;
        self.begins_in_block = !first_column.is_multiple_of(BLOCK);
        for behind in 0..AHEAD {
            // SAFETY: what was in these slots was read before the barrier of the last stage.
            unsafe { self.copy(behind) };
        }
    }

    #[gpu_only]
    #[inline(always)]
    unsafe fn next(&mut self) -> [[f32; 2]; 2] {
        // SAFETY: all lanes of each warp are here; all have read the slot of the stage before, which is copied to now, when they are at the barrier, and then
        // see the copies of all lanes to this one.
        unsafe {
            wait_groups::<{ AHEAD as usize - 1 }>();
            sync_warp(!0);
            self.copy(AHEAD);
            let lane = lane_id() as usize;
            let two = |index: usize| {
                let both = self.element(0, index).cast::<u64>().read();
                [f32::from_bits(both as u32), f32::from_bits((both >> 32) as u32)]
            };
            let loaded = [two(lane / 4 * 2), two(ROWS_OF_WARP + lane % COPIES * 2)];
            self.at += 1;
            loaded
        }
    }

    #[inline(always)]
    fn of_stage(&self, [of_rows, [first, last]]: [[f32; 2]; 2]) -> [[f32; 3]; 2] {
        let middle = if self.begins_in_block { last } else { first };
        of_rows.map(|of_row| [of_row * first, of_row * middle, of_row * last])
    }

    #[inline(always)]
    fn add(of_stage: [[f32; 3]; 2], index: usize, sum: f32, stage: f32) -> f32 {
        // Eight columns are four sums, of which two are those of the other row.
        of_stage[index / 2 % 2][index * 2 / ROWS_OF_BOX] * stage + sum
    }
}
