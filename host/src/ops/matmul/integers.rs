//! Products of bytes, with sums of i32.

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, Grid1, Instance};
use kernels_gpu::matmul::form::{SQUARE, WIDE};
use kernels_gpu::matmul::hopper::hopper_integer;
use kernels_gpu::matmul::warps::warps_integer;
use kernels_gpu::matmul::{Integer, Plain};

use super::choice::{Choice, Kernel, Machine, Tile};
use super::operands::Prepared;
use super::steps::grid_blocks;
use super::{Matrix, MatrixMut, Options, copies_bytes, fastest};
use crate::error::GpuResult;
use crate::ops::Scratch;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::As;
use crate::stream::AsStream;

/// The tiles of warpgroups.
const TILES: &[Tile] = &[Tile::Wide, Tile::Square];

/// `D = alpha · A·B + beta · C` of i8 or u8, with sums of i32 that wrap, on tensor cores. To i32, alpha and beta are taken as
/// integers, towards zero, and everything wraps; to i8 the result is computed in f32, rounded to the nearest, ties to
/// even, and limited to -128..=127. Without C, C is the previous content of D; with a beta of 0 it is not read. Asynchronous; allocates only where
/// `scratch` is smaller than [`integer_scratch_bytes`].
///
/// On Hopper warpgroups multiply bytes that are contiguous along K: A in row-major and B in column-major order, with rows that begin at multiples of
/// 16 bytes. Other operands are copied to `scratch` first where that pays, or warps multiply, as on other devices.
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and choices; errors of the launch.
pub fn integer_into<T: Pod, D: Integer>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    mut d: MatrixMut<'_, D>,
    options: Options<'_, D>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    warps_integer<T, D>: Instance,
    hopper_integer<T, D, WIDE>: Instance,
    hopper_integer<T, D, SQUARE>: Instance,
{
    let this = Prepared::new::<T, D, Plain>(&a, &b, &d, &options)?;
    if this.problem.m == 0 || this.problem.n == 0 || this.problem.batches == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let machine = Machine::untuned(stream.inner().context().info()).limited(&options);
    let all = || this.unsplit_choices(&machine, size_of::<T>(), TILES);
    let best = || fastest(all().into_iter()).unwrap_or(Choice::NONE);
    let choice = this.pick::<T, D, Plain>(&options, best, all)?;
    let (a, b) = if this.is_exchanged { (b, a) } else { (a, b) };
    let packings = this.packings_for(&choice);
    let (_, [mut copy_of_a, mut copy_of_b]) =
        scratch.parts(stream, copies_bytes::<T>(&packings))?;
    let this = this.packed(stream, packings, [&a, &b], [&mut copy_of_a, &mut copy_of_b])?;
    let a = if packings[0].is_some() { As::<T>::new(&copy_of_a) } else { As::new(&a.memory) };
    let b = if packings[1].is_some() { As::<T>::new(&copy_of_b) } else { As::new(&b.memory) };
    let c = As::<D>::optional(options.c.as_ref().map(|c| &c.memory));
    let c_from = DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address));
    let (grid, problem, d) = (Grid1::new(grid_blocks(choice.blocks)?), this.problem, &mut d.memory);
    let Kernel::Hopper { tile, .. } = choice.kernel else {
        // SAFETY: the shapes fit, and D is apart from A and B, by `Prepared`.
        return unsafe {
            warps_integer::<T, D>::launch(stream, grid, problem, &a, &b, &c, c_from, d)
        };
    };
    let (maps, schedule) = this.schedule(stream, (tile, &choice), None)?;
    // SAFETY: as above; the maps and the schedule are of these matrices.
    unsafe {
        match tile {
            Tile::Wide => hopper_integer::<T, D, WIDE>::launch(
                stream, grid, maps, schedule, problem, &a, &b, &c, c_from, d,
            ),
            _ => hopper_integer::<T, D, SQUARE>::launch(
                stream, grid, maps, schedule, problem, &a, &b, &c, c_from, d,
            ),
        }
    }
}

/// The scratch of [`integer_into`] for these matrices, in bytes: copies of A and B.
///
/// # Errors
/// As [`integer_into`] for shapes and overlaps.
pub fn integer_scratch_bytes<T: Pod, D: Integer>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<usize> {
    let this = Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?;
    let all = this.unsplit_choices(
        &Machine::untuned(on.as_stream().inner().context().info()),
        size_of::<T>(),
        TILES,
    );
    let choice = fastest(all.into_iter()).unwrap_or(Choice::NONE);
    Ok(size_of_parts(&copies_bytes::<T>(&this.packings_for(&choice))))
}

/// Everything that [`integer_into`] may launch for these matrices, the fastest first by the cost model, for [`Options::choice`].
///
/// # Errors
/// As [`integer_into`] for shapes and overlaps.
pub fn integer_choices<T: Pod, D: Integer>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<Vec<Choice>> {
    let this = Prepared::new::<T, D, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    let mut found = this.unsplit_choices(&machine, 1, TILES);
    found.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    Ok(found)
}
