//! The steps from a loop to tensor cores, each as an operation of its own, and the element types that warps multiply on every
//! device since `sm_80`.
//!
//! | operation | elements | sums | what it is for |
//! |---|---|---|---|
//! | [`naive_into`], [`tiled_into`] | bf16, f16, f32 | f32 | to be read |
//! | [`registers_into`] | bf16, f16, f32 | f32, fused multiply-adds | f32 on ordinary cores |
//! | [`warps_into`] | bf16, f16, `Tf32`, FP8 | f32 on tensor cores | devices before Hopper; any alignment |
//!
//! All take what [`matmul_into`](super::matmul_into) takes, in any order of the matrices, with any leading dimension and any alignment of
//! elements, and need no scratch. Where rows of A or B do not begin at multiples of 16 bytes, tiles are copied element by element.
//! Errors are those of [`matmul_into`](super::matmul_into) for shapes and overlaps.

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, Grid1, Instance, KernelValue};
use kernels_gpu::matmul::form::{self, Arguments, MatmulKernel};
use kernels_gpu::matmul::naive::{NAIVE_BLOCK, naive};
use kernels_gpu::matmul::registers::{register_blocks, registers};
use kernels_gpu::matmul::tiled::{tiled, tiled_blocks};
use kernels_gpu::matmul::warps::blocks;
use kernels_gpu::matmul::{Epilogue, Factor, Problem, Value};

use super::choice::BLOCKS_LIMIT;
use super::operands::Prepared;
use super::{Matrix, MatrixMut, OPERATION, Options};
use crate::error::{GpuError, GpuResult};
use crate::ops::views::{As, AsMut};
use crate::stream::{AsStream, Stream};

/// What a launch of a step takes beside the grid.
struct Launch<'a, T: Pod, D: Pod, E> {
    stream: &'a Stream,
    problem: Problem,
    a: Matrix<'a, T>,
    b: Matrix<'a, T>,
    c: As<'a, D>,
    c_from: DevicePtr<D>,
    per_row: As<'a, D>,
    per_column: As<'a, D>,
    d: MatrixMut<'a, D>,
    epilogue: E,
}

/// Checks everything, and calls `launch` unless D is empty.
fn step<T: Pod, D: Pod, E: Epilogue>(
    on: &impl AsStream,
    [a, b]: [Matrix<'_, T>; 2],
    d: MatrixMut<'_, D>,
    options: Options<'_, D, E>,
    launch: impl FnOnce(Launch<'_, T, D, E>) -> GpuResult<()>,
) -> GpuResult<()> {
    let Prepared { problem, is_exchanged, .. } = Prepared::new::<T, D, E>(&a, &b, &d, &options)?;
    if problem.m == 0 || problem.n == 0 || problem.batches == 0 {
        return Ok(());
    }
    let (a, b) = if is_exchanged { (b, a) } else { (a, b) };
    launch(Launch {
        stream: on.as_stream(),
        problem,
        a,
        b,
        c: As::optional(options.c.as_ref().map(|c| &c.memory)),
        c_from: DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address)),
        per_row: As::optional(options.per_row.as_ref()),
        per_column: As::optional(options.per_column.as_ref()),
        d,
        epilogue: options.epilogue,
    })
}

/// Blocks of a grid, if there are not too many.
pub(super) fn grid_blocks(blocks: usize) -> GpuResult<u32> {
    let reason = || format!("{blocks} tiles, and a grid has 2^31 - 1 blocks at most");
    let wrong = || GpuError::InvalidArgument { operation: OPERATION, reason: reason() };
    if blocks < BLOCKS_LIMIT { Ok(blocks as u32) } else { Err(wrong()) }
}

/// A grid of a block for each tile.
fn grid(blocks: usize) -> GpuResult<Grid1> {
    grid_blocks(blocks).map(Grid1::new)
}

/// Writes an operation for a kernel with an epilogue.
macro_rules! steps {
    ($($(#[$doc:meta])* $name:ident: $kernel:ident [$($generic:ident: $bound:path),*] $element:ty, |$problem:ident| $grid:expr;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and vectors; errors of the launch.
        pub fn $name<$($generic: Pod + $bound,)* D: Value, E: Epilogue + KernelValue>(
            on: &impl AsStream,
            a: Matrix<'_, $element>,
            b: Matrix<'_, $element>,
            d: MatrixMut<'_, D>,
            options: Options<'_, D, E>,
        ) -> GpuResult<()>
        where
            $kernel<$($generic,)* D, E>: Instance,
        {
            step(on, [a, b], d, options, |launch| {
                let $problem = &launch.problem;
                let grid = $grid;
                let Launch { stream, problem, a, b, c, c_from, per_row, per_column, mut d, epilogue } = launch;
                // SAFETY: the shapes fit, and D is apart from A and B, by `Prepared`.
                unsafe {
                    $kernel::<$($generic,)* D, E>::launch(
                        stream, grid, problem, &a.memory, &b.memory, &c, c_from, &per_row, &per_column, &mut d.memory, epilogue,
                    )
                }
            })
        }
    )*};
}

steps! {
    /// One thread an element. Asynchronous.
    naive_into: naive [T: Value] T, |problem| {
        grid(problem.tiles(1, 1).div_ceil(NAIVE_BLOCK))?
    };

    /// Tiles of 32 × 32 in shared memory. Asynchronous.
    tiled_into: tiled [T: Value] T, |problem| grid(tiled_blocks(problem))?;

    /// Tiles in registers, on ordinary cores: of f32 each step is a fused multiply-add of f32. Asynchronous.
    registers_into: registers [T: Value] T, |problem| grid(register_blocks(problem))?;
}

/// `mma` and `cp.async`: floats of 16 or 8 bits on tensor cores, which is what [`matmul_into`](super::matmul_into) takes where there is no
/// faster kernel. Asynchronous.
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and vectors; errors of the launch.
pub fn warps_into<T: Factor, D: Pod, E: MatmulKernel<T, D>>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: MatrixMut<'_, D>,
    options: Options<'_, D, E>,
) -> GpuResult<()> {
    step(on, [a, b], d, options, |launch| {
        let Launch { stream, problem, a, b, c, c_from, per_row, per_column, mut d, epilogue } =
            launch;
        let blocks = grid_blocks(blocks(&problem))?;
        let arguments = Arguments { form: form::WARPS, blocks, problem, ..Arguments::default() };
        // SAFETY: the shapes fit, and D is apart from A and B, by `Prepared`.
        unsafe {
            epilogue.launch(
                stream,
                &arguments,
                &a.memory,
                &b.memory,
                &c,
                c_from,
                &per_row,
                &per_column,
                &mut d.memory,
                &mut AsMut::<u32>::none(),
                &mut AsMut::<f32>::none(),
            )
        }
    })
}
