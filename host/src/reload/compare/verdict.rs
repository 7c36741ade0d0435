//! What a comparison found.

use std::fmt;

use cuda_std::launch::LaunchConfig;

use super::statistics::{Interval, quantile, shift};

/// The times of one version's launches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Timing {
    /// The version's number.
    pub version: u64,
    /// How many launches it got.
    pub launches: u64,
    /// How many of them were timed, and count here: the newest 512 at most.
    pub samples: usize,
    /// The median in milliseconds; `None` without samples.
    pub median_ms: Option<f64>,
    /// The first and the third quartile in milliseconds, between which half of the times lie.
    pub quartiles_ms: Option<(f64, f64)>,
}

impl Timing {
    pub(super) fn new(version: u64, launches: u64, times_ms: &[f64]) -> Self {
        let mut sorted = times_ms.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let quartiles_ms = quantile(&sorted, 0.25).zip(quantile(&sorted, 0.75));
        let median_ms = quantile(&sorted, 0.5);
        Self { version, launches, samples: sorted.len(), median_ms, quartiles_ms }
    }
}

/// Which of two versions is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The candidate's results differ from the baseline's.
    WrongResults,
    /// The candidate is faster: all of the interval is below 0.
    Faster,
    /// The candidate is slower: all of the interval is above 0.
    Slower,
    /// The interval holds 0: the times do not tell which one is faster.
    NoDifference,
    /// There are fewer times than an interval of 95 % takes: four of each version, or more where the numbers differ much.
    TooFewSamples,
}

/// What a [`Comparison`](super::Comparison) found for the launches of one kernel with one grid and block. `Display` is one
/// line.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Verdict {
    /// The kernel.
    pub kernel: &'static str,
    /// The grid, the block and the dynamic shared memory.
    pub config: LaunchConfig,
    /// The version that was in use before.
    pub baseline: Timing,
    /// The version that might take its place.
    pub candidate: Timing,
    /// How much longer the candidate takes, in milliseconds: the Hodges–Lehmann estimate, with the interval of 95 % of the
    /// rank-sum test (Moses). It assumes no distribution, and outliers hardly move it.
    pub difference_ms: Option<Interval>,
    /// How many launches were run with both versions to compare the results.
    pub checked: u64,
    /// In how many of those the results differed.
    pub mismatches: u64,
}

impl Verdict {
    pub(super) fn difference(baseline_ms: &[f64], candidate_ms: &[f64]) -> Option<Interval> {
        shift(baseline_ms, candidate_ms)
    }

    /// Which version is the better one. A wrong result outweighs every time.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self.difference_ms {
            _ if self.mismatches > 0 => Outcome::WrongResults,
            None => Outcome::TooFewSamples,
            Some(interval) if interval.high < 0.0 => Outcome::Faster,
            Some(interval) if interval.low > 0.0 => Outcome::Slower,
            Some(_) => Outcome::NoDifference,
        }
    }

    /// [`difference_ms`](Self::difference_ms) as a part of the baseline's median: 0.1 is 10 % slower.
    #[must_use]
    pub fn relative_difference(&self) -> Option<Interval> {
        let median = self.baseline.median_ms.filter(|median| *median > 0.0)?;
        let Interval { estimate, low, high } = self.difference_ms?;
        Some(Interval { estimate: estimate / median, low: low / median, high: high / median })
    }
}

impl fmt::Display for Verdict {
    /// `blur, grid 4 × 1 × 1, block 128 × 1 × 1: version 2 is faster than version 1: -12.3 % of its time (95 %: -14.0 % to
    /// -10.1 %), of 200 and 200 times`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, config, baseline, candidate, .. } = self;
        let ((a, b, c), (x, y, z)) = (config.grid, config.block);
        write!(
            f,
            "{kernel}, grid {a} × {b} × {c}, block {x} × {y} × {z}: version {} ",
            candidate.version
        )?;
        match self.outcome() {
            Outcome::WrongResults => {
                let (wrong, checked) = (self.mismatches, self.checked);
                return write!(
                    f,
                    "has other results than version {} in {wrong} of {checked} launches",
                    baseline.version
                );
            }
            Outcome::TooFewSamples => {
                return write!(
                    f,
                    "and version {} have too few times: {} and {}",
                    baseline.version, candidate.samples, baseline.samples
                );
            }
            Outcome::Faster => f.write_str("is faster")?,
            Outcome::Slower => f.write_str("is slower")?,
            Outcome::NoDifference => f.write_str("is neither faster nor slower for certain")?,
        }
        write!(f, " than version {}", baseline.version)?;
        if let Some(Interval { estimate, low, high }) = self.relative_difference() {
            let [estimate, low, high] = [estimate, low, high].map(|part| part * 100.0);
            write!(f, ": {estimate:+.1} % of its time (95 %: {low:+.1} % to {high:+.1} %)")?;
        }
        write!(f, ", of {} and {} times", candidate.samples, baseline.samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(baseline: &[f64], candidate: &[f64], mismatches: u64) -> Verdict {
        Verdict {
            kernel: "k",
            config: LaunchConfig { grid: (2, 1, 1), block: (64, 1, 1), shared_mem_bytes: 0 },
            baseline: Timing::new(1, baseline.len() as u64, baseline),
            candidate: Timing::new(2, candidate.len() as u64, candidate),
            difference_ms: Verdict::difference(baseline, candidate),
            checked: 5,
            mismatches,
        }
    }

    /// 40 times around 1 ms, `by` times as long.
    fn times(by: f64) -> Vec<f64> {
        (0..40).map(|n| by * (1.0 + f64::from(n % 7) / 100.0)).collect()
    }

    #[test]
    fn a_planted_difference_is_found_in_both_directions() {
        let slower = verdict(&times(1.0), &times(1.25), 0);
        assert_eq!(slower.outcome(), Outcome::Slower);
        let part = slower.relative_difference().unwrap();
        assert!(part.low > 0.2 && part.high < 0.3, "{part:?}");
        assert_eq!(verdict(&times(1.25), &times(1.0), 0).outcome(), Outcome::Faster);
        assert_eq!(verdict(&times(1.0), &times(1.0), 0).outcome(), Outcome::NoDifference);
        assert_eq!(
            verdict(&times(1.0)[..3], &times(1.0)[..3], 0).outcome(),
            Outcome::TooFewSamples
        );
        assert_eq!(verdict(&[], &[], 0).outcome(), Outcome::TooFewSamples);
    }

    #[test]
    fn wrong_results_outweigh_time() {
        let wrong = verdict(&times(1.25), &times(1.0), 2);
        assert_eq!(wrong.outcome(), Outcome::WrongResults);
        assert!(wrong.to_string().ends_with("in 2 of 5 launches"), "{wrong}");
    }

    #[test]
    fn a_verdict_is_one_line() {
        let line = verdict(&[2.0; 40], &[3.0; 40], 0).to_string();
        assert_eq!(
            line,
            "k, grid 2 × 1 × 1, block 64 × 1 × 1: version 2 is slower than version 1: +50.0 % of its time \
             (95 %: +50.0 % to +50.0 %), of 40 and 40 times"
        );
        let line = verdict(&[], &[], 0).to_string();
        assert!(line.ends_with("version 2 and version 1 have too few times: 0 and 0"), "{line}");
    }

    #[test]
    fn times_have_a_median_and_quartiles() {
        let timing = Timing::new(3, 9, &[4.0, 1.0, 2.0]);
        assert_eq!((timing.median_ms, timing.quartiles_ms), (Some(2.0), Some((1.5, 3.0))));
        assert_eq!((timing.launches, timing.samples), (9, 3));
        assert_eq!(Timing::new(3, 0, &[]).median_ms, None);
    }
}
