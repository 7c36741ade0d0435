//! Reference of `saxpy`.

/// `alpha * x[i] + y[i]`, rounded once (a product of two f32 is exact in f64; the sum rounds in f64, then to f32,
/// so a kernel may differ in the last place).
pub fn saxpy(alpha: f32, x: &[f32], y: &[f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(x.len());
    for i in 0..x.len() {
        out.push((f64::from(alpha) * f64::from(x[i]) + f64::from(y[i])) as f32);
    }
    out
}
