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

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use kernels_gpu::search::{BLOCK, Bound, search_plain, search_sorted};

use super::same_len;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Blocks of a multiprocessor: all that it holds.
const BLOCKS_EACH: u32 = 2048 / BLOCK as u32;

/// For each of `values: [m]` the first index in the sorted `x: [n]` at which it can be inserted: the number
/// of smaller elements. Returns a new buffer. Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn lower_bound<K>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_sorted<K>: Instance,
{
    bound(on, Bound::Lower, x, values)
}

/// For each of `values: [m]` the last index in the sorted `x: [n]` at which it can be inserted: the number
/// of elements that are not greater. Returns a new buffer. Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn upper_bound<K>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_sorted<K>: Instance,
{
    bound(on, Bound::Upper, x, values)
}

fn bound<K>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>>
where
    search_sorted<K>: Instance,
{
    let mut out = DeviceBuffer::zeroed(on, values.len())?;
    bound_into(on, bound, x, values, &mut out)?;
    Ok(out)
}

/// As [`lower_bound`] or [`upper_bound`], into `out: [m]`. Asynchronous; allocates nothing.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length than `values`; errors of the
/// driver.
pub fn bound_into<K>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u64>,
) -> GpuResult<()>
where
    search_sorted<K>: Instance,
{
    let n = values.len();
    same_len("searching", n, out.len())?;
    let stream = on.as_stream();
    let most = BLOCKS_EACH * stream.inner().context().info().multiprocessors;
    let blocks = n.div_ceil(BLOCK).min(most as usize) as u32;
    search_sorted::<K>::launch(stream, Grid1::new(blocks), bound as u32, x, values, out)
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
