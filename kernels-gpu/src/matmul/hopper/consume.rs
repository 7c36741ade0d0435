//! The consumers: two warpgroups, each of which multiplies 64 rows of a tile.

#![cfg_attr(not(target_os = "cuda"), allow(dead_code, unused_imports))]

use super::super::output;
use super::super::scaling::Scaling;
use super::super::{Epilogue, Factor};
use super::boxes::BoxWriter;
use super::cluster_sums::Four;
use super::promotion::Promotes;
use super::{
    Block, Output, Passes, ROWS_OF_BOX, ROWS_OF_TILE, SPAN, SQUARE, STAGED, Schedule, Stage, Work,
    stored_columns,
};
use crate::prelude::*;
use bytemuck::Zeroable;
use cuda_std::cluster::{self, ClusterArrival};
use cuda_std::copy::*;
use cuda_std::matrix::*;
use cuda_std::{gpu_only, unrolled};

/// Multiplies the tiles of all passes of this block, and writes the sums of the consumer's half of each. (Written as a loop: as
/// a closure, which is too long to be inlined, its sums are in local memory, and with an iterator ptxas has the multiplications
/// wait for each other.)
///
/// # Safety
/// All threads of a consumer call this together; the schedule, and `first`, are what the producer goes by.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn all<T, U, D, E, V, const N: usize, const S: usize>(
    block: Block<N, S>,
    mut writer: BoxWriter<'_, D, E, V>,
    elements: output::Output<'_, D, E>,
    passes: impl Passes,
    (first, own): (Work, usize),
) where
    T: Factor,
    U: Factor,
    D: Output,
    E: Epilogue,
    V: Scaling,
    Columns<N>: Promotes<T, U, N>,
{
    let (schedule, thread) = (writer.schedule, writer.thread);
    let (len, stride) = (passes.count(), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    // SAFETY: the caller's promise.
    unsafe {
        let mut consumer = block.pipeline.consumer();
        while index < len {
            let mut sums = Accumulator::<f32, N>::zeroed();
            let current = work;
            index += stride;
            let next = || passes.work(index);
            let (consumer, who) = (&mut consumer, (own, thread));
            work = add_steps::<T, U, N, S>(consumer, &mut sums, schedule, &current, who, next);
            if let Some(parts) = passes.parts() {
                if current.steps.1 < schedule.steps {
                    parts.give(&sums, (own, thread));
                    continue;
                }
                parts.add_before(&mut sums, schedule, current.steps.0, (own, thread));
            }
            if N < SQUARE {
                write_elements(&sums, &elements, &current, (own, thread));
            } else {
                writer.write_tile(&sums, &current, own);
            }
        }
        writer.finish();
    }
}

/// Multiplies this block's steps of the tile of its cluster, and writes its share of the sums of all blocks.
///
/// # Safety
/// As [`all`], where the schedule `adds`; `started` is this thread's arrival at the cluster's barrier since its sums were made, and `work`
/// this block's steps.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn one_of_cluster<T, D, E, const N: usize, const S: usize>(
    block: Block<N, S>,
    schedule: &Schedule,
    elements: output::Output<'_, D, E>,
    (started, work): (ClusterArrival, Work),
    own: usize,
) where
    T: Factor,
    D: Output,
    E: Epilogue,
    Columns<N>: Promotes<T, T, N>,
{
    let (part, parts) = (cluster::rank(), cluster::size());
    let who = (own, thread_in_warpgroup());
    // SAFETY: the caller's promise.
    unsafe {
        let (mut consumer, mut sums) = (block.pipeline.consumer(), Accumulator::zeroed());
        add_steps::<T, T, N, S>(&mut consumer, &mut sums, schedule, &work, who, || work);
        started.wait();
        block.sums.send(&sums, who, parts);
        block.sums.for_each(who, (part, parts), |four, sums| {
            write_four(&elements, &work, four, sums);
        });
    }
}

/// Writes the sums of the consumer's half of a tile from registers.
///
/// # Safety
/// All threads of the consumer together.
#[gpu_only]
#[inline(always)]
unsafe fn write_elements<D: Output, E: Epilogue, const N: usize>(
    sums: &Accumulator<f32, N>,
    elements: &output::Output<'_, D, E>,
    work: &Work,
    (consumer, thread): (usize, usize),
) where
    Columns<N>: Width<f32>,
{
    unrolled!(N / 8, |index| {
        let (above, below) = (sums.pair(4 * index), sums.pair(4 * index + 2));
        let four = Four::<N> { consumer, index, thread };
        // SAFETY: each sum is one thread's.
        unsafe { write_four(elements, work, four, [above[0], above[1], below[0], below[1]]) };
    });
}

/// Writes four sums of a tile.
///
/// # Safety
/// The thread that calls this alone writes them.
#[gpu_only]
#[inline(always)]
unsafe fn write_four<D: Output, E: Epilogue, const N: usize>(
    elements: &output::Output<'_, D, E>,
    work: &Work,
    four: Four<N>,
    sums: [f32; 4],
) {
    let (row, column) = four.place();
    let (row, column) = (work.rows.0 as usize + row, work.column as usize * N + column);
    // SAFETY: the caller's promise.
    unsafe { elements.write_four(sums, work.output as usize, row, column) };
}

/// Adds the products of a consumer's half of a tile over the steps of `work`. `next` is computed while the last ones are under way.
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
unsafe fn add_steps<T, U, const N: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    to: &mut Accumulator<f32, N>,
    schedule: &Schedule,
    work: &Work,
    who: (usize, usize),
    next: impl FnOnce() -> Work,
) -> Work
where
    T: Factor,
    U: Factor,
    Columns<N>: Promotes<T, U, N>,
{
    let steps = work.steps.1 - work.steps.0;
    // SAFETY: the caller's promise; operands across have 16 bits.
    unsafe {
        if const { T::IS_PROMOTED } {
            return <Columns<N> as Promotes<T, U, N>>::add_promoted::<S>(
                consumer, to, who, steps, next,
            );
        }
        if const { size_of::<T>() != 2 } {
            return add::<T, U, f32, N, S, false, false>(consumer, to, who, steps, next);
        }
        match (schedule.a_across != 0, schedule.b_across != 0) {
            (false, false) => add::<T, U, f32, N, S, false, false>(consumer, to, who, steps, next),
            (false, true) => add::<T, U, f32, N, S, false, true>(consumer, to, who, steps, next),
            (true, false) => add::<T, U, f32, N, S, true, false>(consumer, to, who, steps, next),
            (true, true) => add::<T, U, f32, N, S, true, true>(consumer, to, who, steps, next),
        }
    }
}

/// [`add_steps`] of operands that lie as `A_ACROSS` and `B_ACROSS` say.
///
/// # Safety
/// As [`all`].
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn add<
    T: TensorElement,
    U: TensorElement,
    V: Copy + Zeroable,
    const N: usize,
    const S: usize,
    const A_ACROSS: bool,
    const B_ACROSS: bool,
>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<V, N>,
    (own, thread): (usize, usize),
    steps: u32,
    next: impl FnOnce() -> Work,
) -> Work
where
    Columns<N>: Instruction<T, U, V>,
{
    for step in 0..steps {
        let stage = consumer.wait();
        // SAFETY: the stage is full; its boxes are as the producer copied them, and stay until the release below, after the wait.
        unsafe {
            let operands = operands::<N, A_ACROSS, B_ACROSS>(stage, own, 0);
            sums.multiply_operands::<T, U, 4, A_ACROSS, B_ACROSS>(operands, step > 0);
            consumer.step();
            if step > 0 {
                // The product before is done with its stage.
                sums.wait::<1>();
                if thread == 0 {
                    consumer.release(2);
                }
            }
        }
    }
    let next = next();
    // SAFETY: all threads together; after the wait the last product is done with its stage, which is the previous one.
    unsafe {
        sums.wait::<0>();
        if thread == 0 {
            consumer.release(1);
        }
    }
    next
}

/// The boxes of a full stage, for consumer `own`, from a column of B on, which is 0 where B lies across.
///
/// # Safety
/// The stage is one of shared memory.
#[gpu_only]
#[inline(always)]
pub(super) unsafe fn operands<const N: usize, const A_ACROSS: bool, const B_ACROSS: bool>(
    stage: *const Stage<N>,
    own: usize,
    column: usize,
) -> [Descriptor; 2] {
    /// Elements of 16 bits, 64 rows along K of them.
    type Across = Tile<[[u16; SPAN / 2]; ROWS_OF_BOX], Swizzle128>;
    // SAFETY: the caller's promise.
    let (a, b) = unsafe { (&raw const (*stage).a, &raw const (*stage).b) };
    let a = if A_ACROSS {
        // Columns of 64: this consumer's rows are one box.
        Descriptor::of_columns(a.cast::<Across>().wrapping_add(own), 0)
    } else {
        Descriptor::of_rows(a.cast::<Tile<[[u8; SPAN]; ROWS_OF_TILE], Swizzle128>>(), own * ROWS)
    };
    let b = if B_ACROSS {
        Descriptor::of_columns(b.cast::<Across>(), 0)
    } else {
        Descriptor::of_rows(b.cast::<Tile<[[u8; SPAN]; N], Swizzle128>>(), column)
    };
    [a, b]
}
