//! Reference of softmax and its gradients, a row at a time, in f64.

/// `exp(x - max) / sum`, or its logarithm.
pub fn softmax(row: &[f64], is_log: bool) -> Vec<f64> {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    let result = |x: &f64| if is_log { x - max - sum.ln() } else { (x - max).exp() / sum };
    row.iter().map(result).collect()
}

/// The gradient by the inputs, from the results `y` and the gradient `dy` by them.
pub fn softmax_backward(y: &[f64], dy: &[f64], is_log: bool) -> Vec<f64> {
    let pairs = || y.iter().zip(dy);
    if is_log {
        let sum: f64 = dy.iter().sum();
        return pairs().map(|(y, dy)| dy - y.exp() * sum).collect();
    }
    let sum: f64 = pairs().map(|(y, dy)| y * dy).sum();
    pairs().map(|(y, dy)| y * (dy - sum)).collect()
}
