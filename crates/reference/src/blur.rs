//! Reference of the Gaussian blur.

/// Weights of a Gaussian of `sigma` pixels, cut at `radius` and scaled to sum 1, in f64.
pub fn weights(sigma: f64, radius: usize) -> Vec<f64> {
    let raw: Vec<f64> = (0..=2 * radius)
        .map(|k| {
            let distance = k as f64 - radius as f64;
            (-distance * distance / (2.0 * sigma * sigma)).exp()
        })
        .collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|weight| weight / sum).collect()
}

/// Blur of `image: [height, width]` as one two-dimensional sum a pixel, in f64, edges repeated outwards.
///
/// The values are not rounded, so that a test can see how near a half a pixel is.
pub fn blur(image: &[u8], width: usize, height: usize, sigma: f64, radius: usize) -> Vec<f64> {
    let weights = weights(sigma, radius);
    let held = |position: usize, k: usize, len: usize| {
        (position as i64 + k as i64 - radius as i64).clamp(0, len as i64 - 1) as usize
    };
    let mut out = Vec::with_capacity(image.len());
    for y in 0..height {
        for x in 0..width {
            let mut sum = 0.0;
            for (ky, wy) in weights.iter().enumerate() {
                let row = held(y, ky, height) * width;
                for (kx, wx) in weights.iter().enumerate() {
                    sum += wy * wx * f64::from(image[row + held(x, kx, width)]);
                }
            }
            out.push(sum);
        }
    }
    out
}
