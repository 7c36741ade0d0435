//! Sorts of segments.

use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::NoValue;

use super::keys::SortWith;
use super::radix::{Buffers, RadixSort};
use super::{SortKey, SortOptions, SortValue};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::As;
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// The scratch of [`segmented_sort_into`] for `n_elems` keys, in bytes.
#[must_use]
pub fn segmented_scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    size_of_parts(&[n_elems * size_of::<K>()])
}

/// The scratch of [`segmented_sort_pairs_into`] for `n_elems` pairs, in bytes.
#[must_use]
pub fn segmented_pairs_scratch_bytes<K: SortKey, V: SortValue>(n_elems: usize) -> usize {
    size_of_parts(&[n_elems * size_of::<K>(), n_elems * size_of::<V>()])
}

/// The scratch of [`segmented_argsort_into`] for `n_elems` keys, in bytes.
#[must_use]
pub fn segmented_argsort_scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    size_of_parts(&argsort_part_bytes::<K>(n_elems))
}

/// Sorted keys, which only the kernel needs; spare keys; spare indices.
fn argsort_part_bytes<K: SortKey>(n: usize) -> [usize; 3] {
    [n * size_of::<K>(), n * size_of::<K>(), n * size_of::<u32>()]
}

/// Sorts each segment of `x: [n]` by itself into the same range of `out: [n]`. Segment `i` begins at `offsets[i]` and
/// ends in front of `offsets[i + 1]`, so there is an offset more than there are segments. Asynchronous, in one launch.
///
/// Segments may be of very different lengths: a warp sorts up to 32 keys, a block longer ones. One block does all of a
/// segment, so a few of millions of keys are sorted sooner with [`sort_groups_into`](super::sort_groups_into). What lies
/// outside all segments stays in `out` as it was. An offset past the end counts as the end, and a segment that ends before it begins is
/// empty; where segments overlap, keys may get lost.
///
/// # Errors
/// As [`sort_into`](super::sort_into); [`InvalidArgument`](GpuError::InvalidArgument) for 2³² keys or more.
pub fn segmented_sort_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    offsets: &impl DeviceRead<u64>,
    out: &mut impl DeviceWrite<K>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(x.len(), options)?;
    same_len("sorting segments", sort.n, out.len())?;
    let (_, [mut spare]) = scratch.parts(on, [sort.n * size_of::<K>()])?;
    let keys = Buffers::<K::Bits>::new(Some(x), out, &mut spare);
    run(on, sort, offsets, keys, Buffers::<NoValue>::none())
}

/// As [`segmented_sort_into`], with scratch of its own: a new buffer, 0 outside all segments.
///
/// # Errors
/// As [`segmented_sort_into`].
pub fn segmented_sort<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    offsets: &impl DeviceRead<u64>,
    options: SortOptions,
) -> GpuResult<DeviceBuffer<K>> {
    let mut out = DeviceBuffer::zeroed(on, x.len())?;
    segmented_sort_into(on, x, offsets, &mut out, options, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// As [`segmented_sort_into`], of the keys `keys: [n]` into `out_keys: [n]`, and of their values `values: [n]` with them into
/// `out_values: [n]`. Asynchronous, in one launch.
///
/// # Errors
/// As [`segmented_sort_into`].
pub fn segmented_sort_pairs_into<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<K>, &impl DeviceRead<V>),
    offsets: &impl DeviceRead<u64>,
    (out_keys, out_values): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<V>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(keys.len(), options)?;
    same_len("the values of a sort of segments", sort.n, values.len())?;
    same_len("sorting segments", sort.n, out_keys.len())?;
    same_len("the sorted values of segments", sort.n, out_values.len())?;
    let sizes = [sort.n * size_of::<K>(), sort.n * size_of::<V>()];
    let (_, [mut spare, mut spare_values]) = scratch.parts(on, sizes)?;
    let keys = Buffers::<K::Bits>::new(Some(keys), out_keys, &mut spare);
    match size_of::<V>() {
        4 => {
            let values = Buffers::<u32>::new(Some(values), out_values, &mut spare_values);
            run(on, sort, offsets, keys, values)
        }
        _ => {
            let values = Buffers::<u64>::new(Some(values), out_values, &mut spare_values);
            run(on, sort, offsets, keys, values)
        }
    }
}

/// As [`segmented_sort_pairs_into`], with scratch of its own: two new buffers, 0 outside all segments.
///
/// # Errors
/// As [`segmented_sort_into`].
pub fn segmented_sort_pairs<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    keys: &impl DeviceRead<K>,
    values: &impl DeviceRead<V>,
    offsets: &impl DeviceRead<u64>,
    options: SortOptions,
) -> GpuResult<(DeviceBuffer<K>, DeviceBuffer<V>)> {
    let n = keys.len();
    let (mut out_keys, mut out_values) =
        (DeviceBuffer::zeroed(on, n)?, DeviceBuffer::zeroed(on, n)?);
    let out = (&mut out_keys, &mut out_values);
    segmented_sort_pairs_into(on, (keys, values), offsets, out, options, &mut Scratch::new(on)?)?;
    Ok((out_keys, out_values))
}

/// `out: [n]` becomes, for each segment of the keys `x: [n]`, the indices of its keys in `x`, in order; those of equal keys ascend.
/// Segments are as for [`segmented_sort_into`]. Asynchronous, in one launch.
///
/// # Errors
/// As [`segmented_sort_into`].
pub fn segmented_argsort_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    offsets: &impl DeviceRead<u64>,
    out: &mut impl DeviceWrite<u32>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let mut sort = RadixSort::new::<K>(x.len(), options)?;
    sort.indexed = true;
    same_len("the indices of a sort of segments", sort.n, out.len())?;
    let (_, [mut sorted, mut spare, mut spare_indices]) =
        scratch.parts(on, argsort_part_bytes::<K>(sort.n))?;
    let keys = Buffers::<K::Bits>::new(Some(x), &mut sorted, &mut spare);
    let indices = Buffers::<u32>::new(None::<&DeviceBuffer<u32>>, out, &mut spare_indices);
    run(on, sort, offsets, keys, indices)
}

/// As [`segmented_argsort_into`], with scratch of its own: a new buffer, 0 outside all segments.
///
/// # Errors
/// As [`segmented_argsort_into`].
pub fn segmented_argsort<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    offsets: &impl DeviceRead<u64>,
    options: SortOptions,
) -> GpuResult<DeviceBuffer<u32>> {
    let mut out = DeviceBuffer::zeroed(on, x.len())?;
    segmented_argsort_into(on, x, offsets, &mut out, options, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// Enqueues the sort, unless there is nothing to sort.
fn run<W: SortWith<V>, V>(
    on: &impl AsStream,
    sort: RadixSort,
    offsets: &impl DeviceRead<u64>,
    mut keys: Buffers<'_, W>,
    mut values: Buffers<'_, V>,
) -> GpuResult<()> {
    if offsets.len() < 2 || sort.n == 0 {
        return Ok(());
    }
    if sort.n > u32::MAX as usize {
        let reason = format!("{} keys are too many: it takes fewer than 2^32", sort.n);
        return Err(GpuError::InvalidArgument { operation: "sorting segments", reason });
    }
    // SAFETY: all arrays have `n` elements, or none where there are no values; the bits are the key's.
    unsafe { W::segments(on.as_stream(), &sort, &As::new(offsets), &mut keys, &mut values) }
}
