//! Reference of the norms and their gradients, a row at a time, in f64.

/// What a norm does with a row.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// Layer norm subtracts the mean, RMS norm does not.
    pub is_layer: bool,
    /// Added to the variance.
    pub epsilon: f64,
    /// A weight for each column.
    pub weight: Option<&'a [f64]>,
    /// A bias for each column.
    pub bias: Option<&'a [f64]>,
}

impl Norm<'_> {
    /// The row without weights, and the reciprocal of its deviation.
    pub fn normalised(&self, row: &[f64]) -> (Vec<f64>, f64) {
        let n = row.len() as f64;
        let mean = if self.is_layer { row.iter().sum::<f64>() / n } else { 0.0 };
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
        let reciprocal = 1.0 / (variance + self.epsilon).sqrt();
        (row.iter().map(|x| (x - mean) * reciprocal).collect(), reciprocal)
    }

    fn weight(&self, column: usize) -> f64 {
        self.weight.map_or(1.0, |weight| weight[column])
    }

    /// The row, normalised and weighted.
    pub fn forward(&self, row: &[f64]) -> Vec<f64> {
        let (normalised, _) = self.normalised(row);
        let bias = |i: usize| self.bias.map_or(0.0, |bias| bias[i]);
        let result = |(i, x): (usize, &f64)| x * self.weight(i) + bias(i);
        normalised.iter().enumerate().map(result).collect()
    }

    /// The gradient by the row.
    pub fn backward(&self, row: &[f64], dy: &[f64]) -> Vec<f64> {
        let ((normalised, reciprocal), n) = (self.normalised(row), row.len() as f64);
        let g: Vec<f64> = dy.iter().enumerate().map(|(i, dy)| dy * self.weight(i)).collect();
        let mean = if self.is_layer { g.iter().sum::<f64>() / n } else { 0.0 };
        let product = g.iter().zip(&normalised).map(|(g, x)| g * x).sum::<f64>() / n;
        let result = |(g, x): (&f64, &f64)| (g - mean - x * product) * reciprocal;
        g.iter().zip(&normalised).map(result).collect()
    }
}
