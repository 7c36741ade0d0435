//! From views to what kernels take: shapes checked once, and tensor maps.

use bytemuck::Pod;
use cuda_std::copy::TensorType;
use cuda_std::grid_constant::MapWords;
use cuda_std::launch::{Grid1, Instance, RawSlice};
use cuda_std::shared::Element;
use kernels_gpu::matmul::hopper::{
    ROWS_OF_BOX, ROWS_OF_TILE, Schedule, columns_of_box, depth, stored_columns,
};
use kernels_gpu::matmul::pack::{Packing, pack};
use kernels_gpu::matmul::{Epilogue, Factor, Problem, Strides};

use super::choice::{Choice, Tile};
use super::steps::grid_blocks;
use super::{Matrix, MatrixLayout, MatrixMut, OPERATION, Options};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceSliceMut;
use crate::ops::tensor_maps::encode;
use crate::ops::views::{As, AsMut};
use crate::stream::Stream;

/// Sizes are below this: kernels count in 32 bits, of which one is a sign for the copy engine.
const SIZE_LIMIT: usize = 1 << 31;
/// What the copy engine asks of addresses and of strides, in bytes.
pub(super) const UNIT_BYTES: u64 = 16;
/// Strides of the copy engine are below this, in bytes.
const STRIDE_LIMIT_BYTES: u64 = 1 << 40;
/// Rows of a box of D: those of a consumer.
const STORED_ROWS: u32 = 64;

fn wrong(reason: String) -> GpuError {
    GpuError::InvalidArgument { operation: OPERATION, reason }
}

/// An operand as the kernel sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand {
    pub address: u64,
    pub strides: Strides,
    bytes: usize,
    /// The type of the elements in a tensor map.
    map_type: u32,
}

/// A product whose shapes fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub problem: Problem,
    pub a: Operand,
    pub b: Operand,
    /// Whether the kernel's A is Bᵀ, and its B is Aᵀ, because D is column-major.
    pub is_exchanged: bool,
}

impl Prepared {
    /// Checks everything that does not depend on the device.
    pub fn new<T: Pod, D: Pod, E: Epilogue>(
        a: &Matrix<'_, T>,
        b: &Matrix<'_, T>,
        d: &MatrixMut<'_, D>,
        options: &Options<'_, D, E>,
    ) -> GpuResult<Self> {
        let (x, y, z) = (a.layout(), b.layout(), d.layout());
        check_shapes(&x, &y, &z)?;
        options.check(&z)?;
        let of_c = options.c.filter(|_| options.reads_c()).map_or(z, |c| c.layout());
        check_own_elements(&z)?;
        let d_raw = d.raw();
        let (left, right) = (a.raw(), b.raw());
        for (name, raw, bytes) in [("A", &left, size_of::<T>()), ("B", &right, size_of::<T>())] {
            check_apart(name, (raw, bytes), (&d_raw, size_of::<D>()))?;
        }
        let (a, b) = (Operand::new::<T>(&x, &left), Operand::new::<T>(&y, &right));
        let is_exchanged = z.order == super::Order::ColumnMajor;
        let strides = |layout: &MatrixLayout| {
            let strides = layout.strides();
            if is_exchanged { strides.transposed() } else { strides }
        };
        let (m, n) = if is_exchanged { (z.columns, z.rows) } else { (z.rows, z.columns) };
        let (a, b) = if is_exchanged { (b.transposed(), a.transposed()) } else { (a, b) };
        let problem = Problem {
            m: m as u32,
            n: n as u32,
            k: x.columns as u32,
            batches: z.batches as u32,
            a: a.strides,
            b: b.strides,
            c: Strides {
                batch: if of_c.batches == 1 { 0 } else { of_c.batch_stride as u64 },
                ..strides(&of_c)
            },
            d: strides(&z),
            alpha: options.alpha,
            beta: options.beta,
            is_transposed: u32::from(is_exchanged),
            splits: 1,
        };
        Ok(Self { problem, a, b, is_exchanged })
    }
}

/// Whether there is a matrix for each of `batches`, or one for all.
fn repeats(layout: &MatrixLayout, batches: usize) -> bool {
    layout.batches == batches || layout.batches == 1
}

fn check_shapes(a: &MatrixLayout, b: &MatrixLayout, d: &MatrixLayout) -> GpuResult<()> {
    if a.columns != b.rows {
        let reason =
            format!("A is {a} and B is {b}: A has {} columns, and B {} rows", a.columns, b.rows);
        return Err(wrong(reason));
    }
    if (a.rows, b.columns) != (d.rows, d.columns) {
        return Err(wrong(format!(
            "A is {a} and B is {b}, so D is {} × {}, and not {d}",
            a.rows, b.columns
        )));
    }
    if !repeats(a, d.batches) || !repeats(b, d.batches) {
        return Err(wrong(format!(
            "A is {a} and B is {b}, and D is {d}: each has as many matrices as D, or one"
        )));
    }
    match [d.rows, d.columns, a.columns, d.batches].iter().find(|size| **size >= SIZE_LIMIT) {
        Some(size) => {
            Err(wrong(format!("A is {a} and B is {b}: a size of {size}, and the limit is 2^31")))
        }
        None => Ok(()),
    }
}

/// An error if two elements of D are one and the same.
pub(super) fn check_own_elements(d: &MatrixLayout) -> GpuResult<()> {
    let (vectors, len) = match d.order {
        super::Order::RowMajor => (d.rows, d.columns),
        super::Order::ColumnMajor => (d.columns, d.rows),
    };
    let mut dims = [(d.leading, vectors), (d.batch_stride, d.batches)];
    dims.sort_unstable();
    let mut span = len;
    for (stride, count) in dims.into_iter().filter(|(_, count)| *count > 1) {
        if stride < span {
            return Err(wrong(format!("elements of D, which is {d}, are at the same place")));
        }
        span = stride.saturating_mul(count - 1).saturating_add(span);
    }
    Ok(())
}

fn check_apart(name: &str, of: (&RawSlice<'_>, usize), d: (&RawSlice<'_>, usize)) -> GpuResult<()> {
    let range = |(raw, bytes): (&RawSlice<'_>, usize)| {
        (raw.address, raw.address + (raw.len * bytes) as u64)
    };
    let ((start, end), (d_start, d_end)) = (range(of), range(d));
    if start < d_end && d_start < end && start < end && d_start < d_end {
        return Err(wrong(format!("the memory of D overlaps that of {name}")));
    }
    Ok(())
}

impl Operand {
    fn new<T: Pod>(layout: &MatrixLayout, raw: &RawSlice<'_>) -> Self {
        let strides = layout.strides();
        let batch = if layout.batches == 1 { 0 } else { strides.batch };
        let (address, bytes) = (raw.address, size_of::<T>());
        Self { address, strides: Strides { batch, ..strides }, bytes, map_type: type_of(bytes) }
    }

    pub fn transposed(self) -> Self {
        Self { strides: self.strides.transposed(), ..self }
    }

    /// Its copy in `to`, row after row along K, which is asynchronous.
    fn packed<T: Pod>(
        self,
        stream: &Stream,
        packing: Packing,
        from: &Matrix<'_, T>,
        to: &mut DeviceSliceMut<'_, u8>,
    ) -> GpuResult<Self> {
        let address = to.as_device_ptr().address();
        match self.bytes {
            1 => copy_packed::<T, u8>(stream, packing, from, to),
            2 => copy_packed::<T, u16>(stream, packing, from, to),
            4 => copy_packed::<T, u32>(stream, packing, from, to),
            _ => copy_packed::<T, u64>(stream, packing, from, to),
        }?;
        Ok(self.copied_to(address, packing.rows, packing.leading))
    }

    /// A copy of it at an address, contiguous along K: with `rows` a matrix, and `leading` elements from one to the next.
    pub fn copied_to(self, address: u64, rows: u32, leading: u32) -> Self {
        let row = u64::from(leading);
        let batch = if self.strides.batch == 0 { 0 } else { u64::from(rows) * row };
        Self { address, strides: Strides { row, column: 1, batch }, ..self }
    }

    /// How the copy engine reads it: `len` rows of A (or columns of B) along K, with a distance from one to the next, and along K; a
    /// box has `of_box` of them.
    fn boxes(
        &self,
        [batches, len, k]: [usize; 3],
        [along_len, along_k]: [u64; 2],
        tile: usize,
    ) -> Boxes {
        let batches = if self.strides.batch == 0 { 1 } else { batches };
        // A vector is contiguous both ways: rows of one element are better read as a column.
        let is_across = along_k != 1 || (k == 1 && along_len == 1);
        let (outer, inner, along, of_box) = match is_across {
            false => (len, k, along_len, [tile, depth(self.bytes)]),
            true => (k, len, along_k, [ROWS_OF_BOX, depth(self.bytes)]),
        };
        let bytes = self.bytes as u64;
        let row_bytes = if outer == 1 {
            (inner as u64 * bytes).next_multiple_of(UNIT_BYTES)
        } else {
            along * bytes
        };
        let batch_bytes = if batches == 1 { UNIT_BYTES } else { self.strides.batch * bytes };
        Boxes {
            is_across,
            extents: [inner, outer, batches].map(|size| size as u64),
            strides_bytes: [row_bytes, batch_bytes],
            of_box: [of_box[1] as u32, of_box[0] as u32, 1],
        }
    }

    /// Whether the copy engine addresses it.
    fn is_addressed(&self, boxes: &Boxes) -> bool {
        let fits = |stride: &u64| stride.is_multiple_of(UNIT_BYTES) && *stride < STRIDE_LIMIT_BYTES;
        self.address.is_multiple_of(UNIT_BYTES) && boxes.strides_bytes.iter().all(fits)
    }

    /// Whether warpgroups multiply it where it lies: across K only elements of 16 bits.
    fn is_ready(&self, boxes: &Boxes) -> bool {
        self.is_addressed(boxes) && (self.bytes == 2 || !boxes.is_across)
    }

    fn map(&self, stream: &Stream, boxes: &Boxes) -> GpuResult<MapWords> {
        let Boxes { extents, strides_bytes, of_box, .. } = *boxes;
        encode(stream, OPERATION, self.map_type, self.address, extents, strides_bytes, of_box)
    }
}

/// Launches the copy of elements of the size of `U`.
fn copy_packed<T: Pod, U: Pod + Element>(
    stream: &Stream,
    packing: Packing,
    from: &Matrix<'_, T>,
    to: &mut DeviceSliceMut<'_, u8>,
) -> GpuResult<()>
where
    pack<U>: Instance,
{
    let grid = Grid1::new(grid_blocks(packing.blocks())?);
    let (from, mut to) = (As::<U>::new(&from.memory), AsMut::<U>::new(to));
    // SAFETY: the matrix has all elements of its layout, and the copy is as long as the packing says.
    unsafe { pack::<U>::launch(stream, grid, packing, &from, &mut to) }
}

/// The type of elements that are only moved: the copy engine need not know more than their size.
const fn type_of(bytes: usize) -> u32 {
    match bytes {
        1 => TensorType::U8 as u32,
        2 => TensorType::U16 as u32,
        4 => TensorType::U32 as u32,
        _ => TensorType::U64 as u32,
    }
}

/// An operand as the copy engine reads it, innermost first.
#[derive(Clone, Copy, Debug)]
struct Boxes {
    /// Whether K is not the innermost.
    is_across: bool,
    extents: [u64; 3],
    strides_bytes: [u64; 2],
    of_box: [u32; 3],
}

impl Prepared {
    /// How the copy engine reads A and B in tiles with this many columns.
    fn boxes(&self, columns: usize) -> [Boxes; 2] {
        let Problem { m, n, k, batches, .. } = self.problem;
        let [m, n, k, batches] = [m, n, k, batches].map(|size| size as usize);
        let (a, b) = (self.a.strides, self.b.strides);
        [
            self.a.boxes([batches, m, k], [a.row, a.column], ROWS_OF_TILE),
            self.b.boxes([batches, n, k], [b.column, b.row], columns_of_box(columns)),
        ]
    }

    /// With the type of tensor maps of `T`.
    pub fn of_factors<T: Factor>(mut self) -> Self {
        if let Some(map_type) = T::MAP_TYPE {
            (self.a.map_type, self.b.map_type) = (map_type, map_type);
        }
        self
    }

    /// Whether the copy engine addresses A and B.
    pub fn is_addressed(&self) -> bool {
        let [a, b] = self.boxes(ROWS_OF_TILE);
        self.a.is_addressed(&a) && self.b.is_addressed(&b)
    }

    /// The copies of A and of B that warpgroups need, where they cannot multiply what lies in memory. K is not 0.
    pub fn packings(&self) -> [Option<Packing>; 2] {
        let [of_a, of_b] = self.boxes(ROWS_OF_TILE);
        let Problem { m, n, k, batches, .. } = self.problem;
        let packing = |operand: &Operand, rows: u32, from: Strides| Packing {
            rows,
            k,
            batches: if from.batch == 0 { 1 } else { batches },
            leading: k.next_multiple_of((UNIT_BYTES as usize / operand.bytes) as u32),
            from,
        };
        let (a, b) = (&self.a, &self.b);
        [
            (!a.is_ready(&of_a)).then(|| packing(a, m, a.strides)),
            (!b.is_ready(&of_b)).then(|| packing(b, n, b.strides.transposed())),
        ]
    }

    /// The product of `copies` of A and of B, where there are `packings`: see [`packings`](Self::packings).
    ///
    /// # Errors
    /// Those of the launches.
    pub fn packed<T: Pod>(
        mut self,
        stream: &Stream,
        packings: [Option<Packing>; 2],
        operands: [&Matrix<'_, T>; 2],
        copies: [&mut DeviceSliceMut<'_, u8>; 2],
    ) -> GpuResult<Self> {
        let [of_a, of_b] = packings;
        let [to_a, to_b] = copies;
        if let Some(packing) = of_a {
            self.a = self.a.packed(stream, packing, operands[0], to_a)?;
            self.problem.a = self.a.strides;
        }
        if let Some(packing) = of_b {
            let columns = self.b.packed(stream, packing, operands[1], to_b)?;
            self.b = columns.transposed();
            self.problem.b = self.b.strides;
        }
        Ok(self)
    }

    /// Whether the copy engine reads A, or its copy, along K, where D has fewer rows than columns, or else B.
    pub fn has_few_along_k(&self) -> bool {
        let [a, b] = self.boxes(ROWS_OF_TILE);
        let (few, boxes) =
            if self.problem.m < self.problem.n { (&self.a, a) } else { (&self.b, b) };
        !boxes.is_across || !few.is_ready(&boxes)
    }

    /// The same product as one of the transposes: `Dᵀ = Bᵀ·Aᵀ`.
    pub fn exchanged(self) -> Self {
        let problem = self.problem;
        let problem = Problem {
            m: problem.n,
            n: problem.m,
            a: problem.b.transposed(),
            b: problem.a.transposed(),
            c: problem.c.transposed(),
            d: problem.d.transposed(),
            is_transposed: u32::from(problem.is_transposed == 0),
            ..problem
        };
        let (a, b) = (self.b.transposed(), self.a.transposed());
        Self { problem, a, b, is_exchanged: !self.is_exchanged }
    }

    /// The maps of A, B and D, and the tiles. The copy engine addresses A and B. D is at an address, and its elements have a number of
    /// bytes; where there is `None`, the kernel has no map of D.
    pub fn schedule(
        &self,
        stream: &Stream,
        (tile, choice): (Tile, &Choice),
        d: Option<(u64, usize)>,
    ) -> GpuResult<([MapWords; 3], Schedule)> {
        let (a, b, problem) = (&self.a, &self.b, &self.problem);
        let columns = tile.columns();
        let [boxes_a, boxes_b] = self.boxes(columns);
        let (map_a, map_b) = (a.map(stream, &boxes_a)?, b.map(stream, &boxes_b)?);
        // Small tiles are written from registers.
        let map_d = match (tile, d) {
            (Tile::Wide | Tile::Middle | Tile::Square, Some((address, bytes))) => {
                map_of_d(stream, problem, address, bytes)?
            }
            _ => None,
        };
        let schedule = Schedule {
            tile_rows: problem.m.div_ceil(ROWS_OF_TILE as u32),
            tile_columns: problem.n.div_ceil(columns as u32),
            steps: problem.k.div_ceil(depth(a.bytes) as u32),
            group: choice.group,
            adds: u32::from(choice.parts > 1),
            a_across: u32::from(boxes_a.is_across),
            b_across: u32::from(boxes_b.is_across),
            d_mapped: u32::from(map_d.is_some()),
            a_batches: u32::from(a.strides.batch != 0),
            b_batches: u32::from(b.strides.batch != 0),
            ..Schedule::default()
        }
        .on_grid(problem, choice.streamed, choice.blocks as u32);
        Ok(([map_a, map_b, map_d.unwrap_or_default()], schedule))
    }
}

/// The map of D, where the copy engine can store to it. It stores whole units of 16 bytes, also of the last one of a row: an
/// H200 writes past the end of rows that end within a unit, whatever the extent that the map gives.
pub(super) fn map_of_d(
    stream: &Stream,
    problem: &Problem,
    address: u64,
    bytes: usize,
) -> GpuResult<Option<MapWords>> {
    let outputs = u64::from(problem.batches) * u64::from(problem.splits);
    let (m, n) = (u64::from(problem.m), u64::from(problem.n));
    let row = if m == 1 {
        (n * bytes as u64).next_multiple_of(UNIT_BYTES)
    } else {
        problem.d.row * bytes as u64
    };
    let batch = if outputs == 1 { UNIT_BYTES } else { problem.d.batch * bytes as u64 };
    let fits = |stride: u64| {
        stride.is_multiple_of(UNIT_BYTES) && stride > 0 && stride < STRIDE_LIMIT_BYTES
    };
    let ends = n * bytes as u64;
    if !fits(row) || !fits(batch) || !(address | ends).is_multiple_of(UNIT_BYTES) {
        return Ok(None);
    }
    let (ty, columns) = match bytes {
        4 => (TensorType::U32, stored_columns::<u32>()),
        1 => (TensorType::U8, stored_columns::<u8>()),
        _ => (TensorType::U16, stored_columns::<u16>()),
    };
    encode(
        stream,
        OPERATION,
        ty as u32,
        address,
        [n, m, outputs],
        [row, batch],
        [columns as u32, STORED_ROWS, 1],
    )
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::matmul::Order;

    fn layout(rows: usize, columns: usize) -> MatrixLayout {
        MatrixLayout::new(Order::RowMajor, rows, columns)
    }

    #[test]
    fn errors_name_both_shapes() {
        let text = |a, b, d| check_shapes(&a, &b, &d).unwrap_err().to_string();
        assert_eq!(
            text(layout(3, 4), layout(5, 6), layout(3, 6)),
            "multiplying matrices: A is 3 × 4 and B is 5 × 6: A has 4 columns, and B 5 rows"
        );
        assert!(
            text(layout(3, 4), layout(4, 6), layout(6, 3)).contains("so D is 3 × 6, and not 6 × 3")
        );
        let batch = MatrixLayout { batches: 2, batch_stride: 12, ..layout(3, 4) };
        let of_three = MatrixLayout { batches: 3, batch_stride: 18, ..layout(3, 6) };
        assert!(text(batch, layout(4, 6), of_three).contains("A is 2 × (3 × 4)"));
        assert!(
            text(layout(1 << 31, 4), layout(4, 6), layout(1 << 31, 6))
                .contains("the limit is 2^31")
        );
    }

    #[test]
    fn elements_of_d_are_apart() {
        let batch = |stride, leading| MatrixLayout {
            batches: 3,
            batch_stride: stride,
            leading,
            ..layout(4, 8)
        };
        assert!(check_own_elements(&batch(32, 8)).is_ok());
        // Matrices side by side: a row of each, and then the next row of each.
        assert!(check_own_elements(&batch(8, 24)).is_ok());
        for (stride, leading) in [(0, 8), (31, 8), (7, 24), (8, 23)] {
            assert!(check_own_elements(&batch(stride, leading)).is_err(), "{stride} {leading}");
        }
    }

    #[test]
    fn memory_of_d_is_apart_from_operands() {
        let raw = |address, len| RawSlice { address, len, home: None };
        assert!(check_apart("A", (&raw(256, 8), 2), (&raw(272, 4), 4)).is_ok());
        assert!(check_apart("A", (&raw(256, 9), 2), (&raw(272, 4), 4)).is_err());
        assert!(check_apart("A", (&raw(256, 0), 2), (&raw(256, 4), 4)).is_ok());
    }
}
