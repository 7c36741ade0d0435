//! Histograms of samples that are split over the ranks.
//!
//! Each rank counts its share by [`ferrowarp::ops::histogram`](mod@ferrowarp::ops::histogram), and the counts are added up over the
//! ranks. They are integers: the
//! result is the same in every run, with any number of ranks.
//!
//! ```
//! use ferrowarp::{DeviceBuffer, ops::histogram::Bins};
//! use ferrowarp_dist::{Communicator, World, ops::histogram};
//!
//! let world = World::alone(); // or World::from_env()?
//! let gpu = world.gpu()?;
//! let ranks = Communicator::new(&world, &gpu)?;
//! let own = DeviceBuffer::from_slice(&gpu, &[0.1f32, 0.3, 0.35, 0.9, 7.0, f32::NAN])?;
//! let quarters = Bins::even(&gpu, 0.0..1.0, 4)?;
//! assert_eq!(histogram::totals(&ranks, &gpu, &own, &quarters)?, [1, 2, 0, 1]);
//! # Ok::<(), ferrowarp_dist::DistError>(())
//! ```

use cuda_std::launch::DeviceRead;
use ferrowarp::ops::histogram::{self as local, Bins, Countable};
use ferrowarp::{AsStream, DeviceBuffer};

use super::memory::unwritten;
use crate::communicator::Communicator;
use crate::element::Reduction;
use crate::error::DistResult;

/// How many samples of all ranks are in each bin, for each rank: a buffer of [`bins.len()`](Bins::len) counts, modulo 2³².
/// `samples`: this rank's share, `[n]`; all ranks have the same bins. Asynchronous over NCCL.
///
/// # Errors
/// As [`Communicator::all_reduce`].
pub fn count<T: Countable>(
    ranks: &Communicator,
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
) -> DistResult<DeviceBuffer<u32>> {
    ranks.attempt(|| {
        let mut counts = own_counts(on, samples, bins)?;
        ranks.all_reduce_in_place(on, &mut counts, Reduction::Sum)?;
        Ok(counts)
    })
}

/// As [`count`], in 64 bits, on the host: for more samples than 32 bits count. A share has fewer than 2³² samples. Waits for
/// the result.
///
/// # Errors
/// As [`Communicator::all_gather`] and [`Communicator::synchronize`].
pub fn totals<T: Countable>(
    ranks: &Communicator,
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
) -> DistResult<Vec<u64>> {
    let all = ranks.attempt(|| {
        let own = own_counts(on, samples, bins)?;
        // SAFETY: the ranks write it.
        let mut all = unsafe { unwritten(on, bins.len() * ranks.size() as usize) }?;
        ranks.all_gather(on, &own, &mut all)?;
        ranks.synchronize(on)?;
        Ok(all)
    })?;
    let mut totals = vec![0; bins.len()];
    for counts in all.to_vec()?.chunks_exact(bins.len()) {
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += u64::from(*count));
    }
    Ok(totals)
}

/// The counts of this rank's share.
fn own_counts<T: Countable>(
    on: &impl AsStream,
    samples: &impl DeviceRead<T>,
    bins: &Bins<T>,
) -> DistResult<DeviceBuffer<u32>> {
    let mut counts = DeviceBuffer::zeroed_async(on, bins.len())?;
    local::add_into(on, samples, bins, &mut counts)?;
    Ok(counts)
}
