//! Medians and their spread.

use serde::{Deserialize, Serialize};

/// Times of one run, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The median.
    pub median_ms: f64,
    /// A tenth of the samples is below.
    pub fast_ms: f64,
    /// A tenth of the samples is above.
    pub slow_ms: f64,
    /// A quarter of the samples is below the first, and a quarter above the second; zeros in reports from before
    /// they were kept.
    #[serde(default)]
    pub quartiles_ms: [f64; 2],
    /// How many samples there are.
    pub samples: usize,
}

impl Summary {
    /// Of samples in any order; `None` of none.
    #[must_use]
    pub fn of(samples: &[f64]) -> Option<Self> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Some(Self {
            median_ms: quantile(&sorted, 0.5)?,
            fast_ms: quantile(&sorted, 0.1)?,
            slow_ms: quantile(&sorted, 0.9)?,
            quartiles_ms: [quantile(&sorted, 0.25)?, quantile(&sorted, 0.75)?],
            samples: sorted.len(),
        })
    }

    /// How far the tenths are apart, as a share of the median.
    #[must_use]
    pub fn spread(&self) -> f64 {
        (self.slow_ms - self.fast_ms) / self.median_ms
    }
}

/// The value below which a share of `sorted` lies, between neighbours in proportion.
fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_neighbours() {
        let summary = Summary::of(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(summary.median_ms, 2.5);
        assert!((summary.fast_ms - 1.3).abs() < 1e-12 && (summary.slow_ms - 3.7).abs() < 1e-12);
        assert!((summary.spread() - 0.96).abs() < 1e-12);
        assert_eq!((summary.quartiles_ms, summary.samples), ([1.75, 3.25], 4));
    }

    #[test]
    fn one_sample_is_its_own_spread_and_none_has_no_median() {
        let one = Summary::of(&[7.0]).unwrap();
        assert_eq!((one.median_ms, one.fast_ms, one.slow_ms), (7.0, 7.0, 7.0));
        assert_eq!(Summary::of(&[]), None);
    }
}
