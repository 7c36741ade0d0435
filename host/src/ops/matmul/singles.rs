//! Products of f32 as three products of TF32.

use cuda_std::launch::{DevicePtr, Grid1};
use kernels_gpu::matmul::form::{SQUARE, WIDE};
use kernels_gpu::matmul::hopper::hopper_three_tf32;
use kernels_gpu::matmul::parts::{PartsPacking, pack_parts};
use kernels_gpu::matmul::warps::warps_three_tf32;
use kernels_gpu::matmul::{Plain, Problem};

use super::choice::{Allows, Choice, Kernel, Machine, Tile};
use super::operands::{Operand, Prepared, UNIT_BYTES};
use super::steps::grid_blocks;
use super::{Matrix, MatrixMut, Options, fastest, pick_by};
use crate::error::GpuResult;
use crate::memory::DeviceSliceMut;
use crate::ops::Scratch;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::stream::{AsStream, Stream};

/// The tiles of warpgroups.
const TILES: [Tile; 2] = [Tile::Wide, Tile::Square];
/// Products for each of f32: that of the smaller parts is left out.
const PRODUCTS: usize = 3;
/// K is below this where operands are copied, of which each element becomes two: kernels count in 31 bits.
const LIMIT_OF_PARTS: usize = 1 << 30;

/// `D = alpha · A·B + beta · C` of f32 as three products of TF32, on tensor cores: an accuracy class of its own, in which each product is off by at most 2^-20 of
/// itself, and sums are those of f32. Infinities, and magnitudes from 2^128 (1 - 2^-12) on, give NaN. Without C, C is the previous content of D; with a beta of 0 it
/// is not read. Asynchronous; allocates only where `scratch` is smaller than [`three_tf32_scratch_bytes`].
///
/// On Hopper both operands are copied to `scratch` as their parts, in twice their bytes, which warpgroups multiply; that takes about as long as
/// memory takes to move three times their bytes. Where it does not pay, and on other devices, warps multiply what lies in memory, and there is no scratch.
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and choices; errors of the launch.
pub fn three_tf32_into(
    on: &impl AsStream,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    mut d: MatrixMut<'_, f32>,
    options: Options<'_, f32>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let this = Prepared::new::<f32, f32, Plain>(&a, &b, &d, &options)?;
    if this.problem.m == 0 || this.problem.n == 0 || this.problem.batches == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let machine = Machine::untuned(stream.inner().context().info()).limited(&options);
    let all = || this.three_tf32_choices(&machine);
    let best = || fastest(all().into_iter()).unwrap_or(Choice::NONE);
    let choice = pick_by(&options, best, all, |choice| this.parts_bytes(choice))?;
    let (a, b) = if this.is_exchanged { (b, a) } else { (a, b) };
    let c = As::<f32>::optional(options.c.as_ref().map(|c| &c.memory));
    let c_from = DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address));
    let grid = Grid1::new(grid_blocks(choice.blocks)?);
    let Kernel::Hopper { tile, .. } = choice.kernel else {
        let (a, b, none) = (&a.memory, &b.memory, As::<f32>::none());
        let (problem, d) = (this.problem, &mut d.memory);
        // SAFETY: the shapes fit, and D is apart from A and B, by `Prepared`.
        return unsafe {
            warps_three_tf32::<f32, Plain>::launch(
                stream, grid, problem, a, b, &c, c_from, &none, &none, d, Plain,
            )
        };
    };
    let [of_a, of_b] = this.parts_packings();
    let lens = [of_a, of_b].map(|packing| packing.len() * size_of::<f32>());
    let (_, [mut parts_of_a, mut parts_of_b]) = scratch.parts(stream, lens)?;
    let this = Prepared {
        a: this.a.in_parts(stream, of_a, &a, &mut parts_of_a)?,
        b: this.b.transposed().in_parts(stream, of_b, &b, &mut parts_of_b)?.transposed(),
        ..this
    }
    .of_parts(of_a.row_len());
    let address = d.raw().address;
    let (maps, schedule) =
        this.schedule(stream, (tile, &choice), Some((address, size_of::<f32>())))?;
    let (a, b) = (As::<f32>::new(&parts_of_a), As::<f32>::new(&parts_of_b));
    let (problem, d) = (this.problem, &mut d.memory);
    // SAFETY: as above; the maps and the schedule are of the copies.
    unsafe {
        match tile {
            Tile::Wide => hopper_three_tf32::<WIDE>::launch(
                stream, grid, maps, schedule, problem, &a, &b, &c, c_from, d,
            ),
            _ => hopper_three_tf32::<SQUARE>::launch(
                stream, grid, maps, schedule, problem, &a, &b, &c, c_from, d,
            ),
        }
    }
}

/// The scratch of [`three_tf32_into`] for these matrices, in bytes: the parts of A and B.
///
/// # Errors
/// As [`three_tf32_into`] for shapes and overlaps.
pub fn three_tf32_scratch_bytes(
    on: &impl AsStream,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    d: &MatrixMut<'_, f32>,
) -> GpuResult<usize> {
    let this = Prepared::new::<f32, f32, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    let best = fastest(this.three_tf32_choices(&machine).into_iter()).unwrap_or(Choice::NONE);
    Ok(this.parts_bytes(&best))
}

/// Everything that [`three_tf32_into`] may launch for these matrices, the fastest first by the cost model, for [`Options::choice`].
///
/// # Errors
/// As [`three_tf32_into`] for shapes and overlaps.
pub fn three_tf32_choices(
    on: &impl AsStream,
    a: Matrix<'_, f32>,
    b: Matrix<'_, f32>,
    d: &MatrixMut<'_, f32>,
) -> GpuResult<Vec<Choice>> {
    let this = Prepared::new::<f32, f32, Plain>(&a, &b, d, &Options::new())?;
    let mut found =
        this.three_tf32_choices(&Machine::untuned(on.as_stream().inner().context().info()));
    found.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    Ok(found)
}

impl Prepared {
    /// The kernel of warps, and those of Hopper, of which each multiplies copies.
    fn three_tf32_choices(&self, machine: &Machine) -> Vec<Choice> {
        let ([m, n, k], batches) = self.sizes();
        let packed = self.parts_packings().map(|packing| packing.len());
        let allows = Allows {
            copy_engine: self.is_addressed(),
            packed: if k == 0 { [0; 2] } else { packed },
            element_bytes: size_of::<f32>(),
            skinny: false,
            ..Allows::ALL
        };
        let sizes = [m, n, PRODUCTS * k];
        let mut found = vec![Choice::warps(machine, sizes, batches, allows)];
        Choice::for_each(machine, sizes, batches, allows, |choice| match choice.kernel {
            Kernel::Hopper { tile, .. }
                if TILES.contains(&tile)
                    && k < LIMIT_OF_PARTS
                    && (choice.splits, choice.parts) == (1, 1) =>
            {
                found.push(choice);
            }
            _ => {}
        });
        found
    }

    /// The bytes of the parts of A and B that the choice multiplies.
    fn parts_bytes(&self, choice: &Choice) -> usize {
        if !matches!(choice.kernel, Kernel::Hopper { .. }) {
            return 0;
        }
        size_of_parts(&self.parts_packings().map(|packing| packing.len() * size_of::<f32>()))
    }

    /// The copies of A and B in parts.
    fn parts_packings(&self) -> [PartsPacking; 2] {
        let Problem { m, n, k, batches, .. } = self.problem;
        let packing = |operand: Operand, rows: u32| {
            let from = operand.strides;
            let unit = UNIT_BYTES / size_of::<f32>() as u64;
            let has_vectors = from.column == 1
                && operand.address.is_multiple_of(UNIT_BYTES)
                && (from.row.is_multiple_of(unit) && from.batch.is_multiple_of(unit));
            PartsPacking {
                rows,
                k,
                batches: if from.batch == 0 { 1 } else { batches },
                has_vectors: u32::from(has_vectors),
                from,
            }
        };
        [packing(self.a, m), packing(self.b.transposed(), n)]
    }

    /// The product of copies in parts, whose rows have this many elements.
    fn of_parts(self, row_len: u32) -> Self {
        let problem = Problem { k: row_len, a: self.a.strides, b: self.b.strides, ..self.problem };
        Self { problem, ..self }
    }
}

impl Operand {
    /// Its parts in `to`, row after row along K, which is asynchronous.
    fn in_parts(
        self,
        stream: &Stream,
        packing: PartsPacking,
        from: &Matrix<'_, f32>,
        to: &mut DeviceSliceMut<'_, u8>,
    ) -> GpuResult<Self> {
        let address = to.as_device_ptr().address();
        let grid = Grid1::new(grid_blocks(packing.blocks())?);
        let (elements, mut parts) = (As::<f32>::new(&from.memory), AsMut::<f32>::new(to));
        // SAFETY: the matrix has all elements of its layout, and the copy is as long as the packing says, at an address of scratch memory.
        unsafe { pack_parts::launch(stream, grid, packing, &elements, &mut parts) }?;
        Ok(self.copied_to(address, packing.rows, packing.row_len()))
    }
}
