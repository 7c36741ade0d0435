//! Products of 8-bit floats with scales.

use std::fmt;

use cuda_std::launch::{DevicePtr, Grid1, Instance};
use kernels_gpu::matmul::form::{MIDDLE, SQUARE};
use kernels_gpu::matmul::hopper::{hopper_blocks, hopper_scaled};
use kernels_gpu::matmul::scaling::{BLOCK, ScaleLayout, ScaleLayouts};
use kernels_gpu::matmul::warps::warps_scaled;
use kernels_gpu::matmul::{Factor, Plain, Value};

use super::choice::{Choice, Kernel, Machine, Tile};
use super::operands::Prepared;
use super::steps::grid_blocks;
use super::{Matrix, MatrixMut, OPERATION, Options, Order, copies_bytes, fastest};
use crate::error::{GpuError, GpuResult};
use crate::memory::{DeviceSlice, DeviceSliceMut};
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// The scales of A, or of B: what is multiplied is each number times its scale. All are on the device.
#[derive(Clone, Copy, Default)]
pub enum Scale<'a> {
    /// None.
    #[default]
    One,
    /// One for the whole tensor.
    Tensor(DeviceSlice<'a, f32>),
    /// One for each row of A, or each column of B.
    Vector(DeviceSlice<'a, f32>),
    /// Of A one for each row and 128 elements along K: a matrix of `m × k/128`. Of B one for 128 along K and 128 columns: a matrix of
    /// `k/128 × n/128`. Sizes are rounded up, orders are free. One matrix, or one for each product of the batch. Both operands have
    /// blocks, or none has.
    Blocks(Matrix<'a, f32>),
}

impl fmt::Debug for Scale<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => f.write_str("One"),
            Self::Tensor(_) => f.write_str("Tensor"),
            Self::Vector(scales) => write!(f, "Vector({})", scales.len()),
            Self::Blocks(scales) => write!(f, "Blocks({})", scales.layout()),
        }
    }
}

/// All scales of a product of 8-bit floats, and where the largest magnitude of D goes.
#[derive(Debug, Default)]
pub struct Scales<'a> {
    a: Scale<'a>,
    b: Scale<'a>,
    d: Option<DeviceSlice<'a, f32>>,
    largest: Option<DeviceSliceMut<'a, f32>>,
}

impl<'a> Scales<'a> {
    /// None: all are 1.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Those of A.
    #[must_use]
    pub fn a(self, a: Scale<'a>) -> Self {
        Self { a, ..self }
    }

    /// Those of B.
    #[must_use]
    pub fn b(self, b: Scale<'a>) -> Self {
        Self { b, ..self }
    }

    /// One number, by which D is multiplied before it is rounded to its type.
    #[must_use]
    pub fn d(self, d: impl Into<DeviceSlice<'a, f32>>) -> Self {
        Self { d: Some(d.into()), ..self }
    }

    /// One number, which is raised to the largest magnitude of D before its scale, from which the scale of the next D can be
    /// computed. It begins at 0, or at what another product has found; NaN in D makes it NaN.
    #[must_use]
    pub fn largest(self, largest: impl Into<DeviceSliceMut<'a, f32>>) -> Self {
        Self { largest: Some(largest.into()), ..self }
    }
}

/// `D = scale_d · (alpha · (A·scale_a)·(B·scale_b) + beta · C)` of 8-bit floats: A and B are [`E4m3`](cuda_std::number::E4m3) or
/// [`E5m2`](cuda_std::number::E5m2) each, D is bf16, f16, f32, or `E4m3`, which saturates. Sums of the products of 128 along K are added in f32. Asynchronous;
/// allocates only where `scratch` is smaller than [`scaled_scratch_bytes`].
///
/// ```
/// use cuda_std::number::E4m3;
/// use ferrowarp::ops::Scratch;
/// use ferrowarp::ops::matmul::{self, Matrix, MatrixMut, Options, Scale, Scales};
/// use ferrowarp::{DeviceBuffer, Gpu};
///
/// let gpu = Gpu::new()?;
/// let ones = DeviceBuffer::from_slice(&gpu, &[E4m3::saturating(1.0); 16])?;
/// let a = Matrix::row_major(&ones, 2, 8)?;
/// // A row of ones, and a row of hundreds.
/// let rows = DeviceBuffer::from_slice(&gpu, &[1.0f32, 100.0])?;
/// let mut d = DeviceBuffer::<f32>::zeroed(&gpu, 4)?;
///
/// let result = MatrixMut::row_major(&mut d, 2, 2)?;
/// let scales = Scales::new().a(Scale::Vector(rows.as_slice()));
/// let mut scratch = Scratch::new(&gpu)?;
/// matmul::scaled_into(&gpu, a, a.transposed(), scales, result, Options::new(), &mut scratch)?;
/// assert_eq!(d.to_vec()?, [8.0, 8.0, 800.0, 800.0]);
/// # Ok::<(), ferrowarp::GpuError>(())
/// ```
///
/// A scale of 0 makes its products 0, or NaN where they are infinite. Operands that are contiguous along K, A in row-major and B in column-major order, are read where they lie; others are copied to `scratch` first. So are,
/// where that pays, those whose rows do not begin at multiples of 16 bytes, for the warpgroups of Hopper; without a copy, and on other devices, warps
/// multiply them.
///
/// # Errors
/// Those of [`matmul_into`](super::matmul_into) for shapes, overlaps and choices; [`InvalidArgument`](GpuError::InvalidArgument) for a D in
/// column-major order, for blocks of another shape (the message has both), and of
/// one operand alone;
/// [`SizeMismatch`](GpuError::SizeMismatch) for vectors and single numbers of another length; errors of the launch.
pub fn scaled_into<T: Factor, U: Factor, D: Value>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, U>,
    scales: Scales<'_>,
    mut d: MatrixMut<'_, D>,
    options: Options<'_, D>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    warps_scaled<T, U, D>: Instance,
    hopper_scaled<T, U, D, MIDDLE>: Instance,
    hopper_scaled<T, U, D, SQUARE>: Instance,
    hopper_blocks<T, U, D>: Instance,
{
    let (bytes_a, bytes_b) = (a.bytes(), b.bytes());
    let this = prepared(bytes_a, bytes_b, &d, &options)?;
    let layouts = scales.layouts(&this)?;
    if this.problem.m == 0 || this.problem.n == 0 || this.problem.batches == 0 {
        return Ok(());
    }
    let stream = on.as_stream();
    let machine = Machine::untuned(stream.inner().context().info()).limited(&options);
    let are_blocks = scales.are_blocks();
    let all = || all_choices::<D>(&this, &machine, are_blocks);
    let best = || fastest(all().into_iter()).unwrap_or(Choice::NONE);
    let choice = this.pick::<u8, D, Plain>(&options, best, all)?;
    let packings = this.packings_for(&choice);
    let (_, [mut copy_of_a, mut copy_of_b]) =
        scratch.parts(stream, copies_bytes::<u8>(&packings))?;
    let this =
        this.packed(stream, packings, [&bytes_a, &bytes_b], [&mut copy_of_a, &mut copy_of_b])?;
    let a = if packings[0].is_some() { As::<T>::new(&copy_of_a) } else { As::new(&a.memory) };
    let b = if packings[1].is_some() { As::<U>::new(&copy_of_b) } else { As::new(&b.memory) };
    let c = As::<D>::optional(options.c.as_ref().map(|c| &c.memory));
    let c_from = DevicePtr::from_raw(options.c.map_or(d.raw().address, |c| c.raw().address));
    let (of_a, of_b) = (scales.a.memory(), scales.b.memory());
    let of_d = As::<f32>::optional(scales.d.as_ref());
    let mut largest = scales.largest;
    let mut largest = AsMut::<u32>::optional(largest.as_mut());
    let (grid, problem) = (Grid1::new(grid_blocks(choice.blocks)?), this.problem);
    /// Launches a kernel with what all take after their own arguments.
    macro_rules! launch {
        ($kernel:ty, $($own:expr),*) => {
            <$kernel>::launch(
                stream, grid, $($own,)* problem, layouts, &a, &b, &of_a, &of_b, &c, c_from, &of_d, &mut largest, &mut d.memory,
            )
        };
    }
    let Kernel::Hopper { tile, .. } = choice.kernel else {
        // SAFETY: the shapes of matrices and scales fit, and D is apart from A and B, by `Prepared`.
        return unsafe { launch!(warps_scaled<T, U, D>,) };
    };
    let address = d.raw().address;
    let (maps, schedule) =
        this.schedule(stream, (tile, &choice), Some((address, size_of::<D>())))?;
    // SAFETY: as above; the maps and the schedule are of these matrices.
    unsafe {
        match tile {
            Tile::Wide => launch!(hopper_blocks<T, U, D>, maps, schedule),
            Tile::Middle => launch!(hopper_scaled<T, U, D, MIDDLE>, maps, schedule),
            _ => launch!(hopper_scaled<T, U, D, SQUARE>, maps, schedule),
        }
    }
}

/// The scratch of [`scaled_into`] for these matrices and scales, in bytes: copies of A and B.
///
/// # Errors
/// As [`scaled_into`] for shapes and overlaps.
pub fn scaled_scratch_bytes<T: Factor, U: Factor, D: Value>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, U>,
    scales: &Scales<'_>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<usize> {
    let this = prepared(a.bytes(), b.bytes(), d, &Options::new())?;
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    let all = all_choices::<D>(&this, &machine, scales.are_blocks());
    let choice = fastest(all.into_iter()).unwrap_or(Choice::NONE);
    Ok(size_of_parts(&copies_bytes::<u8>(&this.packings_for(&choice))))
}

/// Everything that [`scaled_into`] may launch for these matrices and scales, the fastest first by the cost model, for [`Options::choice`].
///
/// # Errors
/// As [`scaled_into`] for shapes and overlaps.
pub fn scaled_choices<T: Factor, U: Factor, D: Value>(
    on: &impl AsStream,
    a: Matrix<'_, T>,
    b: Matrix<'_, U>,
    scales: &Scales<'_>,
    d: &MatrixMut<'_, D>,
) -> GpuResult<Vec<Choice>> {
    let this = prepared(a.bytes(), b.bytes(), d, &Options::new())?;
    let machine = Machine::untuned(on.as_stream().inner().context().info());
    let mut found = all_choices::<D>(&this, &machine, scales.are_blocks());
    found.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    Ok(found)
}

/// The choices, of which each takes copies of what is not contiguous along K.
fn all_choices<D>(this: &Prepared, machine: &Machine, are_blocks: bool) -> Vec<Choice> {
    let problem = &this.problem;
    let packs = problem.k > 0 && (problem.a.column != 1 || problem.b.row != 1);
    let all = this.unsplit_choices(machine, 1, tiles::<D>(are_blocks));
    all.into_iter().map(|choice| Choice { packs: choice.packs || packs, ..choice }).collect()
}

/// The tiles of warpgroups. A box of a D of 8 bits has 128 columns.
const fn tiles<D>(are_blocks: bool) -> &'static [Tile] {
    match (are_blocks, size_of::<D>()) {
        (true, _) => &[Tile::Wide],
        (false, 1) => &[Tile::Square],
        (false, _) => &[Tile::Middle, Tile::Square],
    }
}

fn wrong<T>(reason: String) -> GpuResult<T> {
    Err(GpuError::InvalidArgument { operation: OPERATION, reason })
}

/// Checks matrices; their elements are taken as bytes.
fn prepared<D: Value>(
    a: Matrix<'_, u8>,
    b: Matrix<'_, u8>,
    d: &MatrixMut<'_, D>,
    options: &Options<'_, D>,
) -> GpuResult<Prepared> {
    let layout = d.layout();
    if layout.order != Order::RowMajor {
        return wrong(format!(
            "D, which is {layout}, is column-major: with scales it is row-major"
        ));
    }
    Prepared::new::<u8, D, Plain>(&a, &b, d, options)
}

impl Scale<'_> {
    /// The memory of all scales.
    fn memory(&self) -> As<'_, f32> {
        match self {
            Self::One => As::none(),
            Self::Tensor(scales) | Self::Vector(scales) => As::new(scales),
            Self::Blocks(scales) => As::new(&scales.memory),
        }
    }

    /// How the scales lie, of an operand with this many `lines` (rows of A, columns of B), of which `in_block` share their blocks.
    fn layout(
        &self,
        name: &str,
        (lines, in_block): (usize, usize),
        (k, batches): (usize, usize),
    ) -> GpuResult<ScaleLayout> {
        let of_lines = |line| ScaleLayout { kind: ScaleLayout::LINES, line, ..Default::default() };
        match self {
            Self::One => Ok(ScaleLayout::default()),
            Self::Tensor(scale) => {
                same_len("scales of a tensor", 1, scale.len())?;
                Ok(of_lines(0))
            }
            Self::Vector(scales) => {
                same_len("scales of rows or columns", lines, scales.len())?;
                Ok(of_lines(1))
            }
            Self::Blocks(scales) => {
                let layout = scales.layout();
                let across = (lines.div_ceil(in_block), k.div_ceil(BLOCK));
                let expected = if in_block == 1 { across } else { (across.1, across.0) };
                if (layout.rows, layout.columns) != expected
                    || (layout.batches != 1 && layout.batches != batches)
                {
                    let (rows, columns) = expected;
                    return wrong(format!(
                        "the scales of {name} are {layout}, and its blocks {rows} × {columns}"
                    ));
                }
                let strides = layout.strides();
                let (line, along_k) = if in_block == 1 {
                    (strides.row, strides.column)
                } else {
                    (strides.column, strides.row)
                };
                let batch = if layout.batches == 1 { 0 } else { strides.batch };
                Ok(ScaleLayout { kind: ScaleLayout::BLOCKS, line, along_k, batch })
            }
        }
    }
}

impl Scales<'_> {
    /// Whether they are of blocks, which have a kernel of their own.
    const fn are_blocks(&self) -> bool {
        matches!(self.a, Scale::Blocks(_))
    }

    /// How they lie, for a product whose shapes fit.
    fn layouts(&self, of: &Prepared) -> GpuResult<ScaleLayouts> {
        let problem = of.problem;
        let [m, n, k, batches] =
            [problem.m, problem.n, problem.k, problem.batches].map(|size| size as usize);
        let lens = [self.d.map(|d| d.len()), self.largest.as_ref().map(|largest| largest.len())];
        for len in lens.into_iter().flatten() {
            same_len("the scale of D, and its largest magnitude", 1, len)?;
        }
        let a = self.a.layout("A", (m, 1), (k, batches))?;
        let b = self.b.layout("B", (n, BLOCK), (k, batches))?;
        match (a.kind == ScaleLayout::BLOCKS, b.kind == ScaleLayout::BLOCKS) {
            (true, false) => wrong("A has scales of blocks, and B has none".to_owned()),
            (false, true) => wrong("B has scales of blocks, and A has none".to_owned()),
            _ => Ok(ScaleLayouts { a, b }),
        }
    }
}
