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
    dropped_row(q, keys, key, value, scale, score, |_| 1.0)
}

/// [`row`] with each weight multiplied by `factor(key)` after their sum was taken, as dropout does.
pub fn dropped_row<'a>(
    q: &[f64],
    keys: usize,
    key: impl Fn(usize) -> &'a [f64],
    value: impl Fn(usize) -> &'a [f64],
    scale: f64,
    score: impl Fn(usize, f64) -> f64,
    factor: impl Fn(usize) -> f64,
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
        let factor = factor(k);
        for (i, v) in value(k).iter().enumerate() {
            values[i] += weight * factor * v;
            magnitudes[i] += weight * factor * v.abs();
            sums[i] += factor * v.abs();
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
    /// The largest error of rounding to the type of the results, relative.
    pub unit: f64,
    /// Half the smallest difference of results.
    pub least: f64,
    /// The same of weights, relative to the largest of a row.
    weights: [f64; 2],
    /// What the tensor core loses beyond 22 bits, of each product, relative to the sum of magnitudes, and of how many products at most.
    sums: [f64; 2],
}

impl Rounding {
    /// `bf16`: eight bits; exponentials below 2^-126 are 0.
    pub const BF16: Self = Self::of_halves(1.0 / 256.0, 1e-38);
    /// `f16`: eleven bits, and no value below 2^-24.
    pub const F16: Self = Self::of_halves(1.0 / 2048.0, 2.98e-8);
    /// `E4m3` with results of `bf16`. Weights have four bits, and are multiples of 2^-17 of the largest. Tensor cores add 32 products at a time to the sum
    /// before, all cut to 13 bits of fraction of the largest of them, and 1,024 products at most before sums of 24 bits take them.
    pub const E4M3: Self = Self {
        weights: [1.0 / 16.0, 3.8147e-6],
        sums: [33.0 / 32.0 / 8192.0, 1024.0],
        ..Self::BF16
    };

    /// Elements, weights and results of 16 bits.
    const fn of_halves(unit: f64, least: f64) -> Self {
        Self { unit, least, weights: [unit, least], sums: [0.0, 0.0] }
    }

    /// How far a sum of this many products may be off, relative to the sum of their magnitudes.
    fn of_sum(self, products: f64) -> f64 {
        let [each, most] = self.sums;
        products.min(most) * each + products * 2f64.powi(-22)
    }

    /// How far a score may be off: tensor cores add `depth` products with at least 22 bits, the scale and the subtraction of the maximum round
    /// twice to 24 bits, relative to the largest score on the way.
    fn of_score(self, row: &Row, depth: usize) -> f64 {
        row.score_magnitude * (self.of_sum(depth as f64) + 4.0 * 2f64.powi(-24))
    }

    /// The largest error of element `i`: that of all weights, relative, twice (in the product and in the sum), their rounding to the type of the
    /// elements, the additions of the tensor cores, and the rounding of the result.
    pub fn bound(self, row: &Row, depth: usize, i: usize) -> f64 {
        let weights = 2.0 * (self.of_score(row, depth).exp_m1() + 2f64.powi(-20));
        let sums = self.of_sum(row.seen as f64) + 64.0 * 2f64.powi(-22);
        let [unit, least] = self.weights;
        let of_weights = row.magnitudes[i] * (weights + 1.01 * unit + sums);
        let too_small = row.sums[i] * least;
        let before = of_weights + too_small;
        before + (row.values[i].abs() + before) * self.unit + self.least
    }

    /// The largest error of the logarithm.
    pub fn bound_of_lse(self, row: &Row, depth: usize) -> f64 {
        let sums = (row.seen as f64 + 64.0) * 2f64.powi(-23);
        self.of_score(row, depth) + sums + (row.lse.abs() + 1.0) * 2f64.powi(-21)
    }
}

/// A gradient, and the largest error that rounding explains.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Gradient {
    /// Its value.
    pub value: f64,
    /// The largest error.
    pub bound: f64,
}

impl Gradient {
    fn add(&mut self, value: f64, error: f64) {
        self.value += value;
        self.bound += error;
    }

    /// Multiplied by a factor, and rounded.
    fn rounded(self, factor: f64, rounding: Rounding) -> Self {
        let (value, bound) = (self.value * factor, self.bound * factor);
        Self { value, bound: bound + (value.abs() + bound) * rounding.unit + rounding.least }
    }
}

/// Rows of gradients.
pub type Rows = Vec<Vec<Gradient>>;

/// One head of keys and values, and the queries of one head that shares it.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Queries, keys and values, and the gradients of the results.
    pub q: &'a [&'a [f64]],
    #[allow(missing_docs)]
    pub k: &'a [&'a [f64]],
    #[allow(missing_docs)]
    pub v: &'a [&'a [f64]],
    #[allow(missing_docs)]
    pub d_o: &'a [&'a [f64]],
    /// Factor of the scores.
    pub scale: f64,
}

impl Head<'_> {
    /// The gradients of queries, keys and values. `score(query, key, scale · q·k)` gives what counts, and its derivative. Results and logarithms that the backward
    /// pass is given are rounded.
    pub fn gradients(
        &self,
        score: impl Fn(usize, usize, f64) -> (f64, f64),
        rounding: Rounding,
    ) -> [Rows; 3] {
        self.dropped_gradients(score, |_, _| 1.0, rounding)
    }

    /// [`gradients`](Self::gradients) with each weight multiplied by `factor(query, key)` after their sum was taken, as dropout does.
    pub fn dropped_gradients(
        &self,
        score: impl Fn(usize, usize, f64) -> (f64, f64),
        factor: impl Fn(usize, usize) -> f64,
        rounding: Rounding,
    ) -> [Rows; 3] {
        let Self { q, k, v, d_o, scale } = *self;
        let depth = q.first().map_or(0, |q| q.len());
        let zeros = |of: &[&[f64]]| -> Rows {
            of.iter().map(|row| vec![Gradient::default(); row.len()]).collect()
        };
        let [mut d_q, mut d_k, mut d_v] = [zeros(q), zeros(k), zeros(v)];
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let size = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a * b).abs()).sum::<f64>();
        for (i, q) in q.iter().enumerate() {
            let of_key = |j, s| score(i, j, s).0;
            let factor = |j| factor(i, j);
            let of_row = dropped_row(q, k.len(), |j| k[j], |j| v[j], scale, of_key, factor);
            if of_row.seen == 0 {
                continue;
            }
            let delta = dot(d_o[i], &of_row.values);
            let of_delta: f64 = d_o[i]
                .iter()
                .enumerate()
                .map(|(c, d_o)| d_o.abs() * rounding.bound(&of_row, depth, c))
                .sum();
            // How far a weight may be off, relative.
            let of_weight = (rounding.of_score(&of_row, depth)
                + rounding.bound_of_lse(&of_row, depth))
            .exp_m1()
                + 2f64.powi(-20);
            for j in 0..k.len() {
                let (counts, slope) = score(i, j, scale * dot(q, k[j]));
                if counts == f64::NEG_INFINITY {
                    continue;
                }
                let weight = (counts - of_row.lse).exp();
                let factor = factor(j);
                let product = factor * dot(d_o[i], v[j]);
                let gradient = weight * (product - delta) * slope;
                let of_product =
                    factor * size(d_o[i], v[j]) * (v[j].len() as f64 + 2.0) * 2f64.powi(-22);
                let error = gradient.abs() * (of_weight + rounding.unit + 2f64.powi(-20))
                    + weight * slope.abs() * (of_product + of_delta + delta.abs() * 2f64.powi(-20))
                    + rounding.least;
                let sums = (k.len() + q.len()) as f64 * 2f64.powi(-22);
                for c in 0..depth {
                    d_q[i][c]
                        .add(gradient * k[j][c], (error + gradient.abs() * sums) * k[j][c].abs());
                    d_k[j][c].add(gradient * q[c], (error + gradient.abs() * sums) * q[c].abs());
                }
                let error = factor * (weight * (of_weight + rounding.unit + sums) + rounding.least);
                for (c, d_o) in d_o[i].iter().enumerate() {
                    d_v[j][c].add(weight * factor * d_o, error * d_o.abs());
                }
            }
        }
        let finish = |rows: Rows, factor: f64| {
            let of_row = |row: Vec<Gradient>| {
                row.into_iter().map(|gradient| gradient.rounded(factor, rounding)).collect()
            };
            rows.into_iter().map(of_row).collect()
        };
        [finish(d_q, scale), finish(d_k, scale), finish(d_v, 1.0)]
    }
}

/// Elements `i` and `i + d / 2` of a row, turned by `position · base^(-2 i / d)`.
pub fn rotary(row: &[f64], position: usize, base: f64) -> Vec<f64> {
    let half = row.len() / 2;
    let mut out = row.to_vec();
    for i in 0..half {
        let angle = position as f64 * base.powf(-2.0 * i as f64 / row.len() as f64);
        let (sin, cos) = angle.sin_cos();
        out[i] = row[i] * cos - row[i + half] * sin;
        out[i + half] = row[i + half] * cos + row[i] * sin;
    }
    out
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

    #[test]
    fn gradients_are_those_of_finite_differences() {
        let data = |seed: usize| -> Vec<Vec<f64>> {
            (0..3)
                .map(|i| {
                    (0..2).map(|j| ((seed * 7 + i * 5 + j * 3) % 11) as f64 / 5.0 - 1.0).collect()
                })
                .collect()
        };
        let inputs = [data(1), data(2), data(3)];
        let d_o = data(4);
        fn rows(of: &[Vec<f64>]) -> Vec<&[f64]> {
            of.iter().map(Vec::as_slice).collect()
        }
        // A cap, and a causal mask.
        let score = |i: usize, j: usize, s: f64| match j <= i {
            true => (0.5 * (2.0 * s).tanh(), 1.0 - (2.0 * s).tanh().powi(2)),
            false => (f64::NEG_INFINITY, 0.0),
        };
        // A weight that is dropped, and others that are larger in return.
        let factor = |i: usize, j: usize| if (i, j) == (2, 1) { 0.0 } else { 1.25 };
        let loss = |[q, k, v]: &[Vec<Vec<f64>>; 3]| -> f64 {
            let of_query = |i: usize| {
                let (k, v) = (|j: usize| &k[j][..], |j: usize| &v[j][..]);
                let o = dropped_row(&q[i], 3, k, v, 0.7, |j, s| score(i, j, s).0, |j| factor(i, j));
                o.values.iter().zip(&d_o[i]).map(|(o, d_o)| o * d_o).sum::<f64>()
            };
            (0..3).map(of_query).sum()
        };
        let (q, k, v, of_o) = (rows(&inputs[0]), rows(&inputs[1]), rows(&inputs[2]), rows(&d_o));
        let head = Head { q: &q, k: &k, v: &v, d_o: &of_o, scale: 0.7 };
        let gradients = head.dropped_gradients(score, factor, Rounding::BF16);
        for (which, of_input) in gradients.iter().enumerate() {
            for (i, of_row) in of_input.iter().enumerate() {
                for (c, gradient) in of_row.iter().enumerate() {
                    let moved = |by: f64| {
                        let mut moved = inputs.clone();
                        moved[which][i][c] += by;
                        loss(&moved)
                    };
                    let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                    assert!((difference - gradient.value).abs() < 1e-8, "{which} {i} {c}");
                }
            }
        }
    }
}
