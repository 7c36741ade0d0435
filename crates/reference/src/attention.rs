//! Reference of attention, in f64, and a bound on the rounding of each element.

/// The result for one query.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// `Σ p v`, where the weights `p` are `e^score`, divided by their sum.
    pub values: Vec<f64>,
    /// `Σ p |v|`.
    pub magnitudes: Vec<f64>,
    /// `Σ |v|` over the keys that the query sees.
    pub sums: Vec<f64>,
    /// The logarithm of the sum of `e^score`; negative infinity without keys.
    pub lse: f64,
    /// The largest `scale · Σ |q k|` of the keys that the query sees.
    pub score_magnitude: f64,
    /// How many keys those are.
    pub seen: usize,
}

/// Attention of the query `q` over `keys` keys, of which `key` and `value` give the rows. `score` makes of `scale · q·k` what counts; negative infinity:
/// the query does not see the key.
pub fn row<'a>(
    q: &[f64],
    keys: usize,
    key: impl Fn(usize) -> &'a [f64],
    value: impl Fn(usize) -> &'a [f64],
    scale: f64,
    score: impl Fn(usize, f64) -> f64,
) -> Row {
    let depth = if keys > 0 { value(0).len() } else { 0 };
    let product = |k: usize| q.iter().zip(key(k)).map(|(q, k)| q * k);
    let scores: Vec<f64> = (0..keys).map(|k| score(k, scale * product(k).sum::<f64>())).collect();
    let sees = |k: &usize| scores[*k] != f64::NEG_INFINITY;
    let max = (0..keys).filter(sees).map(|k| scores[k]).fold(f64::NEG_INFINITY, f64::max);
    let (mut values, mut magnitudes, mut sums) =
        (vec![0.0; depth], vec![0.0; depth], vec![0.0; depth]);
    let (mut sum, mut score_magnitude, mut seen) = (0.0, 0.0f64, 0);
    for k in (0..keys).filter(sees) {
        let weight = (scores[k] - max).exp();
        sum += weight;
        seen += 1;
        score_magnitude = score_magnitude.max(scale * product(k).map(f64::abs).sum::<f64>());
        for (i, v) in value(k).iter().enumerate() {
            values[i] += weight * v;
            magnitudes[i] += weight * v.abs();
            sums[i] += v.abs();
        }
    }
    if seen > 0 {
        values.iter_mut().chain(&mut magnitudes).for_each(|value| *value /= sum);
    }
    let lse = if seen > 0 { max + sum.ln() } else { f64::NEG_INFINITY };
    Row { values, magnitudes, sums, lse, score_magnitude, seen }
}

/// How attention rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounding {
    /// The largest error of rounding to the type of the elements, relative.
    pub unit: f64,
    /// Half the smallest difference of elements.
    pub least: f64,
}

impl Rounding {
    /// `bf16`: eight bits; exponentials below 2^-126 are 0.
    pub const BF16: Self = Self { unit: 1.0 / 256.0, least: 1e-38 };
    /// `f16`: eleven bits, and no value below 2^-24.
    pub const F16: Self = Self { unit: 1.0 / 2048.0, least: 2.98e-8 };

    /// How far a score may be off: tensor cores add `depth` products with at least 22 bits, the scale and the subtraction of the maximum round
    /// twice to 24 bits, relative to the largest score on the way.
    fn of_score(self, row: &Row, depth: usize) -> f64 {
        row.score_magnitude * (depth as f64 * 2f64.powi(-22) + 4.0 * 2f64.powi(-24))
    }

    /// The largest error of element `i`: that of all weights, relative, twice (in the product and in the sum), their rounding to the type of the
    /// elements, the additions of the tensor cores, and the rounding of the result.
    pub fn bound(self, row: &Row, depth: usize, i: usize) -> f64 {
        let weights = 2.0 * (self.of_score(row, depth).exp_m1() + 2f64.powi(-20));
        let sums = (row.seen as f64 + 64.0) * 2f64.powi(-22);
        let of_weights = row.magnitudes[i] * (weights + 1.01 * self.unit + sums);
        let too_small = row.sums[i] * self.least;
        let before = of_weights + too_small;
        before + (row.values[i].abs() + before) * self.unit + self.least
    }

    /// The largest error of the logarithm.
    pub fn bound_of_lse(self, row: &Row, depth: usize) -> f64 {
        let sums = (row.seen as f64 + 64.0) * 2f64.powi(-23);
        self.of_score(row, depth) + sums + (row.lse.abs() + 1.0) * 2f64.powi(-21)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_scores_give_the_mean() {
        let (keys, values) = ([[1.0, 0.0], [0.0, 1.0]], [[2.0], [-4.0]]);
        let row = row(&[3.0, 3.0], 2, |k| &keys[k], |k| &values[k], 0.5, |_, score| score);
        assert!((row.values[0] + 1.0).abs() < 1e-12 && (row.magnitudes[0] - 3.0).abs() < 1e-12);
        assert!((row.lse - (1.5 + 2f64.ln())).abs() < 1e-12);
        assert_eq!((row.sums[0], row.seen), (6.0, 2));
    }

    #[test]
    fn keys_that_are_not_seen_do_not_count() {
        let values = [[2.0], [f64::NAN]];
        let score = |k, score| if k == 1 { f64::NEG_INFINITY } else { score };
        let one = row(&[1.0], 2, |_| &[1.0], |k| &values[k], 1.0, score);
        assert_eq!((one.values[0], one.lse), (2.0, 1.0));
        let none = row(&[1.0], 2, |_| &[1.0], |k| &values[k], 1.0, |_, _| f64::NEG_INFINITY);
        assert_eq!((none.values[0], none.lse), (0.0, f64::NEG_INFINITY));
    }
}
