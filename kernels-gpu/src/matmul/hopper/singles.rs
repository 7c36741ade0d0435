//! Products of f32 as three of TF32: an upper and a lower part of each element, without the product of the lower parts.
//!
//! `wgmma` takes both operands along K, and rounds nothing: [`pack_parts`](fn@super::super::parts::pack_parts) first writes a copy of A and of B, with the
//! upper and the lower part of [`DEPTH`](super::super::tf32::DEPTH) elements along K in turn. So the stages come in pairs, and the producer is that of the other products. From
//! a pair of stages three products are computed, of which only the last one, that of the upper parts, is of the size of the sums: the small ones come first.
//!
//! Tensor cores cut off what is below the last bit of a sum, so that the sums over a pair, 32 along K, are sums of their own, which ordinary
//! cores add to the others, rounded to nearest. A consumer has no registers for a second set of 256 columns, and takes those of a wide tile one half after the other. While
//! it adds, the other consumer's products are under way.

use super::super::Plain;
use super::super::beside::Beside;
use super::super::form::{SQUARE, WIDE, take_turn};
use super::super::tf32;
use super::consume::operands;
use super::*;
use cuda_std::unrolled;

/// The columns of the sums over a pair of stages.
const CHAIN: usize = 128;
const _: () = assert!(tf32::DEPTH == depth(size_of::<f32>()));

/// `D = alpha · A·B + beta · C` of f32; `N` columns of D a tile.
///
/// # Safety
/// As [`multiply`](super::multiply), where A and B are copies that [`pack_parts`](fn@super::super::parts::pack_parts) wrote, and K, in the maps and in the
/// schedule, is the length of their rows. The schedule does not add, and K is neither split nor 0.
#[kernel(WIDE, SQUARE, dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<N>())]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_three_tf32<const N: usize>(
    maps: GridConstant<[MapWords; 3]>,
    schedule: Schedule,
    problem: Problem,
    a: &[f32],
    b: &[f32],
    c: &[f32],
    c_from: *const f32,
    mut d: DisjointSlice<f32>,
) {
    let (c, d) = (c_from, d.as_mut_ptr());
    // SAFETY: the caller's promise. (`wgmma` is an instruction of this architecture alone; the host launches this nowhere else.)
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        match N {
            WIDE => multiply_parts::<WIDE, { stages(WIDE) }>(maps, &schedule, &problem, c, d),
            _ => multiply_parts::<SQUARE, { stages(SQUARE) }>(maps, &schedule, &problem, c, d),
        }
    }
}

/// The body of [`hopper_three_tf32`](fn@hopper_three_tf32).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_parts<const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    c: *const f32,
    d: *mut f32,
) where
    Columns<N>: Width<f32>,
{
    // SAFETY: all lanes of each warp are here.
    let group = unsafe { warpgroup_of_warp() };
    let first = schedule.first(problem, false);
    // SAFETY: the launch gives the memory; all threads together. A lane of each warp releases a stage: warps need not be at the same one.
    let block = unsafe { Block::<N, S>::released_by(2 * WARPGROUP as u32 / 32, false) };
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                let passes = (schedule, problem);
                produce::in_turn::<Tf32, N, S>(block, maps, schedule, passes, first);
            },
            consumer own with 232 registers => {
                take_turn();
                let none = [core::ptr::null(); 2];
                let beside = Beside::new(problem, c, none[0], none[1], Plain);
                let boxes = block.boxes(own);
                let writer = BoxWriter::new(beside, problem, schedule, maps, d, boxes);
                consume_parts::<N, S>(block, writer, first, own);
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
unsafe fn consume_parts<const N: usize, const S: usize>(
    block: Block<N, S>,
    mut writer: BoxWriter<'_, f32, Plain>,
    first: Work,
    own: usize,
) where
    Columns<N>: Width<f32>,
{
    let (schedule, problem) = (writer.schedule, writer.problem);
    let (passes, stride) = (schedule.len(problem), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    let who = (own, thread_in_warpgroup());
    // SAFETY: the caller's promise; each sum is one thread's.
    unsafe {
        let mut consumer = block.pipeline.consumer();
        let mut chain = Accumulator::<f32, CHAIN>::zeroed();
        while index < passes {
            let mut sums = Accumulator::<f32, N>::zeroed();
            for _ in 0..(work.steps.1 - work.steps.0) / 2 {
                add_pair::<N, S>(&mut consumer, &mut sums, &mut chain, who);
            }
            writer.write_tile(&sums, &work, own);
            index += stride;
            work = schedule.work(problem, index);
        }
        writer.finish();
    }
}

/// Adds the products of a pair of stages, by way of `chain`.
///
/// # Safety
/// As [`consume_parts`].
#[gpu_only]
#[inline(always)]
unsafe fn add_pair<const N: usize, const S: usize>(
    consumer: &mut TileConsumer<Stage<N>, S>,
    sums: &mut Accumulator<f32, N>,
    chain: &mut Accumulator<f32, CHAIN>,
    (own, thread): (usize, usize),
) where
    Columns<N>: Width<f32>,
{
    // One lane of each warp says that the warp is done with a stage.
    let is_first = thread % 32 == 0;
    let upper = consumer.wait();
    consumer.step();
    let lower = consumer.wait();
    consumer.step();
    unrolled!(N / CHAIN, |half| {
        // SAFETY: the stages are full; their boxes are as the producer copied them, and stay until the releases after the waits.
        unsafe {
            let [a_upper, b_upper] = operands::<N, false, false>(upper, own, half * CHAIN);
            let [a_lower, b_lower] = operands::<N, false, false>(lower, own, half * CHAIN);
            chain.multiply_operands::<Tf32, Tf32, 4, false, false>([a_lower, b_upper], false);
            chain.multiply_operands::<Tf32, Tf32, 4, false, false>([a_upper, b_lower], true);
            chain.multiply_operands::<Tf32, Tf32, 4, false, false>([a_upper, b_upper], true);
            if half + 1 == N / CHAIN {
                // The products with lower parts are done with their stage.
                chain.wait::<1>();
                if is_first {
                    consumer.release(1);
                }
            }
            chain.wait::<0>();
            if half + 1 == N / CHAIN && is_first {
                consumer.release(2);
            }
            sums.combine_columns::<CHAIN>(half * CHAIN, chain, |_, sum, of_pair| sum + of_pair);
            // Additions that the compiler moved after the next products would need the chain's registers twice. (Nothing is under way.)
            sums.wait::<0>();
        }
    });
}
