//! Operations on host arrays of any length, larger than the device's memory too: reductions, histograms, the top k, sorts.
//!
//! An array goes to the device in tiles. While one tile is computed, the next ones are copied, so that an operation takes the
//! time that the bus needs: [one pass](OutOfCore::sum) for everything but the [sort](OutOfCore::sort_in_place), which takes two.
//! Results are those of the operations on device memory.
//!
//! ```
//! use ferrowarp::Gpu;
//! use ferrowarp::ops::out_of_core::OutOfCore;
//! use ferrowarp::ops::sort::{Extreme, SortOptions};
//!
//! let gpu = Gpu::new()?;
//! let mut x: Vec<u32> = (0..100_000).map(|i: u32| i.wrapping_mul(2_654_435_761)).collect();
//! let tiles = OutOfCore::new(&gpu).with_budget(256 << 10).with_cpu_threads(2);
//! assert_eq!(tiles.max(&x)?, *x.iter().max().unwrap());
//! let (largest, indices) = tiles.top_k(&x, 3, Extreme::Largest)?;
//! assert_eq!(x[indices[0] as usize], largest[0]);
//!
//! let mut spare = vec![0; x.len()];
//! tiles.sort_in_place(&mut x, &mut spare, SortOptions::ASCENDING)?;
//! assert!(x.is_sorted() && largest.iter().eq(x.iter().rev().take(3)));
//! # Ok::<(), ferrowarp::GpuError>(())
//! ```
//!
//! # The host's memory
//! Page-locked memory ([`PinnedBuffer`](crate::PinnedBuffer), [`RegisteredVec`](crate::RegisteredVec), or memory that a
//! [scope](crate::Gpu::host_scope) has registered) is copied as it is, in both directions at the same time. Pageable memory goes
//! through page-locked chunks, by several threads, one direction at a time.
//!
//! # A share for the CPU
//! With [`with_cpu_threads`](OutOfCore::with_cpu_threads), threads of the host take chunks from the end of the array while the
//! device takes tiles from its beginning, until they meet. So each side does what it is able to. The device works alone first, and
//! its rate is measured; if both sides together are slower than that, which happens where the copies need the CPU
//! or the host's memory more, the threads stop.

mod cuts;
mod element;
mod histogram;
mod reduce;
mod share;
mod sort;
mod tiles;
mod top_k;

pub use element::HostElement;

use crate::error::GpuResult;
use crate::gpu::Gpu;
use crate::stream::AsStream;

/// Operations on host arrays of any length: see the [module](self).
#[doc(alias = "heterogeneous")]
#[derive(Clone, Debug)]
pub struct OutOfCore {
    gpu: Gpu,
    budget_bytes: Option<usize>,
    cpu_threads: usize,
}

impl OutOfCore {
    /// Operations on the device of `on`, which take at most seven eighths of the device memory that is free when one begins, and
    /// no threads of the CPU.
    pub fn new(on: &impl AsStream) -> Self {
        let gpu = Gpu::of_stream(on.as_stream().clone());
        Self { gpu, budget_bytes: None, cpu_threads: 0 }
    }

    /// Lets an operation allocate at most `bytes` bytes of device memory.
    ///
    /// Reductions, histograms and the top k use 192 MiB and their results at most, and are as fast with a budget of that size as with
    /// all of the memory. A sort is as fast with a few GiB.
    #[must_use]
    pub fn with_budget(self, bytes: usize) -> Self {
        Self { budget_bytes: Some(bytes), ..self }
    }

    /// Lets `threads` threads of the CPU take a share of reductions, histograms and the top k. Results do not depend on it:
    /// sums and products of floats, whose bits would, stay on the device, and so do sorts, which the bus limits less than the CPU.
    #[doc(alias = "rayon")]
    #[must_use]
    pub fn with_cpu_threads(self, threads: usize) -> Self {
        Self { cpu_threads: threads, ..self }
    }

    /// Bytes that an operation may allocate.
    fn budget(&self) -> GpuResult<usize> {
        self.budget_bytes.map_or_else(|| Ok(self.gpu.memory_info()?.0 / 8 * 7), Ok)
    }
}

/// The chapter's examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../../book/src/out-of-core.md")]
struct Chapter;
