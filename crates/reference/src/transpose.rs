//! Reference of the transposes.

/// `out[x][y] = input[y][x]` for a row-major `input: [height, width]`.
pub fn transpose<T: Copy>(input: &[T], width: usize, height: usize) -> Vec<T> {
    permute(input, [1, height, width], [0, 2, 1])
}

/// Axis `k` of the result is axis `axes[k]` of `input: dims`.
pub fn permute<T: Copy>(input: &[T], dims: [usize; 3], axes: [usize; 3]) -> Vec<T> {
    let strides = [dims[1] * dims[2], dims[2], 1];
    let mut out = Vec::with_capacity(input.len());
    for i in 0..dims[axes[0]] {
        for j in 0..dims[axes[1]] {
            for k in 0..dims[axes[2]] {
                out.push(input[i * strides[axes[0]] + j * strides[axes[1]] + k * strides[axes[2]]]);
            }
        }
    }
    out
}
