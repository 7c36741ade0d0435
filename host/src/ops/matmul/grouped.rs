//! Products of groups of rows, each with a matrix of its own.

use bytemuck::Pod;
use cuda_std::launch::{DevicePtr, DeviceRead, Grid1, Instance};
use kernels_gpu::matmul::form::WIDE;
use kernels_gpu::matmul::groups::{GroupTile, group_tiles, most_tiles};
use kernels_gpu::matmul::hopper::hopper_grouped;
use kernels_gpu::matmul::warps::{SIDE, warps_grouped};
use kernels_gpu::matmul::{Factor, Plain, Problem};

use super::choice::{Choice, Machine, Tile};
use super::operands::{Prepared, map_of_d};
use super::steps::grid_blocks;
use super::{Matrix, MatrixLayout, MatrixMut, OPERATION, Options, Order};
use crate::error::{GpuError, GpuResult};
use crate::ops::scratch::size_of_parts;
use crate::ops::views::As;
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// `D[rows of group i] = alpha · A[rows of group i] · B[i] + beta · C[rows of group i]`: the layers of a mixture of experts, whose tokens are sorted
/// by expert.
///
/// A is `rows × k`, C and D are `rows × n`, in row-major order; B is a batch of `k × n`, one for each group. Group `i` has the rows
/// `offsets[i]..offsets[i + 1]`, so that there is an offset more than groups; it may be empty. The host does not read the offsets. Rows before the first
/// offset and from the last one on stay as they are. Asynchronous, in two launches; allocates only where `scratch` is smaller than
/// [`grouped_scratch_bytes`].
///
/// ```
/// use cuda_std::bf16;
/// use ferrowarp::ops::Scratch;
/// use ferrowarp::ops::matmul::{self, Matrix, MatrixMut, Options};
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// // Three rows of two elements. The first one is multiplied by 1, the others by 2.
/// let numbers = |numbers: &[f32]| numbers.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
/// let a = DeviceBuffer::from_slice(&gpu, &numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))?;
/// let b = DeviceBuffer::from_slice(&gpu, &numbers(&[1.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0, 2.0]))?;
/// let offsets = DeviceBuffer::from_slice(&gpu, &[0u32, 1, 3])?;
/// let mut d = DeviceBuffer::<bf16>::zeroed(&gpu, 6)?;
///
/// let groups = Matrix::row_major(&b, 2, 2)?.batched(2, 4)?;
/// let result = MatrixMut::row_major(&mut d, 3, 2)?;
/// let mut scratch = Scratch::new(&gpu)?;
/// let a = Matrix::row_major(&a, 3, 2)?;
/// matmul::grouped_into(&gpu, a, groups, &offsets, result, Options::new(), &mut scratch)?;
/// assert_eq!(d.to_vec()?, numbers(&[1.0, 2.0, 6.0, 8.0, 10.0, 12.0]));
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes and overlaps; [`InvalidArgument`](GpuError::InvalidArgument) if A, C or D is a
/// batch, or D is column-major; [`SizeMismatch`](GpuError::SizeMismatch) if there is not an offset more than matrices of B. Offsets that do not ascend, or that
/// are more than A has rows, are a panic of the kernel, and D stays as it is.
pub fn grouped_into<T: Factor, D: Pod>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
    offsets: &impl DeviceRead<u32>,
    mut d: MatrixMut<'_, D>,
    options: Options<'_, D>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    hopper_grouped<T, D>: Instance,
    warps_grouped<T, D>: Instance,
{
    let (x, y, z) = (a.layout(), b.layout(), d.layout());
    let groups = y.batches;
    check(&x, &z)?;
    same_len("multiplying groups of rows", groups + 1, offsets.len())?;
    let one = Matrix { memory: b.memory, layout: MatrixLayout { batches: 1, ..y } };
    let mut this = Prepared::new::<T, D, Plain>(&a, &one, &d, &options)?;
    if this.problem.m == 0 || this.problem.n == 0 || groups == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let machine = Machine::untuned(stream.inner().context().info()).limited(&options);
    this.problem.b.batch = y.batch_stride as u64;
    this.b.strides.batch = y.batch_stride as u64;

    let (rows, columns) = (this.problem.m as usize, this.problem.n as usize);
    let most = most_tiles(rows, groups);
    let (_, [tiles]) = scratch.parts(stream, [list_bytes(rows, groups)])?;
    let mut tiles = tiles.into_cast::<GroupTile>()?;
    group_tiles::launch(stream, Grid1::new(1), offsets, this.problem.m, &mut tiles)?;

    let (a, b) = (As::<T>::new(&a.memory), As::<T>::new(&b.memory));
    let c = As::<D>::optional(options.c.as_ref().map(|c| &c.memory));
    let d_address = d.raw().address;
    let c_from = DevicePtr::from_raw(options.c.map_or(d_address, |c| c.raw().address));
    let (problem, d) = (this.problem, &mut d.memory);
    // The matrices of B are the batch of its tensor map.
    let batch = Prepared { problem: Problem { batches: groups as u32, ..problem }, ..this };
    if problem.k == 0 || !machine.has_warpgroups() || batch.packings() != [None; 2] {
        let grid = Grid1::new(grid_blocks(most * columns.div_ceil(SIDE))?);
        // SAFETY: the shapes fit, D is apart from A and B, and the tiles are those of the groups.
        return unsafe {
            warps_grouped::<T, D>::launch(stream, grid, problem, &tiles, &a, &b, &c, c_from, d)
        };
    }
    let choice = Choice { parts: 1, ..Choice::NONE };
    let (mut maps, mut schedule) = batch.schedule(stream, (Tile::Wide, &choice), None)?;
    if let Some(map) = map_of_d(stream, &problem, d_address, size_of::<D>())? {
        (maps[2], schedule.d_mapped) = (map, 1);
    }
    let passes = grid_blocks(most * columns.div_ceil(WIDE))?;
    let grid = Grid1::new(passes.min(machine.multiprocessors));
    // SAFETY: as above; the maps and the schedule are of these matrices.
    unsafe {
        hopper_grouped::<T, D>::launch(
            stream, grid, maps, schedule, problem, &tiles, &a, &b, &c, c_from, d,
        )
    }
}

/// The scratch of [`grouped_into`] for this many rows and groups, in bytes: a list of tiles.
#[must_use]
pub fn grouped_scratch_bytes(rows: usize, groups: usize) -> usize {
    size_of_parts(&[list_bytes(rows, groups)])
}

fn list_bytes(rows: usize, groups: usize) -> usize {
    (1 + most_tiles(rows, groups)) * size_of::<GroupTile>()
}

/// An error if A or D is a batch, or D is not row-major.
fn check(a: &MatrixLayout, d: &MatrixLayout) -> GpuResult<()> {
    let wrong = |reason| Err(GpuError::InvalidArgument { operation: OPERATION, reason });
    for (name, layout) in [("A", a), ("D", d)] {
        if layout.batches != 1 {
            return wrong(format!("{name} is {layout}: groups are rows of one matrix"));
        }
    }
    if d.order != Order::RowMajor {
        return wrong(format!("D, which is {d}, is column-major: groups are of its rows"));
    }
    Ok(())
}
