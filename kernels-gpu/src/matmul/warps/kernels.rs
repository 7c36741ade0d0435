//! The entries: what a product's elements are, and what becomes of its sums.

use super::operand::{Operand, ThreeTf32};
use super::{SIDE, THREADS, multiply, shared_bytes};
use crate::matmul::groups::{self, GroupTile};
use crate::matmul::integer::{Integer, IntegerOutput};
use crate::matmul::output::Output;
use crate::matmul::place::Place;
use crate::matmul::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::{bf16, f16};

/// The body of the kernels with sums of f32. Launch [`blocks`](super::blocks) of [`THREADS`], with
/// [`shared_bytes`] of dynamic shared memory.
///
/// # Safety
/// - All threads of the block call this together.
/// - As [`Beside::new`](crate::matmul::beside::Beside::new) for what the epilogue reads; A, B and D have every element that `problem`
///   leads to. D's elements are not those of A, B or of another batch.
#[allow(clippy::too_many_arguments)]
#[inline(always)]
pub unsafe fn with_epilogue<O: Operand<Sum = f32>, D: Value, E: Epilogue>(
    problem: &Problem,
    a: *const O::Element,
    b: *const O::Element,
    c: *const D,
    per_row: *const D,
    per_column: *const D,
    d: *mut D,
    epilogue: E,
) {
    let place = Place::of(thread::block_idx_x(), problem, SIDE, SIDE);
    // SAFETY: the caller's promise; each thread has sums of its own, and the batch is inside.
    unsafe {
        let output = Output::new(problem, c, [per_row, per_column], d, epilogue);
        multiply::<O>(problem, place, a, b, |row, columns, sums| {
            output.write_pair(sums, place.batch, row, columns);
        });
    }
}

/// Writes kernels of [`with_epilogue`].
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident[$($instance:tt),*] $operand:ty, $element:ty, $min_blocks:literal;)*) => {$(
        $(#[$doc])*
        /// Launch [`blocks`](super::blocks).
        ///
        /// # Safety
        /// As [`with_epilogue`].
        #[kernel(
            $($instance),*,
            block = THREADS, min_blocks = $min_blocks, dynamic_shared = shared_bytes::<$operand>()
        )]
        pub unsafe fn $name<Out: Value, E: Epilogue>(
            problem: Problem,
            a: &[$element],
            b: &[$element],
            c: &[Out],
            c_from: *const Out,
            per_row: &[Out],
            per_column: &[Out],
            mut d: DisjointSlice<Out>,
            epilogue: E,
        ) {
            // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
            let _ = c;
            let (per_row, per_column) = (per_row.as_ptr(), per_column.as_ptr());
            let (a, b, d) = (a.as_ptr(), b.as_ptr(), d.as_mut_ptr());
            // SAFETY: the caller's promise.
            unsafe {
                with_epilogue::<$operand, Out, E>(
                    &problem, a, b, c_from, per_row, per_column, d, epilogue,
                );
            }
        }
    )*};
}

kernels! {
    /// Multiplies f32 as three products of TF32: see [`ThreeTf32`].
    warps_three_tf32[(f32, Plain)] ThreeTf32, f32, 1;
}

/// `D = alpha · A·B + beta · C` in f64. Launch [`blocks`](super::blocks). The factors are these, not those of the problem.
///
/// # Safety
/// As [`warps_three_tf32()`].
#[kernel(block = THREADS, min_blocks = 1, dynamic_shared = shared_bytes::<f64>())]
pub unsafe fn warps_double(
    problem: Problem,
    alpha: f64,
    beta: f64,
    a: &[f64],
    b: &[f64],
    c: &[f64],
    c_from: *const f64,
    mut d: DisjointSlice<f64>,
) {
    let place = Place::of(thread::block_idx_x(), &problem, SIDE, SIDE);
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    let (c, d) = (c_from, d.as_mut_ptr());
    let one = |sum: f64, row: usize, column: usize| {
        if row < problem.m as usize && column < problem.n as usize {
            let index = |strides: crate::matmul::Strides| strides.index(place.batch, row, column);
            // SAFETY: inside; the caller's promise.
            unsafe {
                let addend = if beta != 0.0 { beta * c.add(index(problem.c)).read() } else { 0.0 };
                d.add(index(problem.d)).write(alpha * sum + addend);
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        multiply::<f64>(&problem, place, a.as_ptr(), b.as_ptr(), |row, columns, sums| {
            one(sums[0], row, columns[0]);
            one(sums[1], row, columns[1]);
        });
    }
}

/// Multiplies bytes, with sums of i32 that wrap. Launch [`blocks`](super::blocks).
///
/// # Safety
/// As [`warps_three_tf32()`].
#[kernel(
    (i8, i32), (u8, i32), (i8, i8),
    block = THREADS, min_blocks = 2, dynamic_shared = shared_bytes::<T>()
)]
pub unsafe fn warps_integer<T: Pod + Operand<Element = T, Sum = i32>, Out: Integer>(
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    mut d: DisjointSlice<Out>,
) {
    let place = Place::of(thread::block_idx_x(), &problem, SIDE, SIDE);
    // `c` orders the launch after what wrote C, which may be D itself: no slice may be.
    let _ = c;
    let output = IntegerOutput::new(&problem, c_from, d.as_mut_ptr());
    // SAFETY: the caller's promise; each thread has sums of its own, and the batch is inside.
    unsafe {
        multiply::<T>(&problem, place, a.as_ptr(), b.as_ptr(), |row, columns, sums| {
            output.write_pair(sums, place.batch, row, columns);
        });
    }
}

const _: () = assert!(groups::ROWS == SIDE);

/// `D[rows of group i] = alpha · A[rows of group i] · B[i] + beta · C[rows of group i]`, by the tiles that
/// [`group_tiles`](fn@crate::matmul::groups::group_tiles) lists. Launch a block for each 128 columns of each tile that there may be: the others
/// leave.
///
/// # Safety
/// As [`warps_three_tf32()`], of A, C and D as one matrix each, and of a matrix of B for each group.
#[kernel(
    (bf16, bf16), (f16, f16),
    block = THREADS, min_blocks = 2, dynamic_shared = shared_bytes::<T>()
)]
pub unsafe fn warps_grouped<T: Pod + Operand<Element = T, Sum = f32>, Out: Value>(
    problem: Problem,
    tiles: &[GroupTile],
    a: &[T],
    b: &[T],
    c: &[Out],
    c_from: *const Out,
    mut d: DisjointSlice<Out>,
) {
    let _ = c;
    let (block, across) = (thread::block_idx_x(), problem.n.div_ceil(SIDE as u32));
    let (number, column) = (block / across, block % across);
    let list = tiles.first().map_or(0, |first| first.group);
    let Some(tile) = tiles.get(1 + number as usize).filter(|_| number < list) else { return };
    let column = column as usize * SIDE;
    let place = Place { batch: tile.group as usize, row: tile.row as usize, column };
    // The tile's rows end with its group.
    let problem = Problem { m: tile.end, ..problem };
    let none = [core::ptr::null(); 2];
    // SAFETY: the caller's promise; each thread has sums of its own.
    unsafe {
        let output = Output::new(&problem, c_from, none, d.as_mut_ptr(), Plain);
        multiply::<T>(&problem, place, a.as_ptr(), b.as_ptr(), |row, columns, sums| {
            output.write_pair(sums, 0, row, columns);
        });
    }
}
