//! Products of f64.

use cuda_std::launch::{DevicePtr, Grid1};
use kernels_gpu::matmul::Plain;
use kernels_gpu::matmul::hopper::hopper_double;
use kernels_gpu::matmul::warps::warps_double;

use super::choice::{Choice, Kernel, Machine, Tile};
use super::operands::Prepared;
use super::steps::grid_blocks;
use super::{Matrix, MatrixMut, Options, copies_bytes, fastest};
use crate::error::GpuResult;
use crate::ops::Scratch;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::As;
use crate::stream::AsStream;

/// The least rows and columns of D for which operands are copied: each element of a copy is used so often.
const LEAST_PACKED: u32 = 512;

/// `D = alpha · A·B + beta · C` of f64, on tensor cores. Without C, C is the previous content of D; with a beta of 0 it is not read. Asynchronous;
/// allocates only where `scratch` is smaller than [`double_scratch_bytes`].
///
/// On Hopper the copy engine brings tiles of operands that are contiguous along K: A in row-major and B in column-major order, with rows that begin at
/// multiples of 16 bytes. Others are copied to `scratch` first if D has 512 rows and columns or more; else the warps that multiply copy
/// tiles themselves, as on other devices.
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and vectors; errors of the launch.
pub fn double_into(
    on: &impl AsStream,
    a: Matrix<'_, f64>,
    b: Matrix<'_, f64>,
    mut d: MatrixMut<'_, f64>,
    (alpha, beta): (f64, f64),
    c: Option<Matrix<'_, f64>>,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let options = Options::new().beta(if beta == 0.0 { 0.0 } else { 1.0 });
    let options = c.map_or(options, |c| options.c(c));
    let this = Prepared::new::<f64, f64, Plain>(&a, &b, &d, &options)?;
    if this.problem.m == 0 || this.problem.n == 0 || this.problem.batches == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let choice = this.double_choice(&Machine::untuned(stream.inner().context().info()));
    let (a, b) = if this.is_exchanged { (b, a) } else { (a, b) };
    let packings = this.packings_for(&choice);
    let (_, [mut copy_of_a, mut copy_of_b]) =
        scratch.parts(stream, copies_bytes::<f64>(&packings))?;
    let this = this.packed(stream, packings, [&a, &b], [&mut copy_of_a, &mut copy_of_b])?;
    let a = if packings[0].is_some() { As::<f64>::new(&copy_of_a) } else { As::new(&a.memory) };
    let b = if packings[1].is_some() { As::<f64>::new(&copy_of_b) } else { As::new(&b.memory) };
    let c = As::<f64>::optional(options.c.as_ref().map(|c| &c.memory));
    let c_from = DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address));
    let (grid, problem, d) = (Grid1::new(grid_blocks(choice.blocks)?), this.problem, &mut d.memory);
    let Kernel::Hopper { tile, .. } = choice.kernel else {
        // SAFETY: the shapes fit, and D is apart from A and B, by `Prepared`.
        return unsafe {
            warps_double::launch(stream, grid, problem, alpha, beta, &a, &b, &c, c_from, d)
        };
    };
    let (maps, schedule) = this.schedule(stream, (tile, &choice), None)?;
    // SAFETY: as above; the maps and the schedule are of these matrices.
    unsafe {
        hopper_double::launch(
            stream, grid, maps, schedule, problem, alpha, beta, &a, &b, &c, c_from, d,
        )
    }
}

/// The scratch of [`double_into`] for these matrices, in bytes: copies of A and B.
///
/// # Errors
/// As [`double_into`] for shapes and overlaps.
pub fn double_scratch_bytes(
    on: &impl AsStream,
    a: Matrix<'_, f64>,
    b: Matrix<'_, f64>,
    d: &MatrixMut<'_, f64>,
) -> GpuResult<usize> {
    let this = Prepared::new::<f64, f64, Plain>(&a, &b, d, &Options::new())?;
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    let copies = copies_bytes::<f64>(&this.packings_for(&this.double_choice(&machine)));
    Ok(size_of_parts(&copies))
}

impl Prepared {
    /// The kernel of [`double_into`]: that of Hopper where it can be had, and copies pay.
    fn double_choice(&self, machine: &Machine) -> Choice {
        let all = self.unsplit_choices(machine, size_of::<f64>(), &[Tile::Square]);
        let is_large = self.problem.m.min(self.problem.n) >= LEAST_PACKED;
        let of_hopper = all.iter().copied().filter(|choice| {
            matches!(choice.kernel, Kernel::Hopper { .. }) && (is_large || !choice.packs)
        });
        let of_warps = all.iter().copied().filter(|choice| choice.kernel == Kernel::Warps);
        fastest(of_hopper).or_else(|| fastest(of_warps)).unwrap_or(Choice::NONE)
    }
}
