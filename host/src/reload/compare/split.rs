//! Which launches go to which version.

use crate::error::{GpuError, GpuResult};

/// The share of launches that the candidate gets, in millionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share(u32);

const WHOLE: u32 = 1_000_000;

impl Share {
    pub(super) fn new(share: f64) -> GpuResult<Self> {
        let millionths = (share * f64::from(WHOLE)).round();
        if millionths >= 1.0 && millionths < f64::from(WHOLE) {
            return Ok(Self(millionths as u32));
        }
        let reason = format!("the share is {share}, and must be between 0 and 1, both excluded");
        Err(GpuError::InvalidArgument { operation: "comparing two versions", reason })
    }

    /// Whether launch `number`, from 0, is the candidate's. Of the first `n` launches `n * share` are, rounded down, spread
    /// evenly: the points of a line (Bresenham, 1965).
    pub(super) fn is_candidate(self, number: u64) -> bool {
        self.count(number + 1) > self.count(number)
    }

    /// How many of the first `n` launches are the candidate's.
    fn count(self, n: u64) -> u128 {
        u128::from(n) * u128::from(self.0) / u128::from(WHOLE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_exact_at_every_length() {
        for (share, millionths) in [
            (0.5, 500_000),
            (0.1, 100_000),
            (0.29, 290_000),
            (0.7, 700_000),
            (1e-6, 1),
            (0.999_999, 999_999),
        ] {
            let split = Share::new(share).unwrap();
            let mut count = 0u64;
            for n in 0..10_000u64 {
                count += u64::from(split.is_candidate(n));
                assert_eq!(count, (n + 1) * millionths / 1_000_000, "{share} of {}", n + 1);
            }
        }
        let late = u64::MAX - 2;
        assert_ne!(
            Share::new(0.5).unwrap().is_candidate(late),
            Share::new(0.5).unwrap().is_candidate(late + 1)
        );
    }

    #[test]
    fn the_candidates_launches_are_spread_evenly() {
        let split = Share::new(0.25).unwrap();
        let own: Vec<u64> = (0..16).filter(|n| split.is_candidate(*n)).collect();
        assert_eq!(own, [3, 7, 11, 15]);
    }

    #[test]
    fn a_share_that_leaves_a_version_without_launches_is_refused() {
        for share in [0.0, 1.0, -0.5, 1.5, 4e-7, 1.0 - 4e-7, f64::NAN, f64::INFINITY] {
            let error = Share::new(share).unwrap_err();
            assert!(error.to_string().contains("between 0 and 1"), "{error}");
        }
    }
}
