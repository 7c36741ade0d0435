//! What the times of two versions say of each other.

/// 97.5 % of a normal distribution are below it: the quantile for an interval of 95 %.
const Z: f64 = 1.959_963_984_540_054;

/// An estimate, and the interval that holds the true value with a confidence of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// The estimate.
    pub estimate: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// The quantile `q` of sorted numbers, interpolated between neighbours (Hyndman and Fan, *Sample Quantiles in Statistical
/// Packages*, 1996, definition 7); `None` if there are none.
pub(super) fn quantile(sorted: &[f64], q: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let at = q * last as f64;
    let (below, above) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
    Some(below + (above - below) * at.fract())
}

/// How much greater the numbers of `other` are than those of `one`: the median of all differences (Hodges and Lehmann,
/// *Estimates of Location Based on Rank Tests*, 1963), between the differences whose ranks a two-sided rank-sum test of
/// 5 % leaves (Moses, 1965; Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*, 2014, section 4.3, with the
/// normal approximation of the test). `None` where there are too few numbers for such an interval.
///
/// Nothing is assumed of the distributions but that both have one shape. Outliers, of which times have many,
/// move a rank and not a mean.
pub(super) fn shift(one: &[f64], other: &[f64]) -> Option<Interval> {
    let mut differences: Vec<f64> =
        one.iter().flat_map(|a| other.iter().map(move |b| b - a)).collect();
    let lowest = lowest_rank(one.len(), other.len())?;
    differences.sort_unstable_by(f64::total_cmp);
    let estimate = quantile(&differences, 0.5)?;
    let (low, high) = (differences[lowest - 1], differences[differences.len() - lowest]);
    Some(Interval { estimate, low, high })
}

/// The rank, from 1, of the difference at the lower end of the interval.
fn lowest_rank(one: usize, other: usize) -> Option<usize> {
    let (m, n) = (one as f64, other as f64);
    let rank = (m * n / 2.0 - Z * (m * n * (m + n + 1.0) / 12.0).sqrt()).floor();
    (rank >= 1.0).then_some(rank as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of 0 to 1 that only look random.
    fn uniform(seed: &mut u64) -> f64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 11) as f64 / (1u64 << 53) as f64
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[3.0], 0.25), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.5), Some(2.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.5), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.25), Some(1.75));
        assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 1.0), Some(8.0));
    }

    /// The exact test of 5 %, two-sided, leaves out ranks below 24 of two times ten numbers, below 3 of two times five and
    /// below 128 of two times twenty: there the approximation is one too careful.
    #[test]
    fn ranks_are_those_of_the_tables() {
        assert_eq!(lowest_rank(10, 10), Some(24));
        assert_eq!(lowest_rank(20, 20), Some(127));
        assert_eq!(lowest_rank(5, 5), Some(3));
        assert_eq!((lowest_rank(4, 4), lowest_rank(3, 3)), (Some(1), None));
        assert_eq!(lowest_rank(0, 1000), None);
    }

    #[test]
    fn a_shift_is_found_exactly_where_there_is_no_noise() {
        let one: Vec<f64> = (0..40).map(f64::from).collect();
        let other: Vec<f64> = one.iter().map(|x| x + 7.0).collect();
        let Interval { estimate, low, high } = shift(&one, &other).unwrap();
        assert_eq!(estimate, 7.0);
        // Both ends are as far away.
        assert!(low < 7.0 && low + high == 14.0, "{low} {high}");
        let back = shift(&other, &one).unwrap();
        assert_eq!((back.estimate, back.low, back.high), (-7.0, -high, -low));
        assert_eq!(shift(&one[..3], &other[..3]), None);
    }

    #[test]
    fn an_outlier_moves_the_estimate_by_a_rank() {
        let one: Vec<f64> = (0..50).map(|x| f64::from(x) / 50.0).collect();
        let mut other: Vec<f64> = one.iter().map(|x| x + 2.0).collect();
        other[0] = 1e9;
        let found = shift(&one, &other).unwrap();
        assert!((found.estimate - 2.0).abs() < 0.1 && found.high < 2.3, "{found:?}");
    }

    /// Of 1000 intervals for a shift of 0.1 about 950 hold it: between 928 and 971 with a chance of 0.998 (three standard
    /// deviations of 6.9).
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut seed = 1;
        let mut holds = || {
            let mut skewed = |by: f64| -> Vec<f64> {
                (0..25).map(|_| by - uniform(&mut seed).max(1e-9).ln()).collect()
            };
            let found = shift(&skewed(1.0), &skewed(1.1)).unwrap();
            (found.low..=found.high).contains(&0.1)
        };
        let count = (0..1000).filter(|_| holds()).count();
        assert!((928..=971).contains(&count), "{count}");
    }
}
