//! Reference of `polynomial`.

/// `c[0] + c[1] x + c[2] x² + …` at each `x`, with each power by itself, in f64; and the sum of the terms' magnitudes, which
/// bounds how much is lost by rounding.
pub fn polynomial(coefficients: &[f32], x: &[f32]) -> Vec<(f64, f64)> {
    let at = |x: f64| {
        let (mut sum, mut magnitudes, mut power) = (0.0, 0.0, 1.0);
        for &coefficient in coefficients {
            let term = f64::from(coefficient) * power;
            sum += term;
            magnitudes += term.abs();
            power *= x;
        }
        (sum, magnitudes)
    };
    x.iter().map(|x| at(f64::from(*x))).collect()
}
