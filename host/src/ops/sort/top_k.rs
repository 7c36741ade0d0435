//! The top k: the largest or smallest keys, in order.

use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::top_k::{MAX_K, state_words};

use super::keys::KeyWord;
use super::radix::{Buffers, RadixSort, Work, in_block, most_in_block, pair_part_bytes, run};
use super::{SortKey, SortOptions, check_indices, result};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::ops::copy::copy;
use crate::ops::scratch::size_of_parts;
use crate::ops::views::{As, AsMut};
use crate::ops::{Scratch, same_len};
use crate::stream::AsStream;

/// Which end of the order [`top_k`] takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The largest keys, from the largest down.
    Largest,
    /// The smallest keys, from the smallest up.
    Smallest,
}

impl Extreme {
    /// The order in which the keys that are taken come first.
    pub(in crate::ops) fn options(self) -> SortOptions {
        match self {
            Self::Largest => SortOptions::DESCENDING,
            Self::Smallest => SortOptions::ASCENDING,
        }
    }
}

/// The state of the search, what it finds, and what their sort takes.
fn part_bytes<K: SortKey>(n: usize, k: usize) -> [usize; 6] {
    let key = size_of::<K>();
    let state = state_words(n, 8 * key as u32) * size_of::<u64>();
    let [control, spare, spare_indices] = pair_part_bytes(k, [key, size_of::<u32>()]);
    [state, k * key, k * size_of::<u32>(), control, spare, spare_indices]
}

/// The most keys that are all sorted, by one block: that takes less time than to search for the first ones and to sort those.
const fn most_sorted<K: SortKey>() -> usize {
    most_in_block([size_of::<K>(), size_of::<u32>()])
}

/// All keys in order, and their indices.
const fn sorted_part_bytes<K: SortKey>(n: usize) -> [usize; 2] {
    [n * size_of::<K>(), n * size_of::<u32>()]
}

/// The scratch of [`top_k_into`] for `k` of `n_elems` keys, in bytes.
#[must_use]
pub fn top_k_scratch_bytes<K: SortKey>(n_elems: usize, k: usize) -> usize {
    // Of more keys too, so that memory for the most keys serves all.
    let sorted = sorted_part_bytes::<K>(n_elems.min(most_sorted::<K>()));
    size_of_parts(&part_bytes::<K>(n_elems, k)).max(size_of_parts(&sorted))
}

/// `out: [k]` becomes the `k` largest or smallest of the keys `x: [n]`, in order, and `indices: [k]` the index of each in
/// `x`. Of equal keys those that come first are taken, in their order. Asynchronous.
///
/// Many keys are not sorted: a search for the key number `k` reads them once for each eleven bits and once more, and `k` keys
/// are sorted.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if the results differ in length, [`InvalidArgument`](GpuError::InvalidArgument)
/// for more keys than there are, or than 2³¹ - 1, or of more than 2³²; errors of the driver.
pub fn top_k_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    (out, indices): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<u32>),
    which: Extreme,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (n, k) = (x.len(), out.len());
    same_len("the indices of the first keys", k, indices.len())?;
    check(n, k)?;
    if k == 0 {
        return Ok(());
    }
    let options = which.options();
    if n <= most_sorted::<K>() {
        of_few_into(on, x, (out, indices), options, scratch)
    } else {
        search_into(on, x, (out, indices), options, scratch)
    }
}

/// Sorts all keys, no more than one block holds, and copies the first.
fn of_few_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    (out, indices): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<u32>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (n, k) = (x.len(), out.len());
    let mut sort = RadixSort::new::<K>(n, options)?;
    sort.indexed = true;
    let (bounds, [sorted, places]) = scratch.bounds_and_parts(on, sorted_part_bytes::<K>(n))?;
    let (mut sorted, mut places) = (sorted.into_cast::<K>()?, places.into_cast::<u32>()?);
    in_block::<K>(on, sort, x, (&mut sorted, &mut places), &bounds)?;
    copy(on, &sorted.narrowed(..k), out)?;
    copy(on, &places.narrowed(..k), indices)
}

/// Searches for the key number `k`, collects those before it, and sorts them.
fn search_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    (out, indices): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<u32>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let (n, k) = (x.len(), out.len());
    let sort = RadixSort::new::<K>(k, options)?;
    let (bounds, parts) = scratch.bounds_and_parts(on, part_bytes::<K>(n, k))?;
    let [state, mut found, mut found_indices, control, mut spare, mut spare_indices] = parts;
    let mut state = state.into_cast::<u64>()?;
    state.clear()?;
    // SAFETY: the state is 0 and large enough; the results have `k` elements.
    unsafe {
        K::Bits::top_k(
            on.as_stream(),
            &As::new(x),
            sort.order,
            &mut state,
            &mut AsMut::new(&mut found),
            &mut AsMut::new(&mut found_indices),
        )?;
    }
    let keys = Buffers::<K::Bits>::new(Some(&found), out, &mut spare);
    let indices = Buffers::<u32>::new(Some(&found_indices), indices, &mut spare_indices);
    run(on, sort, keys, indices, Work { bounds, control })
}

fn check(n: usize, k: usize) -> GpuResult<()> {
    let reason = if k > n {
        format!("{k} of {n} keys are more than there are")
    } else if k > MAX_K {
        format!("{k} keys are too many: it takes at most {MAX_K}")
    } else {
        return check_indices(n);
    };
    Err(GpuError::InvalidArgument { operation: "finding the first keys", reason })
}

/// As [`top_k_into`], with scratch of its own: two new buffers of `k` elements.
///
/// # Errors
/// As [`top_k_into`].
pub fn top_k<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    k: usize,
    which: Extreme,
) -> GpuResult<(DeviceBuffer<K>, DeviceBuffer<u32>)> {
    check(x.len(), k)?;
    let (mut out, mut places) = (result(on, k)?, result(on, k)?);
    top_k_into(on, x, (&mut out, &mut places), which, &mut Scratch::new(on)?)?;
    Ok((out, places))
}
