//! Matrix products: two layers of a neural network, on tensor cores. Bias and activation are part of the product.

use cuda_std::bf16;
use ferrowarp::ops::Scratch;
use ferrowarp::ops::matmul::{self, Matrix, MatrixMut, Options, matmul_into};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use kernels_gpu::matmul::{ColumnBias, Gelu, Then, gelu};

/// Rows of the input, and the widths of the layers.
const TOKENS: usize = 32;
const WIDTHS: [usize; 3] = [64, 128, 16];

/// `len` numbers in -0.5..0.5, the same on every run.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    (0..len).map(|i| bf16::from_f32(((i + seed) * 7919 % 1000) as f32 / 1000.0 - 0.5)).collect()
}

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let [inputs, hidden, outputs] = WIDTHS;
    let x = numbers(TOKENS * inputs, 1);
    // As they are stored: a row for each output.
    let (w1, w2) = (numbers(hidden * inputs, 2), numbers(outputs * hidden, 3));
    let bias = numbers(hidden, 4);

    let [on_x, on_w1, on_w2, on_bias] =
        [&x, &w1, &w2, &bias].map(|values| DeviceBuffer::from_slice(&gpu, values));
    let (on_x, on_w1, on_w2, on_bias) = (on_x?, on_w1?, on_w2?, on_bias?);
    let mut between = DeviceBuffer::<bf16>::zeroed(&gpu, TOKENS * hidden)?;
    let mut out = DeviceBuffer::<f32>::zeroed(&gpu, TOKENS * outputs)?;
    let mut scratch = Scratch::new(&gpu)?;

    // between = gelu(x · w1ᵀ + bias), and out = between · w2ᵀ, with nothing but views between the matrices and the kernels.
    matmul_into(
        &gpu,
        Matrix::row_major(&on_x, TOKENS, inputs)?,
        Matrix::row_major(&on_w1, hidden, inputs)?.transposed(),
        MatrixMut::row_major(&mut between, TOKENS, hidden)?,
        Options::new().per_column(&on_bias).epilogue(Then(ColumnBias, Gelu)),
        &mut scratch,
    )?;
    matmul_into(
        &gpu,
        Matrix::row_major(&between, TOKENS, hidden)?,
        Matrix::row_major(&on_w2, outputs, hidden)?.transposed(),
        MatrixMut::row_major(&mut out, TOKENS, outputs)?,
        Options::new(),
        &mut scratch,
    )?;

    // Check on the host. Hidden values are rounded to bf16 there, too; an f32 sum may round to its neighbour, 2^-8 of it.
    let dot = |row: &[bf16], weights: &[bf16]| -> f32 {
        row.iter().zip(weights).map(|(a, b)| a.to_f32() * b.to_f32()).sum()
    };
    let layer: Vec<bf16> = (0..TOKENS * hidden)
        .map(|i| (&x[i / hidden * inputs..][..inputs], i % hidden))
        .map(|(row, j)| {
            bf16::from_f32(gelu(dot(row, &w1[j * inputs..][..inputs]) + bias[j].to_f32()))
        })
        .collect();
    let largest = out.to_vec()?.into_iter().enumerate().map(|(i, found)| {
        let (row, weights) =
            (&layer[i / outputs * hidden..][..hidden], &w2[i % outputs * hidden..][..hidden]);
        let magnitude: f32 =
            row.iter().zip(weights).map(|(a, b)| (a.to_f32() * b.to_f32()).abs()).sum();
        (found - dot(row, weights)).abs() / magnitude
    });
    let largest = largest.fold(0.0, f32::max);
    assert!(largest < 1.0 / 128.0, "off by {largest} of the products' magnitude");

    println!("device: {}", gpu.name());
    println!("{TOKENS} rows through layers of {WIDTHS:?}: right");
    println!("4096³ would be the {}", matmul::explain(&gpu, [4096; 3], 1));
    Ok(())
}
