//! Reference of the transposes.

/// `out[x][y] = input[y][x]` for a row-major `input: [height, width]`.
pub fn transpose(input: &[f32], width: usize, height: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(input.len());
    for x in 0..width {
        for y in 0..height {
            out.push(input[y * width + x]);
        }
    }
    out
}
