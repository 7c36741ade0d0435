//! Sparse matrix-vector products (SpMV).
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops::{self, Csr, Scratch}};
//!
//! let gpu = Gpu::new()?;
//! // 1 0 2
//! // 0 0 0
//! // 0 3 0
//! let a = Csr::new(&gpu, 3, &[0, 2, 2, 3], &[0, 2, 1], &[1.0f32, 2.0, 3.0])?;
//! let x = DeviceBuffer::from_slice(&gpu, &[1.0f32, 10.0, 100.0])?;
//! let mut y = DeviceBuffer::zeroed(&gpu, 3)?;
//! ops::spmv_into(&gpu, &a, &x, &mut y, &mut Scratch::new(&gpu)?)?;
//! assert_eq!(y.to_vec()?, [201.0, 0.0, 30.0]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use cuda_std::vector::Vec2;
use kernels_gpu::sparse::spmv::{BLOCK, MAX_ROW_TAIL, TILE};
use kernels_gpu::sparse::{
    rows_to_offsets, spmv_carry, spmv_plain, spmv_rows, spmv_splits, spmv_tiles,
};

use super::scratch::size_of_parts;
use super::sort::{SortOptions, SortValue, sort_pairs};
use super::{Scratch, same_len};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

const CREATING: &str = "making a matrix of compressed rows";

/// A sparse matrix in compressed rows (CSR): up to 2^32 - 1 rows, columns and entries.
///
/// It also keeps where the blocks of a product begin, 8 bytes for about two thousand entries, so that a product need not
/// search for them.
#[derive(Debug)]
pub struct Csr<T: Pod> {
    offsets: DeviceBuffer<u32>,
    columns: DeviceBuffer<u32>,
    values: DeviceBuffer<T>,
    width: usize,
    /// Where the tiles of [`spmv_into`] begin.
    splits: DeviceBuffer<Vec2<u32>>,
    /// Whether a row may be in several of them.
    has_long_rows: bool,
}

impl<T: Pod> Csr<T> {
    /// A matrix of `width` columns: `offsets: [rows + 1]`, `columns: [entries]`, `values: [entries]`.
    ///
    /// # Errors
    /// [`InvalidArgument`](GpuError::InvalidArgument) if the offsets do not begin at 0, do not rise, or do not end
    /// at the number of entries, or a column is past the last one; [`SizeMismatch`](GpuError::SizeMismatch) if
    /// there are not as many columns as values; errors of the driver.
    pub fn new(
        on: &impl AsStream,
        width: usize,
        offsets: &[u32],
        columns: &[u32],
        values: &[T],
    ) -> GpuResult<Self> {
        same_len(CREATING, columns.len(), values.len())?;
        check_size(offsets.len().saturating_sub(1), columns.len())?;
        let rise = offsets.is_sorted() && offsets.first() == Some(&0);
        if !rise || offsets.last().map(|&end| end as usize) != Some(columns.len()) {
            let reason = "the offsets must rise from 0 to the number of entries".to_owned();
            return Err(GpuError::InvalidArgument { operation: CREATING, reason });
        }
        if let Some(column) = columns.iter().find(|&&column| column as usize >= width) {
            let reason = format!("there is an entry in column {column}, of {width} columns");
            return Err(GpuError::InvalidArgument { operation: CREATING, reason });
        }
        let has_long_rows =
            offsets.windows(2).any(|ends| (ends[1] - ends[0]) as usize > MAX_ROW_TAIL);
        let offsets = DeviceBuffer::from_slice(on, offsets)?;
        let columns = DeviceBuffer::from_slice(on, columns)?;
        let values = DeviceBuffer::from_slice(on, values)?;
        Self::split(on, width, offsets, columns, values, has_long_rows)
    }

    /// A matrix of `width` columns of arrays that are on the device: `offsets: [rows + 1]`, `columns: [entries]`, `values: [entries]`.
    /// Asynchronous.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch) if there are not as many columns as values, or there is no offset;
    /// [`InvalidArgument`](GpuError::InvalidArgument) for 2^32 rows or entries or more; errors of the driver.
    ///
    /// # Safety
    /// The offsets rise from 0 to the number of entries, and each column is below `width`.
    pub unsafe fn from_device(
        on: &impl AsStream,
        width: usize,
        offsets: DeviceBuffer<u32>,
        columns: DeviceBuffer<u32>,
        values: DeviceBuffer<T>,
    ) -> GpuResult<Self> {
        same_len(CREATING, columns.len(), values.len())?;
        same_len(CREATING, 1, offsets.len().min(1))?;
        check_size(offsets.len() - 1, columns.len())?;
        Self::split(on, width, offsets, columns, values, true)
    }

    /// The matrix of these arrays, with its tiles.
    fn split(
        on: &impl AsStream,
        width: usize,
        offsets: DeviceBuffer<u32>,
        columns: DeviceBuffer<u32>,
        values: DeviceBuffer<T>,
        has_long_rows: bool,
    ) -> GpuResult<Self> {
        let tiles = (offsets.len() - 1 + columns.len()).div_ceil(TILE);
        let mut splits = DeviceBuffer::zeroed(on, tiles + 1)?;
        let config = LaunchConfig::for_num_elems(splits.len());
        spmv_splits::launch(on.as_stream(), config, columns.len() as u32, &offsets, &mut splits)?;
        Ok(Self { offsets, columns, values, width, splits, has_long_rows })
    }

    /// A matrix of `rows` rows and `width` columns from its entries as coordinates (COO), sorted by row:
    /// `entry_rows`, `columns` and `values`, all `[entries]`. Asynchronous.
    ///
    /// What is on the device is not looked at by the host: rows that are not sorted give another matrix, an entry
    /// in a row or a column past the last one counts nothing.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch) if the lengths differ;
    /// [`InvalidArgument`](GpuError::InvalidArgument) for 2^32 entries or more; errors of the driver.
    pub fn from_sorted_coo(
        on: &impl AsStream,
        (rows, width): (usize, usize),
        entry_rows: &impl DeviceRead<u32>,
        columns: DeviceBuffer<u32>,
        values: DeviceBuffer<T>,
    ) -> GpuResult<Self> {
        let entries = entry_rows.len();
        same_len(CREATING, entries, columns.len())?;
        same_len(CREATING, entries, values.len())?;
        check_size(rows, entries)?;
        let mut offsets = DeviceBuffer::zeroed(on, rows + 1)?;
        let config = LaunchConfig::for_num_elems(rows + 1);
        rows_to_offsets::launch(on.as_stream(), config, entry_rows, &mut offsets)?;
        Self::split(on, width, offsets, columns, values, true)
    }

    /// As [`from_sorted_coo`](Self::from_sorted_coo), of entries in any order, which stay as they are: two stable
    /// [sorts](super::sort) by row, of the columns and of the values. Entries of one row keep their order; several with the same
    /// coordinates add up. Asynchronous.
    ///
    /// # Errors
    /// As [`from_sorted_coo`](Self::from_sorted_coo).
    pub fn from_coo(
        on: &impl AsStream,
        size: (usize, usize),
        entry_rows: &impl DeviceRead<u32>,
        columns: &impl DeviceRead<u32>,
        values: &impl DeviceRead<T>,
    ) -> GpuResult<Self>
    where
        T: SortValue,
    {
        let entries = entry_rows.len();
        same_len(CREATING, entries, columns.len())?;
        same_len(CREATING, entries, values.len())?;
        check_size(size.0, entries)?;
        let (_, columns) = sort_pairs(on, entry_rows, columns, SortOptions::ASCENDING)?;
        let (rows, values) = sort_pairs(on, entry_rows, values, SortOptions::ASCENDING)?;
        Self::from_sorted_coo(on, size, &rows, columns, values)
    }

    /// The number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.values.len()
    }

    /// Where the rows begin: `[rows + 1]`.
    #[must_use]
    pub fn offsets(&self) -> &DeviceBuffer<u32> {
        &self.offsets
    }

    fn check(&self, x: usize, y: usize) -> GpuResult<()> {
        same_len("multiplying a matrix by a vector", self.width, x)?;
        same_len("multiplying a matrix by a vector", self.rows(), y)
    }

    /// Blocks of the balanced form.
    fn tiles(&self) -> usize {
        self.splits.len() - 1
    }
}

/// Rows and entries have numbers of 32 bits.
fn check_size(rows: usize, entries: usize) -> GpuResult<()> {
    if u32::try_from(rows.max(entries)).is_ok() {
        return Ok(());
    }
    let reason = format!("there are {rows} rows and {entries} entries, and 2^32 - 1 is the most");
    Err(GpuError::InvalidArgument { operation: CREATING, reason })
}

/// How many lanes take a row in [`spmv_rows_into`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLanes {
    /// For rows of about 4 entries.
    Four = 4,
    /// For rows of about 8 entries.
    Eight = 8,
    /// For rows of about 16 entries.
    Sixteen = 16,
    /// All 32, for longer rows.
    Warp = 32,
}

/// The scratch of [`spmv_into`] for a matrix, in bytes.
#[must_use]
pub fn scratch_bytes<T: Pod>(a: &Csr<T>) -> usize {
    size_of_parts(&part_bytes(a))
}

fn part_bytes<T: Pod>(a: &Csr<T>) -> [usize; 2] {
    let carries = if a.has_long_rows { a.tiles() } else { 0 };
    [carries * size_of::<u32>(), carries * size_of::<f64>()]
}

/// `y = A x`, with the same work for each block however long the rows are. `x: [width]`, `y: [rows]`. Asynchronous.
///
/// One launch, and a second small one if a row may have more than [`MAX_ROW_TAIL`] entries.
///
/// A row's products are rounded, and added in a fixed order, which depends on the matrix alone: the same bits again and
/// again. Each lane adds every n-th of them, in the matrix's type, and their sums are joined as a tree. What
/// several blocks have of a long row is joined in f64.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if the lengths do not fit; errors of the driver.
pub fn spmv_into<T: Pod>(
    on: &impl AsStream,
    a: &Csr<T>,
    x: &impl DeviceRead<T>,
    y: &mut impl DeviceWrite<T>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    spmv_tiles<T>: Instance,
    spmv_carry<T>: Instance,
{
    a.check(x.len(), y.len())?;
    let (_, [rows, sums]) = scratch.parts(on, part_bytes(a))?;
    let (mut carry_rows, mut carry_sums) = (rows.into_cast::<u32>()?, sums.into_cast::<f64>()?);
    let stream = on.as_stream();
    spmv_tiles::<T>::launch(
        stream,
        Grid1::new(a.tiles() as u32),
        &a.splits,
        &a.offsets,
        &a.columns,
        &a.values,
        x,
        &mut *y,
        &mut carry_rows,
        &mut carry_sums,
    )?;
    let grid = Grid1::new(carry_rows.len().div_ceil(BLOCK) as u32);
    spmv_carry::<T>::launch(stream, grid, &carry_rows, &carry_sums, y)
}

/// `y = A x` by 4 to 32 lanes for each row: for matrices whose rows are about equally long. Asynchronous; no scratch.
///
/// # Errors
/// As [`spmv_into`].
pub fn spmv_rows_into<T: Pod>(
    on: &impl AsStream,
    lanes: RowLanes,
    a: &Csr<T>,
    x: &impl DeviceRead<T>,
    y: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    spmv_rows<T, 4>: Instance,
    spmv_rows<T, 8>: Instance,
    spmv_rows<T, 16>: Instance,
    spmv_rows<T, 32>: Instance,
{
    a.check(x.len(), y.len())?;
    let grid = Grid1::new((a.rows() * lanes as usize).div_ceil(BLOCK) as u32);
    let (on, offsets, columns, values) = (on.as_stream(), &a.offsets, &a.columns, &a.values);
    match lanes {
        RowLanes::Four => spmv_rows::<T, 4>::launch(on, grid, offsets, columns, values, x, y),
        RowLanes::Eight => spmv_rows::<T, 8>::launch(on, grid, offsets, columns, values, x, y),
        RowLanes::Sixteen => spmv_rows::<T, 16>::launch(on, grid, offsets, columns, values, x, y),
        RowLanes::Warp => spmv_rows::<T, 32>::launch(on, grid, offsets, columns, values, x, y),
    }
}

/// `y = A x` by a thread for each row: the form to read first. Asynchronous; no scratch.
///
/// # Errors
/// As [`spmv_into`].
pub fn spmv_plain_into<T: Pod>(
    on: &impl AsStream,
    a: &Csr<T>,
    x: &impl DeviceRead<T>,
    y: &mut impl DeviceWrite<T>,
) -> GpuResult<()>
where
    spmv_plain<T>: Instance,
{
    a.check(x.len(), y.len())?;
    let config = LaunchConfig::for_num_elems(a.rows());
    let (offsets, columns, values) = (&a.offsets, &a.columns, &a.values);
    spmv_plain::<T>::launch(on.as_stream(), config, offsets, columns, values, x, y)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/spmv.md")]
struct Chapter;
