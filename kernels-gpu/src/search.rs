//! Where values belong in a sorted array.
//!
//! * [`search_plain`](struct@search_plain): a thread for each value, a binary search in device memory: `log2 n` loads, one after
//!   the other.
//! * [`search_sorted`](struct@search_sorted): each block first copies every `n / 4096`th element to shared memory. The first twelve steps of
//!   a search are then in shared memory. Blocks are as large as can be, so that two of them fill a multiprocessor.
//! * [`search_index`](struct@search_index): the last element of each cache line, side by side. A step that loads a key of its own
//!   brings a whole sector, of which it needs one key. The index of an array holds nothing but such keys: it is a 32nd of the
//!   array (a 16th for keys of 8 bytes), fits into the L2 cache where the array does not, and only the last steps leave that.
//!
//! Keys are compared in their total order: `-NaN < -inf < … < -0.0 < 0.0 < … < inf < NaN`.

use crate::prelude::*;
use bytemuck::Zeroable;
use cuda_std::block::SortKey;

/// Threads in a block.
pub const BLOCK: usize = 1024;
/// Elements of the array, or of its index, that a block keeps in shared memory.
pub const PIVOTS: usize = 4096;
/// Bytes of a cache line, of which an index has one key.
const LINE_BYTES: usize = 128;

/// Elements of an array for which its index has one.
#[must_use]
pub const fn line_len<K>() -> usize {
    LINE_BYTES / size_of::<K>()
}

/// Which of the places that keep the array sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Bound {
    /// The first one: as many elements are less than the value.
    Lower = 0,
    /// The last one: as many elements are not greater than the value.
    Upper = 1,
}

/// A key whose ordered bits can be compared.
pub trait Key: SortKey<Bits: PartialOrd + Zeroable> {}

impl<K: SortKey<Bits: PartialOrd + Zeroable>> Key for K {}

/// The number of `true`s at the front of `0..len`, behind which all are `false`.
#[inline(always)]
fn partition_point(mut first: usize, mut last: usize, is_before: impl Fn(usize) -> bool) -> usize {
    while first < last {
        let middle = first + (last - first) / 2;
        if is_before(middle) {
            first = middle + 1;
        } else {
            last = middle;
        }
    }
    first
}

/// Whether `element` stands before the place of `value`.
#[inline(always)]
fn is_before<K: Key>(element: K, value: K, is_upper: bool) -> bool {
    let (element, value) = (element.to_ordered(), value.to_ordered());
    if is_upper { element <= value } else { element < value }
}

/// The plain form. `x: [n]`, sorted; `values: [m]`; `out: [m]` becomes the places, 0 to `n`. `is_upper`: a
/// [`Bound`].
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn search_plain<K: Key>(
    index: ThreadIndex,
    is_upper: u32,
    x: &[K],
    values: &[K],
    mut out: DisjointSlice<u64>,
) {
    for own in index.grid_stride(values.len()) {
        if let (Some(&value), Some(out)) = (values.get(own.get()), out.get_mut(own)) {
            // SAFETY: below `x.len()`.
            let at = |i| unsafe { *x.get_unchecked(i) };
            *out = partition_point(0, x.len(), |i| is_before(at(i), value, is_upper != 0)) as u64;
        }
    }
}

/// The index of the sorted `x: [n]`: the last element of each of its `lines: [ceil(n / line_len)]` of [`line_len`] elements, of which the
/// last one may be shorter.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn search_index<K: Key>(index: ThreadIndex, x: &[K], mut lines: DisjointSlice<K>) {
    for own in index.grid_stride(lines.len()) {
        let end = ((own.get() + 1) * const { line_len::<K>() }).min(x.len());
        if let (Some(&last), Some(line)) = (x.get(end.wrapping_sub(1)), lines.get_mut(own)) {
            *line = last;
        }
    }
}

/// The fast form. `x: [n]`, sorted; `lines`: the [index](struct@search_index) of `x`, or nothing; `values` and `out: [m]` as above. Launched
/// with as many blocks as the device runs at a time.
#[kernel(u32, i32, f32, u64, i64, f64)]
pub fn search_sorted<K: Key>(
    mut block: Block<BLOCK>,
    index: ThreadIndex,
    pivots: Shared<[K; PIVOTS]>,
    is_upper: u32,
    x: &[K],
    lines: &[K],
    values: &[K],
    mut out: DisjointSlice<u64>,
) {
    let has_index = !lines.is_empty();
    let first_array = if has_index { lines } else { x };
    // Pivot `j` is the last element of the part from `j * step` on. Parts past the end repeat the last one.
    let step = first_array.len().div_ceil(PIVOTS);
    let end_of = |part: usize| ((part + 1) * step).min(first_array.len());
    let Some(&last) = first_array.last() else {
        for own in index.grid_stride(values.len()) {
            if let Some(out) = out.get_mut(own) {
                *out = 0;
            }
        }
        return;
    };
    let pivots = pivots.fill(&block, |part| {
        first_array.get(end_of(part).wrapping_sub(1)).copied().unwrap_or(last)
    });
    // All pivots are there before any thread looks.
    let pivots = block.sync(pivots);

    for own in index.grid_stride(values.len()) {
        if let (Some(&value), Some(out)) = (values.get(own.get()), out.get_mut(own)) {
            let goes = |element| is_before(element, value, is_upper != 0);
            // SAFETY: below the number of pivots.
            let part = partition_point(0, PIVOTS, |i| goes(unsafe { *pivots.get_unchecked(i) }));
            let first = (part * step).min(first_array.len());
            // SAFETY: a part ends at the array's end or before it.
            let goes_at = |i| goes(unsafe { *first_array.get_unchecked(i) });
            let mut place = partition_point(first, end_of(part), goes_at);
            if has_index {
                let first = (place * const { line_len::<K>() }).min(x.len());
                let end = (first + const { line_len::<K>() }).min(x.len());
                // SAFETY: a line ends at the array's end or before it.
                place = partition_point(first, end, |i| goes(unsafe { *x.get_unchecked(i) }));
            }
            *out = place as u64;
        }
    }
}
