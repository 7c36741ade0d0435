//! Transposes of matrices, and permutations of three axes.
//!
//! Elements are of any plain type of 1, 2, 4 or 8 bytes. Everything is asynchronous and nothing is allocated.
//!
//! ```
//! use ferrowarp::ops::transpose;
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let rows = DeviceBuffer::from_slice(&gpu, &[1u16, 2, 3, 4, 5, 6])?;
//! let mut columns = DeviceBuffer::zeroed(&gpu, 6)?;
//! transpose::transpose(&gpu, &rows, &mut columns, 3, 2)?;
//! assert_eq!(columns.to_vec()?, [1, 4, 2, 5, 3, 6]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Grid2, LaunchConfig, RawSlice};
use kernels_gpu::transpose::vectors::{Layout, blocks, permute_elements, transpose_vectors};
use kernels_gpu::transpose::{TILE, transpose_naive as naive, transpose_tiled as tiled};

use super::views::{As, AsMut};
use super::{block_count, same_len};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::{AsStream, Stream};

const OPERATION: &str = "transposing a matrix";

/// `out: [width, height]` becomes the transpose of the row-major `input: [height, width]`. Fastest where both are
/// multiples of 16 bytes and the tile's side (32 to 128 elements); any others work.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) for lengths other than `width * height`,
/// [`InvalidArgument`](GpuError::InvalidArgument) for memory that is not aligned to the size of its
/// elements; errors of the driver.
pub fn transpose<T: Pod>(
    on: &impl AsStream,
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    batched(on, input, out, width, height, 1)
}

/// Each of `count` matrices is transposed: `input: [count, height, width]`, `out: [count, width, height]`.
///
/// # Errors
/// As [`transpose`].
pub fn batched<T: Pod>(
    on: &impl AsStream,
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    width: usize,
    height: usize,
    count: usize,
) -> GpuResult<()> {
    check_lens([count, height, width], input, out)?;
    Matrices::dense(height, width, count).transpose(on.as_stream(), input, out)
}

/// [`transpose`] between rows that are further apart than they are long: `out[x * out_pitch + y] = input[y * pitch + x]`, for `x`
/// below `width` and `y` below `height`. What lies between the rows of `out` is not changed.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if the rows overlap, or are not inside `input` or `out`; as [`transpose`].
pub fn pitched<T: Pod>(
    on: &impl AsStream,
    input: &impl DeviceRead<T>,
    pitch: usize,
    out: &mut impl DeviceWrite<T>,
    out_pitch: usize,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    if width == 0 || height == 0 {
        return Ok(());
    }
    let at_least = |expected, found| match expected <= found {
        true => Ok(()),
        false => Err(GpuError::SizeMismatch { operation: OPERATION, expected, found }),
    };
    let layout = |pitch| Layout { pitch, plane: 0 };
    let (from, to) = (layout(pitch), layout(out_pitch));
    at_least(width, pitch)?;
    at_least(height, out_pitch)?;
    at_least(from.extent([height, width, 1]), input.len())?;
    at_least(to.extent([width, height, 1]), out.len())?;
    Matrices { dims: [height, width, 1], from, to }.transpose(on.as_stream(), input, out)
}

/// The axes of `input: dims`, row-major, in another order: axis `k` of `out` is axis `axes[k]` of `input`, as in NumPy's
/// `transpose`. So with `axes = [2, 0, 1]`, `out[c][a][b] = input[a][b][c]`.
///
/// # Errors
/// [`InvalidArgument`](GpuError::InvalidArgument) unless `axes` are 0, 1 and 2 in some order; as [`transpose`].
pub fn permute<T: Pod>(
    on: &impl AsStream,
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    dims: [usize; 3],
    axes: [usize; 3],
) -> GpuResult<()> {
    check_lens(dims, input, out)?;
    let [a, b, c] = dims;
    let matrices = match axes {
        [0, 1, 2] => return copy_runs(on.as_stream(), input, out, [1, 1, a * b * c]),
        [1, 0, 2] => return copy_runs(on.as_stream(), input, out, dims),
        [0, 2, 1] => Matrices::dense(b, c, a),
        [1, 2, 0] => Matrices::dense(a, b * c, 1),
        [2, 0, 1] => Matrices::dense(a * b, c, 1),
        [2, 1, 0] => Matrices::interleaved(a, c, b),
        _ => return Err(no_permutation(axes)),
    };
    matrices.transpose(on.as_stream(), input, out)
}

/// [`permute`] element by element: the form to read first.
///
/// # Errors
/// As [`permute`].
pub fn permute_naive<T: Pod>(
    on: &impl AsStream,
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    dims: [usize; 3],
    axes: [usize; 3],
) -> GpuResult<()> {
    check_lens(dims, input, out)?;
    let mut sorted = axes;
    sorted.sort_unstable();
    if sorted != [0, 1, 2] {
        return Err(no_permutation(axes));
    }
    let strides = [dims[1] * dims[2], dims[2], 1];
    let copy =
        StridedCopy { dims: axes.map(|axis| dims[axis]), strides: axes.map(|axis| strides[axis]) };
    copy.run(on.as_stream(), input, out, size_of::<T>())
}

fn no_permutation([a, b, c]: [usize; 3]) -> GpuError {
    GpuError::InvalidArgument {
        operation: "permuting axes",
        reason: format!("the axes are {a}, {b} and {c}, and must be 0, 1 and 2 in some order"),
    }
}

/// `out: [width, height]` becomes the transpose of `input: [height, width]` through tiles of single elements in shared memory:
/// the second of three forms to read.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) for lengths other than `width * height`; errors of the driver.
pub fn transpose_tiled(
    on: &impl AsStream,
    input: &impl DeviceRead<f32>,
    out: &mut DeviceBuffer<f32>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len(OPERATION, width * height, input.len())?;
    let [across, down] = [height, width].map(|side| block_count(side.div_ceil(TILE)));
    let grid = Grid2::new(across, down);
    tiled::launch(on.as_stream(), grid, input, &mut out.grid_mut(height, width)?)
}

/// As [`transpose_tiled`], without shared memory: the form to read first, slow on purpose.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) for lengths other than `width * height`; errors of the driver.
pub fn transpose_naive(
    on: &impl AsStream,
    input: &impl DeviceRead<f32>,
    out: &mut DeviceBuffer<f32>,
    width: usize,
    height: usize,
) -> GpuResult<()> {
    same_len(OPERATION, width * height, input.len())?;
    let config = LaunchConfig::for_grid(height, width);
    naive::launch(on.as_stream(), config, input, &mut out.grid_mut(height, width)?)
}

fn check_lens<T>(
    dims: [usize; 3],
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
) -> GpuResult<()> {
    let n = dims.iter().try_fold(1_usize, |n, dim| n.checked_mul(*dim)).unwrap_or(usize::MAX);
    same_len(OPERATION, n, input.len())?;
    same_len(OPERATION, n, out.len())
}

/// Whether memory of `T` is whole, aligned units of `bytes`.
fn fits<T>(raw: &RawSlice<'_>, bytes: usize) -> bool {
    raw.address.is_multiple_of(bytes as u64) && (raw.len * size_of::<T>()).is_multiple_of(bytes)
}

/// Evaluates `$run` with `$unit_name` the integer of `$bytes` bytes, and with both arrays as arrays of it.
macro_rules! by_size {
    ($bytes:expr, $input:ident, $out:ident, $t:ident, [$($size:literal $unit:ty),+], $unit_name:ident => $run:expr) => {{
        let bytes = $bytes;
        if !fits::<$t>(&$input.raw(), bytes) || !fits::<$t>(&$out.raw_mut(), bytes) {
            return Err(GpuError::InvalidArgument {
                operation: OPERATION,
                reason: "an element's address is no multiple of its size".into(),
            });
        }
        match bytes {
            $($size => {
                type $unit_name = $unit;
                let ($input, $out) = (&As::<$unit>::new($input), &mut AsMut::<$unit>::new($out));
                $run
            })+
            _ => unreachable!("elements have 1, 2, 4 or 8 bytes"),
        }
    }};
}

/// Does not compile for elements of another size.
const fn assert_size<T>() {
    assert!(
        matches!(size_of::<T>(), 1 | 2 | 4 | 8),
        "elements that are transposed have 1, 2, 4 or 8 bytes"
    );
}

/// Matrices, and where they are in both arrays.
#[derive(Clone, Copy)]
struct Matrices {
    /// Rows and columns of each, as they are read, and how many there are.
    dims: [usize; 3],
    from: Layout,
    to: Layout,
}

impl Matrices {
    /// `[count, rows, cols]` to `[count, cols, rows]`.
    fn dense(rows: usize, cols: usize, count: usize) -> Self {
        let (from, to) = (Layout::dense(rows, cols), Layout::dense(cols, rows));
        Self { dims: [rows, cols, count], from, to }
    }

    /// `[rows, count, cols]` to `[cols, count, rows]`.
    fn interleaved(rows: usize, cols: usize, count: usize) -> Self {
        let layout = |width| Layout { pitch: count * width, plane: width };
        Self { dims: [rows, cols, count], from: layout(cols), to: layout(rows) }
    }

    fn transpose<T: Pod>(
        self,
        stream: &Stream,
        input: &impl DeviceRead<T>,
        out: &mut impl DeviceWrite<T>,
    ) -> GpuResult<()> {
        const { assert_size::<T>() };
        let Self { dims, from, to } = self;
        let [rows, cols, count] = dims;
        by_size!(size_of::<T>(), input, out, T, [1 u8, 2 u16, 4 u32, 8 u64], Unit => {
            let grid = Grid1::new(block_count(blocks::<Unit>(rows, cols, count)));
            transpose_vectors::<Unit>::launch(stream, grid, input, dims, from, to, out)
        })
    }
}

/// `out[b][a] = input[a][b]` for `input: dims` of runs along the last axis, in the largest units that fit.
fn copy_runs<T: Pod>(
    stream: &Stream,
    input: &impl DeviceRead<T>,
    out: &mut impl DeviceWrite<T>,
    [a, b, c]: [usize; 3],
) -> GpuResult<()> {
    let run_bytes = c * size_of::<T>();
    let largest = [16, 8, 4, 2].into_iter().find(|bytes| {
        run_bytes.is_multiple_of(*bytes)
            && fits::<T>(&input.raw(), *bytes)
            && fits::<T>(&out.raw_mut(), *bytes)
    });
    let bytes = largest.unwrap_or(1);
    let c = run_bytes / bytes;
    StridedCopy { dims: [b, a, c], strides: [c, b * c, 1] }.run(stream, input, out, bytes)
}

/// A copy to `out: dims`, row-major, from elements at these distances, all in units of `bytes` bytes.
struct StridedCopy {
    dims: [usize; 3],
    strides: [usize; 3],
}

impl StridedCopy {
    fn run<T: Pod>(
        &self,
        stream: &Stream,
        input: &impl DeviceRead<T>,
        out: &mut impl DeviceWrite<T>,
        bytes: usize,
    ) -> GpuResult<()> {
        /// Enough threads to fill any device several times; each steps on from there.
        const MOST_THREADS: usize = 1 << 22;
        const { assert_size::<T>() };
        let Self { dims, strides } = *self;
        let n: usize = dims.iter().product();
        let grid = LaunchConfig::for_num_elems(n.min(MOST_THREADS));
        by_size!(bytes, input, out, T, [1 u8, 2 u16, 4 u32, 8 u64, 16 u128], Unit => {
            permute_elements::<Unit>::launch(stream, grid, input, dims, strides, out)
        })
    }
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/transpose.md")]
struct Chapter;
