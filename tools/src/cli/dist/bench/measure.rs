//! How long something takes on all ranks.

use ferrowarp::Gpu;
use ferrowarp_dist::{Communicator, DistResult};

/// Calls that come before those that are measured, at most.
const WARM_UP: u32 = 5;

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

    /// Seconds of one call of `work`: the median over the rounds of the slowest rank's, between two events on the stream around
    /// `batch` calls. All ranks begin a round together. Some calls to warm up are not counted. The peer measures in the same way
    /// (`tools/peers/nccl.cu`).
    pub(super) fn seconds(
        &self,
        batch: u32,
        mut work: impl FnMut() -> DistResult<()>,
    ) -> DistResult<f64> {
        let (ranks, gpu) = (self.ranks, self.gpu());
        (0..batch.min(WARM_UP)).try_for_each(|_| work())?;
        let mut samples = Vec::new();
        for _ in 0..self.repetitions {
            ranks.barrier(gpu)?;
            let start = gpu.stream().record_event()?;
            (0..batch).try_for_each(|_| work())?;
            let end = gpu.stream().record_event()?;
            ranks.synchronize(gpu)?;
            samples.push(end.milliseconds_since(&start)? / 1e3 / f64::from(batch));
        }
        let of_all = ranks.all_gather_host(gpu, &samples)?;
        Ok(median(slowest(&of_all, samples.len())))
    }
}

/// Of each round the greatest of all ranks' times: `of_all` holds `rounds` times of each rank, one rank's after the other.
fn slowest(of_all: &[f64], rounds: usize) -> Vec<f64> {
    let of_round = |round| of_all.iter().skip(round).step_by(rounds).copied().fold(0.0, f64::max);
    (0..rounds).map(of_round).collect()
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
    fn the_slowest_rank_of_each_round_counts() {
        assert_eq!(slowest(&[1.0, 5.0, 2.0, 3.0, 4.0, 9.0], 3), [3.0, 5.0, 9.0]);
        assert_eq!(slowest(&[1.0, 2.0], 2), [1.0, 2.0]);
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 100.0]), 3.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 100.0]), 3.0);
    }
}
