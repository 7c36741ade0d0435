//! Long rows in shared memory: the copies of the next row run while this one is written (`sm_90`).

use crate::prelude::*;
use cuda_std::cluster;
use cuda_std::mbarrier::Mbarrier;
use cuda_std::warp::sync_warp;

use super::group::{Exchange, WARP, join_block, join_blocks};
use super::registers::build;
use super::stages::{MAX_STAGES, Stages};
use super::{Pack, Place, RowOp, Shape, Summary, Value, write};

/// Threads in a block.
pub const THREADS: u32 = 512;
/// Vectors of a stage that a thread takes.
const PACKS: usize = 2;
/// Bytes of a stage.
pub const STAGE_BYTES: u32 = THREADS * PACKS as u32 * 16;

/// Shared memory of [`staged`].
#[derive(Clone, Copy)]
pub struct StagedMemory {
    /// For one row after the other in turn.
    pub exchanges: [Exchange; 2],
    /// For the stages to fill.
    pub full: SharedArray<u64, MAX_STAGES>,
    /// For the stages to be read.
    pub free: SharedArray<u64, MAX_STAGES>,
}

/// One row after the other by each cluster of `BLOCKS` blocks, of which each keeps a part of the row in its stages: they are
/// looked at once to learn, and once to write. As a stage has been read for the last time it is filled for the next row.
/// A cluster takes every row whose number is its own modulo the number of clusters.
///
/// # Safety
/// - The matrices of `op` have `shape.rows` rows of `shape.columns` elements, all of which begin at multiples of 16 bytes.
/// - Launched with blocks of [`THREADS`] in clusters of `BLOCKS`, and dynamic shared memory for `1 / BLOCKS` of a row, in
///   whole stages of [`STAGE_BYTES`].
#[inline(always)]
pub unsafe fn staged<Op: RowOp<V, 1>, const V: usize, const BLOCKS: u32>(
    op: Op,
    shape: Shape,
    memory: StagedMemory,
) {
    let (thread, rank) = (thread::thread_idx_x(), if BLOCKS > 1 { cluster::rank() } else { 0 });
    let (first, step) =
        ((thread::block_idx_x() / BLOCKS) as usize, (thread::grid_dim_x() / BLOCKS) as usize);
    let per_stage = STAGE_BYTES / size_of::<Op::Element>() as u32;
    let of_row = shape.columns.div_ceil(per_stage);
    let of_block = of_row.div_ceil(BLOCKS);
    let begin = rank * of_block;
    let chunks = of_row.saturating_sub(begin).min(of_block);
    // SAFETY: the caller's promise.
    let mut stages = unsafe { Stages::new(memory.full, STAGE_BYTES) };
    let free = |stage: u32| Mbarrier::new(memory.free, stage as usize % MAX_STAGES);

    // One thread fills the stages, in the order in which all go over them.
    let (mut next_row, mut next_chunk) = (first, 0);
    let mut fill = |stages: Stages, stage: u32| {
        if next_row >= shape.rows || chunks == 0 {
            return;
        }
        let column = (begin + next_chunk) * per_stage;
        let [matrix] = op.inputs();
        let from = matrix.wrapping_add(next_row * shape.columns as usize + column as usize);
        let count = (shape.columns - column).min(per_stage);
        // SAFETY: the elements exist, and the stage was empty, or all have read it.
        unsafe { stages.fill(stage, [from.cast()], count * size_of::<Op::Element>() as u32) };
        next_chunk += 1;
        if next_chunk == chunks {
            (next_row, next_chunk) = (next_row + step, 0);
        }
    };
    if thread == 0 {
        let mut stage = 0;
        while stage < stages.count() {
            // SAFETY: one thread does it, before the barrier below.
            unsafe { free(stage).init(THREADS / WARP) };
            fill(stages, stage);
            stage += 1;
        }
    }
    // `free` is used, and another block's memory, when all blocks are here.
    if BLOCKS > 1 {
        cluster::sync()
    } else {
        thread::sync_threads()
    }

    let places = |row: usize, chunk: u32| -> [Place; PACKS] {
        build(|k| Place {
            row: row * shape.columns as usize,
            column: (begin + chunk) * per_stage + (k as u32 * THREADS + thread) * V as u32,
            columns: shape.columns,
            stride: 1,
            whole: true,
        })
    };
    let read = |full: *const Pack, here: [Place; PACKS]| -> [[Pack; 1]; PACKS] {
        build(|k| {
            if !here[k].has(0) {
                return [Op::Element::pack([Op::ABSENT; V])];
            }
            // SAFETY: inside of the stage, which is full.
            [unsafe { full.add(k * THREADS as usize + thread as usize).read() }]
        })
    };
    let (mut row, mut turn) = (first, false);
    while row < shape.rows {
        let mut known = Op::Summary::EMPTY;
        let (mut ahead, mut chunk) = (stages, 0);
        while chunk < chunks {
            let here = places(row, chunk);
            // SAFETY: filled for this chunk.
            let loaded = read(unsafe { ahead.wait() }, here);
            // SAFETY: the elements of the places exist.
            let kept: [Op::Kept; PACKS] = build(|k| unsafe { op.prepare(loaded[k], here[k]) });
            known = known.merge(op.digest(kept, here).1);
            ahead.advance();
            chunk += 1;
        }
        let exchange = if turn { memory.exchanges[1] } else { memory.exchanges[0] };
        turn = !turn;
        let mut of_row = join_block(known, exchange);
        if BLOCKS > 1 {
            of_row = join_blocks(of_row, exchange, BLOCKS);
        }
        let constants = op.constants(of_row, of_row);
        let mut chunk = 0;
        while chunk < chunks {
            let here = places(row, chunk);
            // SAFETY: as above; it has been waited for.
            let loaded = read(unsafe { stages.wait() }, here);
            // SAFETY: all lanes of the warp are here.
            unsafe { sync_warp(u32::MAX) };
            if thread.is_multiple_of(WARP) {
                // SAFETY: one arrival of each warp, behind its reads.
                let _ = unsafe { free(stages.current()).arrive() };
            }
            // SAFETY: the elements of the places exist, and are this thread's own.
            unsafe {
                let kept = build(|k| op.settle(op.prepare(loaded[k], here[k]), of_row));
                write::<_, V, 1, PACKS>(op, kept, constants, here);
            }
            if thread == 0 {
                // SAFETY: every warp arrives, in the phase in which the stage was filled.
                unsafe { free(stages.current()).wait_parity(stages.parity()) };
                fill(stages, stages.current());
            }
            stages.advance();
            chunk += 1;
        }
        if thread == 0 && rank == 0 {
            // SAFETY: the row exists, and this is its first thread.
            unsafe { op.note(constants, row) };
        }
        row += step;
    }
}

/// The shared memory of [`staged`].
macro_rules! staged_memory {
    () => {
        $crate::grid::rows::staged::StagedMemory {
            exchanges: [exchange!(), exchange!()],
            full: shared_array![u64; $crate::grid::rows::stages::MAX_STAGES],
            free: shared_array![u64; $crate::grid::rows::stages::MAX_STAGES],
        }
    };
}
pub(in crate::grid) use staged_memory;
