//! Products of 8-bit floats of either kind with scales of blocks: the sums over a stage, 128 along K, are multiplied by them as they are promoted.
//!
//! A consumer takes the 128 columns of a block one after the other, by one set of registers for the sums over a stage: while it adds, the other consumer's products are under
//! way. (In halves of which one is always under way, as sums without scales are promoted, the assembler has the multiplications wait for each other.)

use super::super::Plain;
use super::super::beside::Beside;
use super::super::form::{WIDE, take_turn};
use super::super::scaling::{BLOCK as OF_SCALE, LineScales, Pointers, ScaleLayouts};
use super::block_scales::{BlockScales, OfStage};
use super::consume::operands;
use super::*;
use cuda_std::f16;
use cuda_std::number::{E4m3, E5m2};

/// The columns of the sums over a stage: those of a block.
const CHAIN: usize = OF_SCALE;

/// Multiplies 8-bit floats, both operands contiguous along K, in tiles of 128 × [`WIDE`]. `largest` is raised to the largest magnitude of D before D's scale,
/// as bits; it and `scale_of_d` are one element, or none.
///
/// # Safety
/// As [`multiply`](super::multiply); the schedule does not add, and K is neither split nor 0. The scales are there for all blocks of A and B, as `scales` says.
#[kernel(
    (E4m3, E4m3, bf16), (E4m3, E4m3, f16), (E4m3, E4m3, f32), (E4m3, E4m3, E4m3),
    (E4m3, E5m2, bf16), (E4m3, E5m2, f16), (E4m3, E5m2, f32), (E4m3, E5m2, E4m3),
    (E5m2, E4m3, bf16), (E5m2, E4m3, f16), (E5m2, E4m3, f32), (E5m2, E4m3, E4m3),
    (E5m2, E5m2, bf16), (E5m2, E5m2, f16), (E5m2, E5m2, f32), (E5m2, E5m2, E4m3),
    dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<WIDE>()
)]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_blocks<T, U, Out>(
    maps: GridConstant<[MapWords; 3]>,
    schedule: Schedule,
    problem: Problem,
    scales: ScaleLayouts,
    a: &[T],
    b: &[U],
    scales_of_a: &[f32],
    scales_of_b: &[f32],
    c: &[Out],
    c_from: *const Out,
    scale_of_d: &[f32],
    mut largest: DisjointSlice<u32>,
    mut d: DisjointSlice<Out>,
) where
    T: Factor,
    U: Factor,
    Out: Output,
    Columns<CHAIN>: Instruction<T, U, f32>,
{
    let pointers = Pointers::new(scales_of_a, scales_of_b, scale_of_d, &mut largest);
    let scales = (&scales, pointers);
    let (c, d) = (c_from, d.as_mut_ptr());
    // SAFETY: the caller's promise. (`wgmma` is an instruction of this architecture alone; the host launches this nowhere else.)
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        multiply_blocks::<T, U, Out, { stages(WIDE) }>(maps, &schedule, &problem, scales, c, d);
    }
}

/// The body of [`hopper_blocks`](fn@hopper_blocks).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_blocks<T, U, D, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    scales: (&ScaleLayouts, Pointers),
    c: *const D,
    d: *mut D,
) where
    T: Factor,
    U: Factor,
    D: Output,
    Columns<CHAIN>: Instruction<T, U, f32>,
{
    // SAFETY: all lanes of each warp are here.
    let group = unsafe { warpgroup_of_warp() };
    let (passes, none) = ((schedule, problem), [core::ptr::null(); 2]);
    let first = schedule.first(problem, false);
    // SAFETY: the launch gives the memory; all threads together. A lane of each warp releases a stage.
    let block = unsafe { Block::<WIDE, S>::released_by(2 * WARPGROUP as u32 / 32, false) };
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                produce::in_turn::<T, WIDE, S>(block, maps, schedule, passes, first);
            },
            consumer own with 232 registers => {
                take_turn();
                let beside = Beside::new(problem, c, none[0], none[1], Plain);
                let beside = beside.scaled(LineScales::new(*scales.0, scales.1));
                let boxes = block.boxes(own);
                let writer = BoxWriter::new(beside, problem, schedule, maps, d, boxes);
                consume_blocks::<T, U, D, S>(block, writer, scales, first, own);
            },
        }
    }
}

/// Multiplies the tiles of all passes of this block, and writes the sums of the consumer's half of each.
///
/// # Safety
/// All threads of a consumer call this together; the schedule, and `first`, are what the producer goes by.
#[gpu_only]
#[inline(always)]
unsafe fn consume_blocks<T, U, D, const S: usize>(
    block: Block<WIDE, S>,
    mut writer: BoxWriter<'_, D, Plain, LineScales>,
    scales: (&ScaleLayouts, Pointers),
    first: Work,
    own: usize,
) where
    D: Output,
    Columns<CHAIN>: Instruction<T, U, f32>,
{
    let (schedule, problem) = (writer.schedule, writer.problem);
    let (passes, stride) = (schedule.len(problem), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    // SAFETY: the caller's promise; each sum is one thread's.
    unsafe {
        let mut consumer = block.pipeline.consumer();
        let mut chain = Accumulator::<f32, CHAIN>::zeroed();
        while index < passes {
            let mut sums = Accumulator::<f32, WIDE>::zeroed();
            let mut of_blocks = BlockScales::new(problem, scales, own, &work);
            let mut ahead = [of_blocks.next(), of_blocks.next()];
            let bases = operands::<WIDE, false, false>(consumer.stages(), own, 0);
            for _ in work.steps.0..work.steps.1 {
                let of_stage = ahead[0];
                ahead = [
                    ahead[1],
                    add_stage::<T, U, S>(
                        &mut consumer,
                        (&mut sums, &mut chain),
                        bases,
                        of_stage,
                        || of_blocks.next(),
                    ),
                ];
            }
            writer.write_tile(&sums, &work, own);
            index += stride;
            work = schedule.work(problem, index);
        }
        writer.finish();
    }
}

/// Adds the products of a stage, whose scales are there, by way of the sums of a chain. `next` loads other scales while the first products are under way. The descriptors are
/// those of the first stage of the array.
///
/// # Safety
/// As [`consume_blocks`].
#[gpu_only]
#[inline(always)]
unsafe fn add_stage<T, U, const S: usize>(
    consumer: &mut TileConsumer<Stage<WIDE>, S>,
    (sums, chain): (&mut Accumulator<f32, WIDE>, &mut Accumulator<f32, CHAIN>),
    bases: [Descriptor; 2],
    of_stage: OfStage,
    next: impl FnOnce() -> OfStage,
) -> OfStage
where
    Columns<CHAIN>: Instruction<T, U, f32>,
{
    let bytes = (consumer.stage_index() * size_of::<Stage<WIDE>>()) as u32;
    let [a, b] = bases.map(|base| base.advanced(bytes));
    consumer.wait();
    consumer.step();
    // SAFETY: the stage is full; its boxes are as the producer copied them, and stay until the release after the wait.
    unsafe {
        chain.multiply_operands::<T, U, 4, false, false>([a, b], false);
        let next = next();
        add_chain::<0>(sums, chain, of_stage);
        let b = b.advanced((CHAIN * SPAN) as u32);
        chain.multiply_operands::<T, U, 4, false, false>([a, b], false);
        chain.wait::<0>();
        // One lane of each warp says that the warp is done with the stage.
        if thread_in_warpgroup() % 32 == 0 {
            consumer.release(1);
        }
        add_chain::<1>(sums, chain, of_stage);
        next
    }
}

/// Adds the sums of a chain to those of a block of columns, multiplied by its scales, when its products are there.
///
/// # Safety
/// As [`consume_blocks`].
#[gpu_only]
#[inline(always)]
unsafe fn add_chain<const PART: usize>(
    sums: &mut Accumulator<f32, WIDE>,
    chain: &mut Accumulator<f32, CHAIN>,
    of_stage: OfStage,
) {
    let factors = of_stage.factors(PART);
    // SAFETY: the caller's promise.
    unsafe {
        chain.wait::<0>();
        sums.combine_columns::<CHAIN>(PART * CHAIN, chain, |index, sum, of_chain| {
            // Of each four sums two are those of the other row.
            factors[index / 2 % 2] * of_chain + sum
        });
        // Additions that the compiler moved after the next products would need the chain's registers twice. (Nothing is under way.)
        sums.wait::<0>();
    }
}
