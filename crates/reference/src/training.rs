//! Reference of losses, optimisers and embeddings, in f64.

/// The cross entropy of a row with its target, and its gradient; zeros if the target is not one of its columns.
pub fn cross_entropy(row: &[f64], target: usize) -> (f64, Vec<f64>) {
    let Some(of_target) = row.get(target) else { return (0.0, vec![0.0; row.len()]) };
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    let gradient = |(i, x): (usize, &f64)| (x - max).exp() / sum - f64::from(i == target);
    (sum.ln() + max - of_target, row.iter().enumerate().map(gradient).collect())
}

/// The numbers of Adam, and what it knows of a weight.
#[derive(Clone, Copy, Debug)]
pub struct Adam {
    #[allow(missing_docs)]
    pub rate: f64,
    #[allow(missing_docs)]
    pub betas: [f64; 2],
    #[allow(missing_docs)]
    pub epsilon: f64,
    #[allow(missing_docs)]
    pub decay: f64,
    /// The means of gradients and of their squares.
    pub means: [f64; 2],
}

impl Adam {
    /// The weight after step `number`, from 1.
    pub fn step(&mut self, number: i32, weight: f64, gradient: f64) -> f64 {
        let powers = [gradient, gradient * gradient];
        for ((mean, beta), power) in self.means.iter_mut().zip(self.betas).zip(powers) {
            *mean = beta * *mean + (1.0 - beta) * power;
        }
        let unbiased = |i: usize| self.means[i] / (1.0 - self.betas[i].powi(number));
        let along = unbiased(0) / (unbiased(1).sqrt() + self.epsilon);
        weight - self.rate * (along + self.decay * weight)
    }
}
