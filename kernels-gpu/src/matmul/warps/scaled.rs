//! Products of 8-bit floats of either kind with scales, by warps.

use super::operand::Floats;
use super::{Chains, SIDE, THREADS, multiply_along_k, shared_bytes};
use crate::matmul::Plain;
use crate::matmul::beside::Beside;
use crate::matmul::bytes::Byte;
use crate::matmul::output::Output;
use crate::matmul::place::Place;
use crate::matmul::scaling::{BLOCK, LineScales, Pointers, ScaleLayout, ScaleLayouts};
use crate::matmul::{Problem, Value};
use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::number::{E4m3, E5m2};
use cuda_std::{bf16, f16};

const _: () = assert!(BLOCK == SIDE, "a tile has columns of one block");

/// The scales of blocks, for a tile.
#[derive(Clone, Copy)]
struct ScaledChains<'a> {
    problem: &'a Problem,
    place: Place,
    layouts: &'a ScaleLayouts,
    pointers: Pointers,
}

impl ScaledChains<'_> {
    /// The scale of a row of A, or of a block of columns of B.
    ///
    /// # Safety
    /// It exists.
    #[inline(always)]
    unsafe fn scale(self, layout: &ScaleLayout, from: *const f32, line: usize, k: usize) -> f32 {
        if layout.kind != ScaleLayout::BLOCKS {
            return 1.0;
        }
        let of_batch = self.place.batch * layout.batch as usize;
        // SAFETY: the caller's promise.
        unsafe {
            from.add(of_batch + line * layout.line as usize + k * layout.along_k as usize).read()
        }
    }
}

impl<T: Byte, U: Byte> Chains<Floats<T, U>> for ScaledChains<'_> {
    /// 128 along K.
    const STAGES: usize = 2;
    type OfChain = f32;

    #[inline(always)]
    unsafe fn load(self, number: usize) -> f32 {
        // SAFETY: the caller's promise.
        unsafe { self.scale(&self.layouts.b, self.pointers.b, self.place.column / BLOCK, number) }
    }

    #[inline(always)]
    unsafe fn add(
        self,
        number: usize,
        of_b: f32,
        rows: [usize; 2],
        sums: [f32; 4],
        chain: [f32; 4],
    ) -> [f32; 4] {
        let last = self.problem.m as usize - 1;
        // SAFETY: a row of D. The sums of others are not stored.
        let [above, below] = rows.map(|row| unsafe {
            of_b * self.scale(&self.layouts.a, self.pointers.a, row.min(last), number)
        });
        [
            above * chain[0] + sums[0],
            above * chain[1] + sums[1],
            below * chain[2] + sums[2],
            below * chain[3] + sums[3],
        ]
    }
}

/// Multiplies 8-bit floats with scales, as [`hopper_scaled`](fn@crate::matmul::hopper::hopper_scaled) does. Launch [`blocks`](super::blocks).
///
/// # Safety
/// As there, without maps and schedule; A and B are contiguous along K.
#[kernel(
    (E4m3, E4m3, bf16), (E4m3, E4m3, f16), (E4m3, E4m3, f32), (E4m3, E4m3, E4m3),
    (E4m3, E5m2, bf16), (E4m3, E5m2, f16), (E4m3, E5m2, f32), (E4m3, E5m2, E4m3),
    (E5m2, E4m3, bf16), (E5m2, E4m3, f16), (E5m2, E4m3, f32), (E5m2, E4m3, E4m3),
    (E5m2, E5m2, bf16), (E5m2, E5m2, f16), (E5m2, E5m2, f32), (E5m2, E5m2, E4m3),
    block = THREADS, min_blocks = 1, dynamic_shared = shared_bytes::<Floats<T, U>>()
)]
pub unsafe fn warps_scaled<T: Pod + Byte, U: Pod + Byte, Out: Value>(
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
) {
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    let (a, b, d) = (a.as_ptr().cast(), b.as_ptr().cast(), d.as_mut_ptr());
    let pointers = Pointers::new(scales_of_a, scales_of_b, scale_of_d, &mut largest);
    let (problem, layouts, none) = (&problem, &scales, [core::ptr::null(); 2]);
    let place = Place::of(thread::block_idx_x(), problem, SIDE, SIDE);
    let chains = ScaledChains { problem, place, layouts, pointers };
    // SAFETY: the caller's promise; each thread has sums of its own, and the batch is inside; all threads are here.
    unsafe {
        let beside = Beside::new(problem, c_from, none[0], none[1], Plain);
        let beside = beside.scaled(LineScales::new(*layouts, pointers));
        let output = Output::of(problem, beside, d);
        multiply_along_k::<Floats<T, U>, _>(problem, place, a, b, chains, |row, columns, sums| {
            output.write_pair(sums, place.batch, row, columns);
        });
        output.end();
    }
}
