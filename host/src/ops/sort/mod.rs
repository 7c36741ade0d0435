//! Radix sorts of keys, of keys with values and of indices; the top k; sorts of segments.
//!
//! Keys are `u8` to `u64`, `i8` to `i64`, `f16`, `bf16`, `f32` and `f64`; values have 4 or 8 bytes. Every sort is *stable*: equal keys
//! keep their order. Floats are sorted in their total order, `-NaN`, `-inf`, …, `-0.0`, `0.0`, …, `inf`, `NaN`: a NaN goes
//! to the end of its sign, and no key is lost or changed. The result is the same, bit for bit, in every run and on
//! every device.
//!
//! ```
//! use ferrowarp::ops::sort::{SortOptions, argsort, sort};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[2.5f32, f32::NAN, -1.0, 0.0, -0.0])?;
//! let sorted = sort(&gpu, &x, SortOptions::ASCENDING)?.to_vec()?;
//! assert_eq!(sorted[..4], [-1.0, -0.0, 0.0, 2.5]);
//! assert!(sorted[1].is_sign_negative() && sorted[4].is_nan());
//! assert_eq!(argsort(&gpu, &x, SortOptions::DESCENDING)?.to_vec()?, [1, 0, 3, 4, 2]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! An array has as many elements as the memory holds; for [`argsort`] at most 2³², since its indices have 32 bits.

mod digits;
mod groups;
mod keys;
mod plain;
mod radix;
mod segments;
mod top_k;

use std::ops::Range;

use cuda_std::launch::{DeviceRead, DeviceWrite};
use kernels_gpu::sort::Order;

pub use digits::{DIGITS, count_digits_into, scatter_by_digit_into, scatter_pairs_by_digit_into};
pub use groups::{
    group_scratch_bytes, pair_group_scratch_bytes, sort_groups_into, sort_pair_groups_into,
};
pub use keys::{SortKey, SortValue};
pub use plain::{plain_into, plain_scratch_bytes};
pub use segments::{
    segmented_argsort, segmented_argsort_into, segmented_argsort_scratch_bytes,
    segmented_pairs_scratch_bytes, segmented_scratch_bytes, segmented_sort, segmented_sort_into,
    segmented_sort_pairs, segmented_sort_pairs_into,
};
pub use top_k::{Extreme, top_k, top_k_into, top_k_scratch_bytes};

use super::{Scratch, same_len};
use crate::error::{GpuError, GpuResult};
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;
use radix::RadixSort;

/// Which way a sort goes, and by which bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SortOptions {
    descending: bool,
    bits: Option<(u32, u32)>,
}

impl SortOptions {
    /// The smallest key first.
    pub const ASCENDING: Self = Self { descending: false, bits: None };
    /// The largest key first.
    pub const DESCENDING: Self = Self { descending: true, bits: None };

    /// Sorts by these bits of a key alone, counted from its lowest: keys that agree in them keep their order. Fewer bits take
    /// less time, a pass over the keys for each eight.
    ///
    /// They are bits of the unsigned number that the key is sorted as: a signed number with its highest bit flipped; a
    /// float with all bits flipped if it is negative, else with its highest bit flipped.
    #[must_use]
    pub const fn bits(self, bits: Range<u32>) -> Self {
        Self { bits: Some((bits.start, bits.end)), ..self }
    }

    /// How the bits of a key become a word in order, and the bits of that to sort by.
    pub(super) fn rule<K: SortKey>(self) -> GpuResult<(Order, (u32, u32))> {
        let sort = RadixSort::new::<K>(0, self)?;
        Ok((sort.order, sort.bits))
    }

    /// The bits to sort by, of keys of `of` bits.
    fn range(self, of: u32) -> GpuResult<(u32, u32)> {
        let (begin, end) = self.bits.unwrap_or((0, of));
        if begin < end && end <= of {
            return Ok((begin, end));
        }
        let reason = format!(
            "bits {begin}..{end} of a key of {of} bits: take at least one, and none past its end"
        );
        Err(GpuError::InvalidArgument { operation: "sorting", reason })
    }
}

/// What [`sort_into`] and [`sort_in_place`] take of their scratch for `n_elems` keys, in bytes: as many as the keys have, and
/// at most a fourteenth more.
#[must_use]
pub fn scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    radix::scratch_bytes(n_elems, [size_of::<K>(), 0], 0)
}

/// What [`sort_pairs_into`] and [`sort_pairs_in_place`] take of their scratch for `n_elems` pairs, in bytes.
#[must_use]
pub fn pairs_scratch_bytes<K: SortKey, V: SortValue>(n_elems: usize) -> usize {
    radix::scratch_bytes(n_elems, [size_of::<K>(), size_of::<V>()], 0)
}

/// The scratch of [`argsort_into`] for `n_elems` keys, in bytes.
#[must_use]
pub fn argsort_scratch_bytes<K: SortKey>(n_elems: usize) -> usize {
    radix::scratch_bytes(n_elems, [size_of::<K>(), size_of::<u32>()], n_elems * size_of::<K>())
}

/// `out: [n]` becomes the keys `x: [n]` in order. Asynchronous.
///
/// A pass for each eight bits reads and writes every key once; the device leaves out passes over bits that all keys share.
///
/// # Errors
/// [`SizeMismatch`](GpuError::SizeMismatch) if `out` has another length,
/// [`InvalidArgument`](GpuError::InvalidArgument) for bits that the key has not; errors of the driver.
pub fn sort_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<K>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(x.len(), options)?;
    same_len("sorting", sort.n, out.len())?;
    radix::keys(on, sort, Some(x), out, scratch)
}

/// As [`sort_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`sort_into`].
pub fn sort<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    options: SortOptions,
) -> GpuResult<DeviceBuffer<K>> {
    let mut out = result(on, x.len())?;
    sort_into(on, x, &mut out, options, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// Sorts the keys `x: [n]` in place. Asynchronous.
///
/// They move to the scratch and back: a pass for each eight bits and at most one more. It takes one buffer less than
/// [`sort_into`].
///
/// # Errors
/// As [`sort_into`].
pub fn sort_in_place<K: SortKey>(
    on: &impl AsStream,
    x: &mut impl DeviceWrite<K>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(x.len(), options)?;
    radix::keys(on, sort, None::<&DeviceBuffer<K>>, x, scratch)
}

/// `out_keys: [n]` becomes the keys `keys: [n]` in order, and `out_values: [n]` the value of each. Asynchronous.
///
/// # Errors
/// As [`sort_into`].
pub fn sort_pairs_into<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    (keys, values): (&impl DeviceRead<K>, &impl DeviceRead<V>),
    (out_keys, out_values): (&mut impl DeviceWrite<K>, &mut impl DeviceWrite<V>),
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(keys.len(), options)?;
    same_len("the values of a sort", sort.n, values.len())?;
    same_len("sorting", sort.n, out_keys.len())?;
    same_len("the sorted values", sort.n, out_values.len())?;
    radix::pairs(on, sort, Some((keys, values)), (out_keys, out_values), scratch)
}

/// As [`sort_pairs_into`], with scratch of its own: two new buffers.
///
/// # Errors
/// As [`sort_into`].
pub fn sort_pairs<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    keys: &impl DeviceRead<K>,
    values: &impl DeviceRead<V>,
    options: SortOptions,
) -> GpuResult<(DeviceBuffer<K>, DeviceBuffer<V>)> {
    let n = keys.len();
    let (mut out_keys, mut out_values) = (result(on, n)?, result(on, n)?);
    let out = (&mut out_keys, &mut out_values);
    sort_pairs_into(on, (keys, values), out, options, &mut Scratch::new(on)?)?;
    Ok((out_keys, out_values))
}

/// Sorts the keys `keys: [n]` in place, and `values: [n]` with them. Asynchronous. As
/// [`sort_in_place`].
///
/// # Errors
/// As [`sort_into`].
pub fn sort_pairs_in_place<K: SortKey, V: SortValue>(
    on: &impl AsStream,
    keys: &mut impl DeviceWrite<K>,
    values: &mut impl DeviceWrite<V>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(keys.len(), options)?;
    same_len("the values of a sort", sort.n, values.len())?;
    let no_input = None::<(&DeviceBuffer<K>, &DeviceBuffer<V>)>;
    radix::pairs(on, sort, no_input, (keys, values), scratch)
}

/// `out: [n]` becomes the indices of the keys `x: [n]` in order: `x[out[0]]` is the first key. Indices of equal keys ascend. Asynchronous.
///
/// # Errors
/// As [`sort_into`]; [`InvalidArgument`](GpuError::InvalidArgument) for more than 2³² keys.
pub fn argsort_into<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u32>,
    options: SortOptions,
    scratch: &mut Scratch,
) -> GpuResult<()> {
    let sort = RadixSort::new::<K>(x.len(), options)?;
    same_len("the indices of a sort", sort.n, out.len())?;
    check_indices(sort.n)?;
    radix::indices(on, sort, x, out, scratch)
}

/// As [`argsort_into`], with scratch of its own: a new buffer.
///
/// # Errors
/// As [`argsort_into`].
pub fn argsort<K: SortKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    options: SortOptions,
) -> GpuResult<DeviceBuffer<u32>> {
    let mut out = result(on, x.len())?;
    argsort_into(on, x, &mut out, options, &mut Scratch::new(on)?)?;
    Ok(out)
}

/// An error unless the indices of `n` keys fit into 32 bits.
fn check_indices(n: usize) -> GpuResult<()> {
    if n <= 1 << 32 {
        return Ok(());
    }
    let reason = format!("the indices of {n} keys do not fit into 32 bits");
    Err(GpuError::InvalidArgument { operation: "sorting indices", reason })
}

/// A buffer that a sort writes.
fn result<T: bytemuck::Pod>(on: &impl AsStream, n: usize) -> GpuResult<DeviceBuffer<T>> {
    // SAFETY: a sort writes every element before anything reads the buffer.
    unsafe { DeviceBuffer::uninitialized(on, n) }
}

#[cfg(doctest)]
#[doc = include_str!("../../../../book/src/sorting.md")]
struct BookPage;
