//! Reference of `grayscale`.

/// BT.601 luma of each RGBA pixel in f64, rounded to nearest. A kernel in 16-bit fixed point may differ by one
/// where the exact value is within 2^-8 of a half.
pub fn grayscale(rgba: &[[u8; 4]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(rgba.len());
    for pixel in rgba {
        let [r, g, b, _] = pixel.map(f64::from);
        out.push((0.299 * r + 0.587 * g + 0.114 * b).round() as u8);
    }
    out
}
