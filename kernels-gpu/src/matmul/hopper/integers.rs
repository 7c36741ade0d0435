//! Products of bytes: the tiles of [`multiply`](super::multiply), with sums of i32, which are written from registers.

use super::super::form::{SQUARE, WIDE, take_turn};
use super::super::integer::{Integer, IntegerOutput};
use super::*;
use cuda_std::unrolled;

/// Multiplies bytes, both operands contiguous along K, with sums of i32 that wrap; `N` columns of D a tile.
///
/// # Safety
/// As [`multiply`](super::multiply), with maps of A and B alone, of bytes. The schedule neither adds nor has D mapped, and K is not
/// split.
#[kernel(
    (i8, i32, WIDE), (i8, i32, SQUARE), (u8, i32, WIDE), (u8, i32, SQUARE), (i8, i8, WIDE), (i8, i8, SQUARE),
    dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<N>()
)]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_integer<T, Out, const N: usize>(
    maps: GridConstant<[MapWords; 3]>,
    schedule: Schedule,
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    mut d: DisjointSlice<Out>,
) where
    T: TensorElement,
    Out: Integer,
    Columns<WIDE>: Instruction<T, T, i32>,
    Columns<SQUARE>: Instruction<T, T, i32>,
{
    let output = IntegerOutput::new(&problem, c_from, d.as_mut_ptr());
    // SAFETY: the caller's promise. (`wgmma` is an instruction of this architecture alone; the host launches this nowhere else.)
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        match N {
            WIDE => multiply_bytes::<T, Out, WIDE, { stages(WIDE) }>(maps, &schedule, output),
            _ => multiply_bytes::<T, Out, SQUARE, { stages(SQUARE) }>(maps, &schedule, output),
        }
    }
}

/// The body of [`hopper_integer`](fn@hopper_integer).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_bytes<T, Out, const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    output: IntegerOutput<'_, Out>,
) where
    T: TensorElement,
    Out: Integer,
    Columns<N>: Instruction<T, T, i32>,
{
    // SAFETY: all lanes of each warp are here.
    let group = unsafe { warpgroup_of_warp() };
    let first = schedule.first(output.problem(), false);
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<N, S>::new(false) };
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                let passes = (schedule, output.problem());
                produce::in_turn::<T, N, S>(block, maps, schedule, passes, first);
            },
            consumer own with 232 registers => {
                take_turn();
                consume_bytes::<T, Out, N, S>(block, schedule, output, first, own);
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
unsafe fn consume_bytes<T, Out, const N: usize, const S: usize>(
    block: Block<N, S>,
    schedule: &Schedule,
    output: IntegerOutput<'_, Out>,
    first: Work,
    own: usize,
) where
    T: TensorElement,
    Out: Integer,
    Columns<N>: Instruction<T, T, i32>,
{
    let (problem, thread) = (output.problem(), thread_in_warpgroup());
    let (passes, stride) = (schedule.len(problem), thread::grid_dim_x());
    let (mut index, mut work) = (thread::block_idx_x(), first);
    // SAFETY: the caller's promise; each sum is one thread's.
    unsafe {
        let mut consumer = block.pipeline.consumer();
        while index < passes {
            let mut sums = Accumulator::<i32, N>::zeroed();
            let (current, steps) = (work, work.steps.1 - work.steps.0);
            index += stride;
            work = consume::add::<T, T, i32, N, S, false, false>(
                &mut consumer,
                &mut sums,
                (own, thread),
                steps,
                || schedule.work(problem, index),
            );
            let row = current.rows.0 as usize + own * ROWS;
            let column = current.column as usize * N;
            let (below, right) = Accumulator::<i32, N>::position(thread, 0);
            let at = [current.output as usize, row + below, column + right];
            // One address for all sums of a row, from which the others are at constant distances.
            if let Some([above, below]) = output.places_of_tile([row, column], [ROWS, N], at) {
                unrolled!(N / 8, |eight| {
                    output.write_plain(above, 8 * eight, sums.pair(4 * eight));
                    output.write_plain(below, 8 * eight, sums.pair(4 * eight + 2));
                });
            } else {
                unrolled!(N / 4, |pair| {
                    let [batch, row, column] = at;
                    let (row, column) = (row + pair % 2 * 8, column + pair / 2 * 8);
                    output.write_pair(sums.pair(2 * pair), batch, row, [column, column + 1]);
                });
            }
        }
    }
}
