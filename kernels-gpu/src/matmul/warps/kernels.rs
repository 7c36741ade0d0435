//! The entries: what a product's elements are, and what becomes of its sums.

use super::operand::{Operand, Tf32, ThreeTf32};
use super::{SIDE, THREADS, multiply, shared_bytes};
use crate::matmul::output::Output;
use crate::matmul::place::Place;
use crate::matmul::{Epilogue, Plain, Problem, Value};
use crate::prelude::*;
use bytemuck::Pod;
use cuda_std::intrinsics::float2int_rn;
use cuda_std::{bf16, f16};

/// A block's part of a product of f32 sums.
///
/// # Safety
/// As [`warps`].
#[inline(always)]
unsafe fn with_epilogue<O: Operand<Sum = f32>, D: Value, E: Epilogue>(
    problem: Problem,
    a: &[O::Element],
    b: &[O::Element],
    output: Output<E, D>,
) {
    let place = Place::of(thread::block_idx_x(), &problem, SIDE, SIDE);
    // SAFETY: the caller's promise; each thread has sums of its own, and the batch is inside.
    unsafe {
        multiply::<O>(&problem, place, a.as_ptr(), b.as_ptr(), |row, column, gap, sums| {
            if gap == 1 {
                output.write_pair(sums, place.batch, row, column);
            } else {
                output.write(sums[0], place.batch, row, column);
                output.write(sums[1], place.batch, row, column + gap);
            }
        });
    }
}

/// Multiplies 16-bit floats. Launch [`blocks`](super::blocks).
///
/// # Safety
/// The matrices and vectors are as large as `problem` says, and D's elements are not those of another matrix.
#[kernel(
    (bf16, bf16, Plain), (f16, f16, Plain), (bf16, f32, Plain), (f16, f32, Plain),
    block = THREADS, min_blocks = 2, dynamic_shared = shared_bytes::<T>()
)]
pub unsafe fn warps<T: Value + Operand<Element = T, Sum = f32>, D: Value, E: Epilogue>(
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[D],
    per_row: &[D],
    per_column: &[D],
    mut d: DisjointSlice<D>,
    epilogue: E,
) {
    let output = Output::new(problem, c, [per_row, per_column], &mut d, epilogue);
    // SAFETY: the caller's promise.
    unsafe { with_epilogue::<T, D, E>(problem, a, b, output) }
}

/// Multiplies f32 rounded to TF32. Launch [`blocks`](super::blocks).
///
/// # Safety
/// As [`warps`].
#[kernel(Plain, block = THREADS, min_blocks = 2, dynamic_shared = shared_bytes::<Tf32>())]
pub unsafe fn warps_tf32<E: Epilogue>(
    problem: Problem,
    a: &[f32],
    b: &[f32],
    c: &[f32],
    per_row: &[f32],
    per_column: &[f32],
    mut d: DisjointSlice<f32>,
    epilogue: E,
) {
    let output = Output::new(problem, c, [per_row, per_column], &mut d, epilogue);
    // SAFETY: the caller's promise.
    unsafe { with_epilogue::<Tf32, f32, E>(problem, a, b, output) }
}

/// Multiplies f32 as three products of TF32: see [`ThreeTf32`]. Launch [`blocks`](super::blocks).
///
/// # Safety
/// As [`warps`].
#[kernel(Plain, block = THREADS, min_blocks = 1, dynamic_shared = shared_bytes::<ThreeTf32>())]
pub unsafe fn warps_three_tf32<E: Epilogue>(
    problem: Problem,
    a: &[f32],
    b: &[f32],
    c: &[f32],
    per_row: &[f32],
    per_column: &[f32],
    mut d: DisjointSlice<f32>,
    epilogue: E,
) {
    let output = Output::new(problem, c, [per_row, per_column], &mut d, epilogue);
    // SAFETY: the caller's promise.
    unsafe { with_epilogue::<ThreeTf32, f32, E>(problem, a, b, output) }
}

/// `D = alpha · A·B + beta · C` in f64. Launch [`blocks`](super::blocks). The factors are these, not those of the problem.
///
/// # Safety
/// As [`warps`].
#[kernel(block = THREADS, min_blocks = 1, dynamic_shared = shared_bytes::<f64>())]
pub unsafe fn warps_double(
    problem: Problem,
    alpha: f64,
    beta: f64,
    a: &[f64],
    b: &[f64],
    c: &[f64],
    mut d: DisjointSlice<f64>,
) {
    let place = Place::of(thread::block_idx_x(), &problem, SIDE, SIDE);
    let (c, d) = (c.as_ptr(), d.as_mut_ptr());
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
        multiply::<f64>(&problem, place, a.as_ptr(), b.as_ptr(), |row, column, gap, sums| {
            one(sums[0], row, column);
            one(sums[1], row, column + gap);
        });
    }
}

/// What a product of integers is stored as.
pub trait Integer: Pod {
    /// From `alpha · sum + beta · c`; `c` is read where beta is not 0.
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self;
}

/// Alpha and beta are taken as integers; sums wrap.
impl Integer for i32 {
    #[inline(always)]
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self {
        let addend = if beta != 0.0 { (beta as i32).wrapping_mul(c()) } else { 0 };
        (alpha as i32).wrapping_mul(sum).wrapping_add(addend)
    }
}

/// Rounded to the nearest, ties to even, and limited to the type's range.
impl Integer for i8 {
    #[inline(always)]
    fn store(sum: i32, alpha: f32, beta: f32, c: impl Fn() -> Self) -> Self {
        let addend = if beta != 0.0 { beta * f32::from(c()) } else { 0.0 };
        float2int_rn(alpha * sum as f32 + addend).clamp(-128, 127) as i8
    }
}

/// Multiplies bytes, with sums of i32 that wrap. Launch [`blocks`](super::blocks).
///
/// # Safety
/// As [`warps`].
#[kernel(
    (i8, i32), (u8, i32), (i8, i8),
    block = THREADS, min_blocks = 2, dynamic_shared = shared_bytes::<T>()
)]
pub unsafe fn warps_integer<T: Pod + Operand<Element = T, Sum = i32>, D: Integer>(
    problem: Problem,
    a: &[T],
    b: &[T],
    c: &[D],
    mut d: DisjointSlice<D>,
) {
    let place = Place::of(thread::block_idx_x(), &problem, SIDE, SIDE);
    let (c, d) = (c.as_ptr(), d.as_mut_ptr());
    let one = |sum: i32, row: usize, column: usize| {
        if row < problem.m as usize && column < problem.n as usize {
            let index = |strides: crate::matmul::Strides| strides.index(place.batch, row, column);
            // SAFETY: inside; the caller's promise.
            unsafe {
                let c = || c.add(index(problem.c)).read();
                d.add(index(problem.d)).write(D::store(sum, problem.alpha, problem.beta, c));
            }
        }
    };
    // SAFETY: the caller's promise.
    unsafe {
        multiply::<T>(&problem, place, a.as_ptr(), b.as_ptr(), |row, column, gap, sums| {
            one(sums[0], row, column);
            one(sums[1], row, column + gap);
        });
    }
}
