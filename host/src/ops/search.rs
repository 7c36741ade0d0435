//! Binary searches in a sorted array.
//!
//! Keys are `u32`, `i32`, `f32`, `u64`, `i64` or `f64` in their total order: `-NaN < -inf < … < -0.0 < 0.0 < … < NaN`,
//! as [`sort`](super::sort) leaves them. The results are indices into the sorted array.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[1u32, 3, 3, 7])?;
//! let values = DeviceBuffer::from_slice(&gpu, &[0u32, 3, 9])?;
//! assert_eq!(ops::lower_bound(&gpu, &x, &values)?.to_vec()?, [0, 1, 4]);
//! assert_eq!(ops::upper_bound(&gpu, &x, &values)?.to_vec()?, [0, 3, 4]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! An array that is not sorted gives meaningless indices, and no error.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use kernels_gpu::search::{BLOCK, Bound, line_len, search_index, search_plain, search_sorted};

use super::scratch::size_of_parts;
use super::{Scratch, same_len};
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Blocks of a multiprocessor: all that it holds.
const BLOCKS_EACH: u32 = 2048 / BLOCK as u32;

/// The least size of an array for which an index is made, in bytes: about the L2 cache of a device.
const LEAST_INDEXED_BYTES: usize = 32 << 20;
/// An index is made for at least one value for this number of elements. On an H200 an index costs the time that it saves one value
/// for 256 elements where the array has 1 GiB, and one for 18 where it has 64 MiB.
const ELEMENTS_PER_VALUE: usize = 8;

/// For each of `values: [m]` the first index in the sorted `x: [n]` at which it can be inserted: the number
/// of smaller elements. Returns a new buffer. Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn lower_bound<K: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_index<K>: Instance,
    search_sorted<K>: Instance,
{
    bound(on, Bound::Lower, x, values)
}

/// For each of `values: [m]` the last index in the sorted `x: [n]` at which it can be inserted: the number
/// of elements that are not greater. Returns a new buffer. Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn upper_bound<K: Pod>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_index<K>: Instance,
    search_sorted<K>: Instance,
{
    bound(on, Bound::Upper, x, values)
}

fn bound<K: Pod>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_index<K>: Instance,
    search_sorted<K>: Instance,
{
    let mut out = DeviceBuffer::zeroed(on, values.len())?;
    bound_into(on, bound, x, values, &mut out, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// The scratch of [`bound_into`] for `n_values` values in `n_elems` elements of type `K`, in bytes.
///
/// An index of the array takes it, of one element for every 128 bytes. It is made where the array outgrows the L2 cache and
/// there are many values; for others nothing is needed.
#[must_use]
pub fn scratch_bytes<K>(n_elems: usize, n_values: usize) -> usize {
    size_of_parts(&[index_len::<K>(n_elems, n_values) * size_of::<K>()])
}

/// Elements of the array's index: 0 where none is made.
fn index_len<K>(n_elems: usize, n_values: usize) -> usize {
    let is_large = n_elems.saturating_mul(size_of::<K>()) >= LEAST_INDEXED_BYTES;
    match is_large && n_values >= n_elems / ELEMENTS_PER_VALUE {
        true => n_elems.div_ceil(line_len::<K>()),
        false => 0,
    }
}

/// As [`lower_bound`] or [`upper_bound`], into `out: [m]`. Asynchronous, in one launch or two; allocates nothing if
/// `scratch` is as large as [`scratch_bytes`] says.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length than `values`; errors of the
/// driver.
pub fn bound_into<K: Pod>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u64>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    search_index<K>: Instance,
    search_sorted<K>: Instance,
{
    let n = values.len();
    same_len("searching", n, out.len())?;
    let stream = on.as_stream();
    let len = index_len::<K>(x.len(), n);
    let (_, [lines]) = scratch.parts(on, [len * size_of::<K>()])?;
    let mut lines = lines.into_cast::<K>()?;
    if len > 0 {
        search_index::<K>::launch(stream, LaunchConfig::for_num_elems(len), x, &mut lines)?;
    }
    let most = BLOCKS_EACH * stream.inner().context().info().multiprocessors;
    let blocks = n.div_ceil(BLOCK).min(most as usize) as u32;
    search_sorted::<K>::launch(stream, Grid1::new(blocks), bound as u32, x, &lines, values, out)
}

/// As [`bound_into`], with a thread for each value: the form to read first.
///
/// # Errors
/// As [`bound_into`].
pub fn bound_plain_into<K>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u64>,
) -> GpuResult<()>
where
    search_plain<K>: Instance,
{
    let n = values.len();
    same_len("searching", n, out.len())?;
    let config = LaunchConfig::for_num_elems(n);
    search_plain::<K>::launch(on.as_stream(), config, bound as u32, x, values, out)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/search.md")]
struct Chapter;
