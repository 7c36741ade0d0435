//! How long something takes on all ranks.

use ferrowarp::Gpu;
use ferrowarp_dist::{Communicator, DistResult};

/// Measures on all ranks together.
pub(super) struct Bench<'a> {
    pub(super) ranks: &'a Communicator,
    repetitions: u32,
}

impl<'a> Bench<'a> {
    pub(super) fn new(ranks: &'a Communicator, repetitions: u32) -> Self {
        Self { ranks, repetitions }
    }

    pub(super) fn gpu(&self) -> &'a Gpu {
        self.ranks.gpu()
    }

    /// Seconds of one call of `work`, which is called `batch` times for a sample: the median of the samples, on the slowest rank.
    /// One call before is not counted.
    pub(super) fn seconds(
        &self,
        batch: u32,
        mut work: impl FnMut() -> DistResult<()>,
    ) -> DistResult<f64> {
        let (ranks, gpu) = (self.ranks, self.gpu());
        work()?;
        let mut samples = Vec::new();
        for _ in 0..self.repetitions {
            ranks.barrier(gpu)?;
            let start = gpu.stream().record_event()?;
            (0..batch).try_for_each(|_| work())?;
            let end = gpu.stream().record_event()?;
            ranks.synchronize(gpu)?;
            samples.push(end.milliseconds_since(&start)? / 1e3 / f64::from(batch));
        }
        let of_all = ranks.all_gather_host(gpu, &[median(samples)])?;
        Ok(of_all.into_iter().fold(0.0, f64::max))
    }
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    let middle = samples.len() / 2;
    if samples.len() % 2 == 1 {
        samples[middle]
    } else {
        (samples[middle - 1] + samples[middle]) / 2.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
