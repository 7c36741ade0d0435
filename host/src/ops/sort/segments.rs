//! Sorts of segments.

use cuda_std::launch::{DeviceRead, DeviceWrite, RawSlice};
use kernels_gpu::grid::sort::{NoValue, Order};

use super::keys::sealed::{Key, Value};
use super::keys::{ValueWord, Words};
use super::radix::{Job, words};
use super::{SortKey, SortOptions, SortValue};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::scratch::size_of_parts;
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// What [`segmented_sort_into`] takes of its scratch for `n_elems` keys, in bytes.
#[must_use]
pub fn segmented_scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    size_of_parts(&[n_elems * size_of::<K>()])
}

/// What [`segmented_sort_pairs_into`] takes of its scratch for `n_elems` pairs, in bytes.
#[must_use]
pub fn segmented_pairs_scratch_bytes<K: SortKey, V: SortValue>(n_elems: usize) -> usize {
    size_of_parts(&[n_elems * size_of::<K>(), n_elems * size_of::<V>()])
}

/// What [`segmented_argsort_into`] takes of its scratch for `n_elems` keys, in bytes.
#[must_use]
pub fn segmented_argsort_scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    size_of_parts(&argsort_part_bytes::<K>(n_elems))
}

/// Sorted keys that nobody wants, spare keys, spare places.
fn argsort_part_bytes<K: SortKey>(n: usize) -> [usize; 3] {
    [n * size_of::<K>(), n * size_of::<K>(), n * size_of::<u32>()]
}

/// Sorts each segment of `x: [n]` by itself into the same places of `out: [n]`. Segment `i` begins at `offsets[i]` and
/// ends in front of `offsets[i + 1]`, so there is an offset more than there are segments. Queued, in one launch.
///
/// Segments may be of very different lengths: a warp sorts up to 32 keys, a block longer ones. One block does all of a
/// segment, so a few of millions of keys are sorted sooner one by one, with [`sort_into`](super::sort_into). What lies
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
    let (x, out) = (x.raw(), out.raw_mut());
    let job = Job::new::<K>(x.len, options)?;
    same_len("sorting segments", job.n, out.len)?;
    let (_, [spare]) = scratch.parts(on, [job.n * size_of::<K>()])?;
    // SAFETY: memory of keys, or as many bytes of scratch, whose parts are aligned.
    let [keys, out, spare] = unsafe { words(job.n, [x, out, spare.raw()]) };
    let values = [(); 3].map(|()| Words::<NoValue>::none());
    launch::<K, _>(on, job, offsets.raw(), Work { keys, out, spare, values, numbered: false })
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
/// `out_values: [n]`. Queued, in one launch.
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
    let (keys, values) = (keys.raw(), values.raw());
    let (out_keys, out_values) = (out_keys.raw_mut(), out_values.raw_mut());
    let job = Job::new::<K>(keys.len, options)?;
    same_len("the values of a sort of segments", job.n, values.len)?;
    same_len("sorting segments", job.n, out_keys.len)?;
    same_len("the sorted values of segments", job.n, out_values.len)?;
    let sizes = [job.n * size_of::<K>(), job.n * size_of::<V>()];
    let (_, [spare, spare_values]) = scratch.parts(on, sizes)?;
    // SAFETY: memory of keys and values, or as many bytes of scratch, whose parts are aligned.
    let ([keys, out, spare], values) = unsafe {
        let values =
            words::<<V as Value>::Word, 3>(job.n, [values, out_values, spare_values.raw()]);
        (words(job.n, [keys, out_keys, spare.raw()]), values)
    };
    launch::<K, _>(on, job, offsets.raw(), Work { keys, out, spare, values, numbered: false })
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

/// `out: [n]` becomes, for each segment of the keys `x: [n]`, their places in `x` in order; those of equal keys ascend.
/// Segments are as for [`segmented_sort_into`]. Queued, in one launch.
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
    let (x, out) = (x.raw(), out.raw_mut());
    let job = Job::new::<K>(x.len, options)?;
    same_len("the places of a sort of segments", job.n, out.len)?;
    let (_, [sorted, spare, spare_places]) = scratch.parts(on, argsort_part_bytes::<K>(job.n))?;
    // SAFETY: memory of keys and places, or as many bytes of scratch, whose parts are aligned.
    let ([keys, sorted, spare], [out, spare_places]) = unsafe {
        let keys = words(job.n, [x, sorted.raw(), spare.raw()]);
        (keys, words(job.n, [out, spare_places.raw()]))
    };
    let values = [Words::<u32>::none(), out, spare_places];
    let work = Work { keys, out: sorted, spare, values, numbered: true };
    launch::<K, _>(on, job, offsets.raw(), work)
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

/// The memory of a sort of segments.
pub struct Work<W, V> {
    pub keys: Words<W>,
    pub out: Words<W>,
    pub spare: Words<W>,
    /// The input, the result and as much scratch.
    pub values: [Words<V>; 3],
    pub numbered: bool,
}

/// How segments are sorted.
pub struct How {
    pub offsets: Words<u64>,
    pub order: Order,
    pub bits: (u32, u32),
}

fn launch<K: SortKey, V: ValueWord>(
    on: &impl AsStream,
    job: Job,
    offsets: RawSlice,
    work: Work<<K as Key>::Word, V>,
) -> GpuResult<()> {
    if offsets.len < 2 || job.n == 0 {
        return Ok(());
    }
    if job.n > u32::MAX as usize {
        let reason = format!("{} keys are too many: it takes fewer than 2^32", job.n);
        return Err(GpuError::InvalidArgument { operation: "sorting segments", reason });
    }
    let (_, order, bits) = job.parts();
    // SAFETY: memory of offsets.
    let offsets = unsafe { Words::new(offsets) };
    // SAFETY: all arrays have `n` elements, or none where there are no values; the bits are the key's.
    unsafe { V::segments(on.as_stream(), work, How { offsets, order, bits }) }
}
