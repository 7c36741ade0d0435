//! Products of 8-bit floats of either kind with scales: the tiles of [`multiply`](super::multiply), with sums that are
//! multiplied by the scales of rows and columns before alpha. Scales of blocks are `blocks.rs`.

use super::super::Plain;
use super::super::beside::Beside;
use super::super::form::{MIDDLE, SQUARE, take_turn};
use super::super::scaling::{LineScales, Pointers, ScaleLayouts};
use super::promotion::Promotes;
use super::*;
use cuda_std::f16;
use cuda_std::number::{E4m3, E5m2};

/// Multiplies 8-bit floats, both operands contiguous along K; `N` columns of D a tile, but those of 192 for a D of 8 bits
/// are empty and never launched: a box of D has 128 columns. `largest` is raised to the largest magnitude of D
/// before D's scale, as bits; it and `scale_of_d` are one element, or none.
///
/// # Safety
/// As [`multiply`](super::multiply); the schedule does not add, and K is not split. The scales are there for all elements of A and B, as `scales`
/// says, and are none of blocks.
#[kernel(
    (E4m3, E4m3, bf16, MIDDLE), (E4m3, E4m3, bf16, SQUARE),
    (E4m3, E4m3, f16, MIDDLE), (E4m3, E4m3, f16, SQUARE),
    (E4m3, E4m3, f32, MIDDLE), (E4m3, E4m3, f32, SQUARE), (E4m3, E4m3, E4m3, MIDDLE), (E4m3, E4m3, E4m3, SQUARE),
    (E4m3, E5m2, bf16, MIDDLE), (E4m3, E5m2, bf16, SQUARE),
    (E4m3, E5m2, f16, MIDDLE), (E4m3, E5m2, f16, SQUARE),
    (E4m3, E5m2, f32, MIDDLE), (E4m3, E5m2, f32, SQUARE), (E4m3, E5m2, E4m3, MIDDLE), (E4m3, E5m2, E4m3, SQUARE),
    (E5m2, E4m3, bf16, MIDDLE), (E5m2, E4m3, bf16, SQUARE),
    (E5m2, E4m3, f16, MIDDLE), (E5m2, E4m3, f16, SQUARE),
    (E5m2, E4m3, f32, MIDDLE), (E5m2, E4m3, f32, SQUARE), (E5m2, E4m3, E4m3, MIDDLE), (E5m2, E4m3, E4m3, SQUARE),
    (E5m2, E5m2, bf16, MIDDLE), (E5m2, E5m2, bf16, SQUARE),
    (E5m2, E5m2, f16, MIDDLE), (E5m2, E5m2, f16, SQUARE),
    (E5m2, E5m2, f32, MIDDLE), (E5m2, E5m2, f32, SQUARE), (E5m2, E5m2, E4m3, MIDDLE), (E5m2, E5m2, E4m3, SQUARE),
    dependent, block = BLOCK, min_blocks = 1, dynamic_shared = shared_bytes::<N>()
)]
#[allow(unexpected_cfgs, unused_variables, unused_mut)]
pub unsafe fn hopper_scaled<T, U, Out, const N: usize>(
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
    Columns<MIDDLE>: Promotes<T, U, MIDDLE>,
    Columns<SQUARE>: Promotes<T, U, SQUARE>,
{
    if const { size_of::<Out>() == 1 && N > SQUARE } {
        return;
    }
    let pointers = Pointers::new(scales_of_a, scales_of_b, scale_of_d, &mut largest);
    let scales = (&scales, pointers);
    let (c, d) = (c_from, d.as_mut_ptr());
    // SAFETY: the caller's promise. (`wgmma` is an instruction of this architecture alone; the host launches this nowhere else.)
    #[cfg(any(not(target_os = "cuda"), target_feature = "compute_90a"))]
    unsafe {
        match N {
            MIDDLE => multiply_scaled::<T, U, Out, MIDDLE, { stages(MIDDLE) }>(
                maps, &schedule, &problem, scales, c, d,
            ),
            _ => multiply_scaled::<T, U, Out, SQUARE, { stages(SQUARE) }>(
                maps, &schedule, &problem, scales, c, d,
            ),
        }
    }
}

/// The body of [`hopper_scaled`](fn@hopper_scaled).
///
/// # Safety
/// As there.
#[gpu_only]
#[inline(always)]
unsafe fn multiply_scaled<T, U, D, const N: usize, const S: usize>(
    maps: GridConstant<'_, [MapWords; 3]>,
    schedule: &Schedule,
    problem: &Problem,
    (layouts, pointers): (&ScaleLayouts, Pointers),
    c: *const D,
    d: *mut D,
) where
    T: Factor,
    U: Factor,
    D: Output,
    Columns<N>: Promotes<T, U, N>,
{
    // SAFETY: all lanes of each warp are here.
    let group = unsafe { warpgroup_of_warp() };
    let (passes, none) = ((schedule, problem), [core::ptr::null(); 2]);
    let first = schedule.first(problem, false);
    // SAFETY: the launch gives the memory; all threads together.
    let block = unsafe { Block::<N, S>::new(false) };
    // SAFETY: the producer and the consumers are whole warpgroups. 40 and twice 232 registers are the block's 168 each at entry.
    unsafe {
        warp_specialized! {
            group,
            producer with 40 registers => {
                produce::in_turn::<T, N, S>(block, maps, schedule, passes, first);
            },
            consumer own with 232 registers => {
                take_turn();
                let begun = (first, own);
                let elements = output::Output::new(problem, c, none, d, Plain);
                let beside = Beside::new(problem, c, none[0], none[1], Plain);
                let beside = beside.scaled(LineScales::new(*layouts, pointers));
                let boxes = block.boxes(own);
                let writer = BoxWriter::new(beside, problem, schedule, maps, d, boxes);
                consume::all::<T, U, _, _, _, N, S>(block, writer, elements, passes, begun);
            },
        }
    }
}
