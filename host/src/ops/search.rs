//! Where values belong in a sorted array.
//!
//! Keys are `u32`, `i32`, `f32`, `u64`, `i64` or `f64` in their total order: `-NaN < -inf < … < -0.0 < 0.0 < … < NaN`,
//! as [`sort`](super::sort) leaves them. A place is the number of elements that stand before the value.
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
//! An array that is not sorted gives places that mean nothing, and no error.

use bytemuck::Pod;
use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, LaunchConfig, Linear};
use kernels_gpu::merge::{
    merge_partners, merge_plain, merge_splits, merge_tile_pairs, merge_tiles,
};
use kernels_gpu::search::{BLOCK, Bound, search_plain, search_sorted};

use super::same_len;
use super::select::{self, Flagged};
use crate::Stream;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::AsStream;

/// Blocks of a multiprocessor: all that it holds.
const BLOCKS_EACH: u32 = 2048 / BLOCK as u32;

macro_rules! sorted_keys {
    ($($key:ty),*; $($name:ident($kernel:ident, $config:ty $(, $arg:ident: $ty:ty)*);)*) => {
        /// A type of keys that can be searched and merged.
        pub trait SortedKey: Pod + sealed::Sealed {$(
            #[doc(hidden)]
            #[allow(clippy::missing_errors_doc, clippy::too_many_arguments)]
            fn $name(on: &Stream, config: $config $(, $arg: $ty)*) -> GpuResult<()>;
        )*
            #[doc(hidden)]
            #[allow(clippy::missing_errors_doc)]
            fn flagged(on: &Stream, flags: &DeviceBuffer<u8>, x: &impl DeviceRead<Self>) -> GpuResult<DeviceBuffer<Self>>;
        }

        sorted_keys!(@each $([$key])*; $($name($kernel, $config $(, $arg: $ty)*);)*);
    };
    (@each [$key:ty] $([$rest:ty])*; $($functions:tt)*) => {
        sorted_keys!(@one $key; $($functions)*);
        sorted_keys!(@each $([$rest])*; $($functions)*);
    };
    (@each; $($functions:tt)*) => {};
    (@one $key:ty; $($name:ident($kernel:ident, $config:ty $(, $arg:ident: $ty:ty)*);)*) => {
        impl sealed::Sealed for $key {}

        impl SortedKey for $key {$(
            fn $name(on: &Stream, config: $config $(, $arg: $ty)*) -> GpuResult<()> {
                $kernel::<$key>::launch(on, config $(, $arg)*)
            }
        )*
            fn flagged(on: &Stream, flags: &DeviceBuffer<u8>, x: &impl DeviceRead<Self>) -> GpuResult<DeviceBuffer<Self>> {
                select::by(on, Flagged(flags), x)
            }
        }
    };
}

sorted_keys! {
    u32, i32, f32, u64, i64, f64;
    search_sorted(search_sorted, Grid1, bound: u32, x: &impl DeviceRead<Self>, values: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<u64>);
    search_plain(search_plain, Linear, bound: u32, x: &impl DeviceRead<Self>, values: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<u64>);
    merge_splits(merge_splits, Grid1, a: &impl DeviceRead<Self>, b: &impl DeviceRead<Self>, splits: &mut impl DeviceWrite<u64>);
    merge_tiles(merge_tiles, Grid1, splits: &impl DeviceRead<u64>, a: &impl DeviceRead<Self>, b: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    merge_plain(merge_plain, Linear, a: &impl DeviceRead<Self>, b: &impl DeviceRead<Self>, out: &mut impl DeviceWrite<Self>);
    merge_tile_pairs(
        merge_tile_pairs, Grid1, splits: &impl DeviceRead<u64>, a: &impl DeviceRead<Self>, a_values: &impl DeviceRead<u32>, b: &impl DeviceRead<Self>,
        b_values: &impl DeviceRead<u32>, out: &mut impl DeviceWrite<Self>, out_values: &mut impl DeviceWrite<u32>
    );
    merge_partners(merge_partners, Linear, with_partner: u32, a: &impl DeviceRead<Self>, b: &impl DeviceRead<Self>, flags: &mut impl DeviceWrite<u8>);
}

mod sealed {
    pub trait Sealed {}
}

/// For each of `values: [m]` the first place in the sorted `x: [n]` that keeps it sorted: the number of elements
/// that are less. A new buffer. Queued.
///
/// # Errors
/// What the driver answers.
pub fn lower_bound<K: SortedKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>> {
    bound(on, Bound::Lower, x, values)
}

/// For each of `values: [m]` the last place in the sorted `x: [n]` that keeps it sorted: the number of elements
/// that are not greater. A new buffer. Queued.
///
/// # Errors
/// What the driver answers.
pub fn upper_bound<K: SortedKey>(
    on: &impl AsStream,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>> {
    bound(on, Bound::Upper, x, values)
}

fn bound<K: SortedKey>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
) -> GpuResult<DeviceBuffer<u64>> {
    let mut out = DeviceBuffer::zeroed(on, values.raw().len)?;
    bound_into(on, bound, x, values, &mut out)?;
    Ok(out)
}

/// As [`lower_bound`] or [`upper_bound`], into `out: [m]`. Queued; allocates nothing.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length than `values`; what the driver
/// answers.
pub fn bound_into<K: SortedKey>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u64>,
) -> GpuResult<()> {
    let n = values.raw().len;
    same_len("searching", n, out.raw_mut().len)?;
    let stream = on.as_stream();
    let most = BLOCKS_EACH * stream.inner().context().info().multiprocessors;
    let blocks = n.div_ceil(BLOCK).min(most as usize) as u32;
    K::search_sorted(stream, Grid1::new(blocks), bound as u32, x, values, out)
}

/// As [`bound_into`], in the plain way.
///
/// # Errors
/// As [`bound_into`].
pub fn bound_plain_into<K: SortedKey>(
    on: &impl AsStream,
    bound: Bound,
    x: &impl DeviceRead<K>,
    values: &impl DeviceRead<K>,
    out: &mut impl DeviceWrite<u64>,
) -> GpuResult<()> {
    let n = values.raw().len;
    same_len("searching", n, out.raw_mut().len)?;
    let config = LaunchConfig::for_num_elems(n);
    K::search_plain(on.as_stream(), config, bound as u32, x, values, out)
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/search.md")]
struct Chapter;
