//! Histograms: how many samples fall into each bin.
//!
//! ```
//! use ferrowarp::ops::histogram::{self, Bins};
//! use ferrowarp::{DeviceBuffer, Gpu};
//!
//! let gpu = Gpu::new()?;
//! let x = DeviceBuffer::from_slice(&gpu, &[0.1f32, 0.3, 0.35, 0.9, 7.0, f32::NAN])?;
//! let quarters = Bins::even(&gpu, 0.0..1.0, 4)?;
//! assert_eq!(histogram::count(&gpu, &x, &quarters)?.to_vec()?, [1, 2, 0, 1]);
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! Bins are half open: a sample belongs to the bin that begins at or below it and ends above it. Samples outside all bins
//! and NaN are not counted. Counts are `u32`: a bin with 2³² samples or more holds their number modulo 2³².
//! Counts are the same in every run and on every device.

mod bins;
mod table;

use cuda_std::launch::{DeviceRead, DeviceWrite, Grid1, Instance, LaunchConfig};
use kernels_gpu::histogram as kernels;
use kernels_gpu::histogram::bins::Sample;
use kernels_gpu::histogram::shared::{self, BLOCK, MIN_BLOCKS};
use kernels_gpu::histogram::{histogram_global, histogram_search};

pub use bins::{Bins, Countable};

use super::same_len;
use crate::error::GpuResult;
use crate::memory::DeviceBuffer;
use crate::stream::{AsStream, Stream};

/// How often each of the 256 values occurs in `bytes: [n]`, `n < 2^32`: a buffer of 256 counts.
///
/// # Errors
/// Errors of the driver.
pub fn histogram(on: &impl AsStream, bytes: &impl DeviceRead<u8>) -> GpuResult<DeviceBuffer<u32>> {
    count(on, bytes, &Bins::given(on, 256)?)
}

/// [`histogram`] by one addition to shared memory for each byte: the second of three forms to read.
///
/// # Errors
/// Errors of the driver.
pub fn histogram_private(
    on: &impl AsStream,
    bytes: &impl DeviceRead<u8>,
) -> GpuResult<DeviceBuffer<u32>> {
    let mut bins = DeviceBuffer::zeroed(on, kernels::BINS)?;
    let blocks = bytes.len().div_ceil(kernels::BLOCK as usize);
    let grid = Grid1::new(blocks.min(kernels::MAX_BLOCKS as usize) as u32);
    kernels::histogram::launch(on.as_stream(), grid, bytes, &mut bins)?;
    Ok(bins)
}

/// How many of `samples: [n]` are in each bin: a buffer of [`bins.len()`](Bins::len) counts. Asynchronous.
///
/// # Errors
/// Errors of the driver.
pub fn count<T: Countable>(
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
) -> GpuResult<DeviceBuffer<u32>> {
    let mut out = DeviceBuffer::zeroed(on, bins.len())?;
    add_into(on, samples, bins, &mut out)?;
    Ok(out)
}

/// As [`count`], into `out: [bins.len()]`, whatever it held. Allocates nothing.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; errors of the driver.
pub fn count_into<T: Countable>(
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut DeviceBuffer<u32>,
) -> GpuResult<()> {
    same_len("counting samples", bins.len(), out.len())?;
    out.clear()?;
    add_into(on, samples, bins, out)
}

/// Adds the counts of `samples: [n]` to `out: [bins.len()]`, so that a histogram of more samples than fit into memory is made in
/// parts. Allocates nothing.
///
/// # Errors
/// [`SizeMismatch`](crate::GpuError::SizeMismatch) if `out` has another length; errors of the driver.
pub fn add_into<T: Countable>(
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()> {
    same_len("counting samples", bins.len(), out.len())?;
    T::add(on.as_stream(), samples, bins, out)
}

/// [`add_into`] by one addition to global memory for each sample: the form to read first, and the form for more bins than the
/// shared memory of a multiprocessor holds.
///
/// # Errors
/// As [`add_into`].
pub fn add_globally_into<T: Countable>(
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
    out: &mut impl DeviceWrite<u32>,
) -> GpuResult<()>
where
    histogram_global<T, T::Even>: Instance,
    histogram_search<T>: Instance,
{
    same_len("counting samples", bins.len(), out.len())?;
    bins::add_globally(on.as_stream(), samples, bins, out)
}

/// The grid of the fast kernels: as many blocks as the device holds at once, or fewer for few samples.
fn blocks<T: Sample>(stream: &Stream, n_samples: usize, shared_mem_bytes: usize) -> Grid1 {
    let info = stream.inner().context().info();
    let by_shared = info.shared_mem_per_multiprocessor_bytes / (shared_mem_bytes as u32 + 1024);
    let resident = info.multiprocessors * by_shared.clamp(1, MIN_BLOCKS);
    let vectors = (n_samples * size_of::<T>()).div_ceil(size_of::<[u32; 4]>());
    let useful = vectors.div_ceil(BLOCK);
    let blocks = useful.min(resident as usize) as u32;
    let blocks = if n_samples > 0 { blocks.max(1) } else { 0 };
    Grid1::new(blocks).shared_mem(shared_mem_bytes as u32)
}

/// The grid of the fast kernels for `n_bins` bins and a table of `buckets` entries; `None` if the bins do not fit.
fn shared_grid<T: Sample>(
    stream: &Stream,
    n_samples: usize,
    n_bins: usize,
    buckets: usize,
) -> Option<Grid1> {
    let most = stream.inner().context().info().shared_mem_per_block_optin_bytes as usize;
    let bytes = shared::shared_bytes(n_bins, buckets);
    let fits = bytes <= most.min(shared::MAX_SHARED_BYTES);
    fits.then(|| blocks::<T>(stream, n_samples, bytes))
}

/// Threads of the plain kernels, which step on from there.
fn strided(n_samples: usize) -> cuda_std::launch::Linear {
    const MOST: usize = 1 << 20;
    LaunchConfig::for_num_elems(n_samples.min(MOST))
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/histogram.md")]
struct Chapter;
