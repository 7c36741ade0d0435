//! One step of a small language model's head: a norm, a product with the vocabulary, and the choice among the most probable tokens.
//!
//! Norm, softmax and top-k are Ferrowarp's, on the emulator or on a GPU; the product is burn's. Run it with `cargo run --example sampling`.

use burn_ndarray::NdArray;
use burn_tensor::{Tensor, TensorData};
use ferrowarp_burn::{Result, rms_norm, softmax, sort, top_k};

type Backend = NdArray<f32>;

const WIDTH: usize = 64;
const TOKENS: usize = 1000;
/// Tokens that are chosen from.
const K: usize = 5;

/// A matrix of numbers between -1 and 1.
fn numbers(rows: usize, columns: usize) -> Tensor<Backend, 2> {
    let values = (0..rows * columns).map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0);
    let data = TensorData::new(values.collect::<Vec<f32>>(), [rows, columns]);
    Tensor::from_data(data, &Default::default())
}

fn main() -> Result<()> {
    let scale = Tensor::ones([WIDTH], &Default::default());
    let logits = rms_norm(numbers(2, WIDTH), scale, 1e-5)?.matmul(numbers(WIDTH, TOKENS));
    let (best, tokens) = top_k(logits.clone(), K, true)?;
    let chances = softmax(best.clone(), false)?;

    let tokens = tokens.into_data().to_vec::<i64>()?;
    let chances = chances.into_data().to_vec::<f32>()?;
    for row in 0..2 {
        println!("sequence {row}:");
        let of_row = row * K..(row + 1) * K;
        for (token, chance) in tokens[of_row.clone()].iter().zip(&chances[of_row.clone()]) {
            println!("    token {token:3} with {:5.1} %", 100.0 * chance);
        }
        let sum: f32 = chances[of_row].iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "chances add up to {sum}");
    }
    let (all, _) = sort(logits, true)?;
    let first = all.slice([0..2, 0..K]).into_data();
    assert_eq!(first, best.into_data(), "the top k are the first of all");
    Ok(())
}
