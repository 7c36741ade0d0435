//! Reference of `vecadd`.

/// `a[i] + b[i]`: one rounding, so a kernel must give the same bits.
pub fn vecadd(a: &[f32], b: &[f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(a.len());
    for i in 0..a.len() {
        out.push((f64::from(a[i]) + f64::from(b[i])) as f32);
    }
    out
}
