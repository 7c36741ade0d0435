//! The producer: one warp, which fills the stages.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::form::take_turn;
use super::{
    Block, Passes, ROWS_OF_BOX, ROWS_OF_TILE, RowsOfA, SQUARE, Schedule, SmallBox, Stage, Work,
    columns_of_box, depth,
};
use crate::prelude::*;
use cuda_std::copy::*;
use cuda_std::gpu_only;
use cuda_std::grid_constant::{GridConstant, MapWords};
use cuda_std::matrix::*;

/// [`all`] by the first warp of the producer, when the previous kernel has ended.
///
/// # Safety
/// All threads of the producer call this together, and the rest is as [`all`] has it.
#[gpu_only]
#[inline(always)]
pub unsafe fn in_turn<T: TensorElement, const N: usize, const S: usize>(
    block: Block<N, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    passes: impl Passes,
    first: Work,
) {
    take_turn();
    if thread_in_warpgroup() < 32 {
        // SAFETY: the caller's promise.
        unsafe { all::<T, N, S>(block.pipeline.producer(), maps, schedule, passes, first) };
    }
}

/// Copies the tiles of all passes of this block, of which there is at least one.
///
/// # Safety
/// One whole warp of the block calls this, the maps are what the schedule says, and `first` is its first pass for this block.
#[gpu_only]
#[inline(always)]
pub unsafe fn all<T: TensorElement, const N: usize, const S: usize>(
    mut producer: TileProducer<Stage<N>, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    passes: impl Passes,
    first: Work,
) {
    let (len, stride) = (passes.count(), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    loop {
        // SAFETY: the caller's promise.
        unsafe { pass::<T, N, S>(&mut producer, maps, schedule, work) };
        index += stride;
        if index >= len || (N <= SQUARE && schedule.adds != 0) {
            break;
        }
        work = passes.work(index);
    }
}

/// Copies the tiles of one pass.
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
unsafe fn pass<T: TensorElement, const N: usize, const S: usize>(
    producer: &mut TileProducer<Stage<N>, S>,
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    work: Work,
) {
    let (row, column) = (work.rows.0 as i32, (work.column as usize * N) as i32);
    let (batch_a, batch_b) =
        ((work.batch * schedule.a_batches) as i32, (work.batch * schedule.b_batches) as i32);
    for step in work.steps.0..work.steps.1 {
        let depth = (step as usize * depth(size_of::<T>())) as i32;
        let copies = |slot: &Slot<Stage<N>>| {
            // SAFETY: the boxes make up the stage, each as large as the copies into it; the slot's barrier expects the bytes
            // of the stage.
            unsafe {
                let (a, b) = (&raw mut (*slot.as_mut_ptr()).a, &raw mut (*slot.as_mut_ptr()).b);
                if schedule.a_across == 0 {
                    let map = maps.map::<RowsOfA, Swizzle128>(0);
                    map.load(a.cast(), [batch_a, row, depth], slot.barrier());
                } else {
                    let map = maps.map::<SmallBox, Swizzle128>(0);
                    for part in 0..ROWS_OF_TILE / ROWS_OF_BOX {
                        let to = a.cast::<Tile<SmallBox, Swizzle128>>().add(part);
                        let row = row + (part * ROWS_OF_BOX) as i32;
                        map.load(to, [batch_a, depth, row], slot.barrier());
                    }
                }
                let map = maps.map::<SmallBox, Swizzle128>(1);
                for part in 0..N / columns_of_box(N) {
                    let to = b.cast::<Tile<SmallBox, Swizzle128>>().add(part);
                    let column = column + (part * columns_of_box(N)) as i32;
                    let at = match schedule.b_across {
                        0 => [batch_b, column, depth],
                        _ => [batch_b, depth, column],
                    };
                    map.load(to, at, slot.barrier());
                }
            }
        };
        // SAFETY: every byte of the stage is filled, once.
        unsafe { producer.fill_by_warp(copies) };
    }
}
