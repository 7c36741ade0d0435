//! Merges and set operations of sorted arrays.
//!
//! Keys are `u32`, `i32`, `f32`, `u64`, `i64` or `f64` in their total order, as for [`search`](super::search).
//!
//! ```
//! use ferrowarp::{DeviceBuffer, Gpu, ops};
//!
//! let gpu = Gpu::new()?;
//! let a = DeviceBuffer::from_slice(&gpu, &[1u32, 3, 3, 7])?;
//! let b = DeviceBuffer::from_slice(&gpu, &[2u32, 3])?;
//! assert_eq!(ops::merge(&gpu, &a, &b)?.to_vec()?, [1, 2, 3, 3, 3, 7]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! Arrays that are not sorted give a meaningless result, and no error.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use kernels_gpu::merge::{
    SPLITS, merge_partners, merge_plain, merge_splits, merge_tile_pairs, merge_tiles, tile_len,
};
use kernels_gpu::select::select_flagged;

use super::number::Number;
use super::scratch::size_of_parts;
use super::select::{self, Flagged};
use super::{Scratch, block_count, same_len};
use crate::error::GpuResult;
use crate::memory::{DeviceBuffer, DeviceSliceMut};
use crate::stream::AsStream;

/// `a: [n]` and `b: [m]`, both sorted, as one sorted buffer of `n + m`. Of equal keys those of `a` come first.
/// Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn merge<K: Pod>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_splits<K>: Instance,
    merge_tiles<K>: Instance,
{
    let mut out = DeviceBuffer::zeroed(on, a.len() + b.len())?;
    merge_into(on, a, b, &mut out, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// The scratch of [`merge_into`] and [`merge_pairs_into`] for a result of `n_elems` elements, in bytes.
#[must_use]
pub fn scratch_bytes(n_elems: usize) -> usize {
    // The longest keys have the smallest tiles.
    size_of_parts(&[splits_bytes::<u64>(n_elems)])
}

fn splits_bytes<K>(n_elems: usize) -> usize {
    (n_elems.div_ceil(tile_len::<K>()) + 1) * size_of::<u64>()
}

/// As [`merge`], into `out: [n + m]`. Asynchronous, in two launches.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; errors of the driver.
pub fn merge_into<K>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<K>,
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    merge_splits<K>: Instance,
    merge_tiles<K>: Instance,
{
    let n = a.len() + b.len();
    same_len("merging", n, out.len())?;
    let splits = splits(on, a, b, scratch)?;
    merge_tiles::<K>::launch(on.as_stream(), tiles::<K>(n), &splits, a, b, out)
}

/// Where the tiles of the result begin in `a`.
fn splits<'a, K>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
    scratch: &'a mut Scratch,
) -> GpuResult<DeviceSliceMut<'a, u64>>
where
    merge_splits<K>: Instance,
{
    let (_, [splits]) = scratch.parts(on, [splits_bytes::<K>(a.len() + b.len())])?;
    let mut splits = splits.into_cast::<u64>()?;
    let config = Grid1::new(block_count(splits.len().div_ceil(SPLITS)));
    merge_splits::<K>::launch(on.as_stream(), config, a, b, &mut splits)?;
    Ok(splits)
}

/// As [`merge_into`], with a thread for each element: the form to read first. One launch, no scratch.
///
/// # Errors
/// As [`merge_into`].
pub fn merge_plain_into<K>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<K>,
) -> GpuResult<()>
where
    merge_plain<K>: Instance,
{
    let n = a.len() + b.len();
    same_len("merging", n, out.len())?;
    merge_plain::<K>::launch(on.as_stream(), LaunchConfig::for_num_elems(n), a, b, out)
}

/// As [`merge_into`], with a value for each key, which moves with the key: `a` and `b` are keys and values, and
/// so is `out`. Asynchronous, in two launches.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if lengths do not fit; errors of the driver.
pub fn merge_pairs_into<K>(
    on: &impl AsStream,
    a: (&impl DeviceRead<K>, &impl DeviceRead<u32>),
    b: (&impl DeviceRead<K>, &impl DeviceRead<u32>),
    out: (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<u32>),
    scratch: &mut Scratch,
) -> GpuResult<()>
where
    merge_splits<K>: Instance,
    merge_tile_pairs<K>: Instance,
{
    let n = a.0.len() + b.0.len();
    same_len("merging pairs", a.0.len(), a.1.len())?;
    same_len("merging pairs", b.0.len(), b.1.len())?;
    same_len("merging pairs", n, out.0.len())?;
    same_len("merging pairs", n, out.1.len())?;
    let splits = splits(on, a.0, b.0, scratch)?;
    merge_tile_pairs::<K>::launch(
        on.as_stream(),
        tiles::<K>(n),
        &splits,
        a.0,
        a.1,
        b.0,
        b.1,
        out.0,
        out.1,
    )
}

/// The multiset intersection of the sorted `a` and `b`: of equal elements as many as the array that has fewer of them.
/// Waits for the number of elements.
///
/// # Errors
/// Errors of the driver.
pub fn set_intersection<K: Number>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_partners<K>: Instance,
    select_flagged<K::Bits>: Instance,
{
    partners(on, true, a, b)
}

/// The multiset difference of the sorted `a` and `b`: of equal elements as many as `a` has more than `b`. Waits for the
/// number of elements.
///
/// # Errors
/// Errors of the driver.
pub fn set_difference<K: Number>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_partners<K>: Instance,
    select_flagged<K::Bits>: Instance,
{
    partners(on, false, a, b)
}

/// The multiset union of the sorted `a` and `b`: of equal elements as many as the array that has more of them. Waits for
/// the number of elements.
///
/// # Errors
/// Errors of the driver.
pub fn set_union<K: Number>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_splits<K>: Instance,
    merge_tiles<K>: Instance,
    merge_partners<K>: Instance,
    select_flagged<K::Bits>: Instance,
{
    merge(on, a, &set_difference(on, b, a)?)
}

/// The multiset symmetric difference of the sorted `a` and `b`: of equal elements as many as one array has more than the
/// other. Waits for the number of elements.
///
/// # Errors
/// Errors of the driver.
pub fn set_symmetric_difference<K: Number>(
    on: &impl AsStream,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_splits<K>: Instance,
    merge_tiles<K>: Instance,
    merge_partners<K>: Instance,
    select_flagged<K::Bits>: Instance,
{
    merge(on, &set_difference(on, a, b)?, &set_difference(on, b, a)?)
}

/// The elements of `a` that have a partner in `b`, or those that have none.
fn partners<K: Number>(
    on: &impl AsStream,
    with_partner: bool,
    a: &impl DeviceRead<K>,
    b: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<K>>
where
    merge_partners<K>: Instance,
    select_flagged<K::Bits>: Instance,
{
    let n = a.len();
    let mut flags = DeviceBuffer::<u8>::zeroed(on, n)?;
    let (stream, config) = (on.as_stream(), LaunchConfig::for_num_elems(n));
    merge_partners::<K>::launch(stream, config, with_partner.into(), a, b, &mut flags)?;
    select::by(on, Flagged(&flags), a)
}

/// A block for each tile of `n` elements.
fn tiles<K>(n: usize) -> Grid1 {
    Grid1::new(block_count(n.div_ceil(tile_len::<K>())))
}
