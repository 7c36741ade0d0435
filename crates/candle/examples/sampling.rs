//! One step of a small language model's head: a norm, a product with the vocabulary, and the choice among the most probable tokens.
//!
//! Norm, softmax and top-k are Ferrowarp's, on the emulator or on a GPU; the product is candle's. Run it with `cargo run --example sampling`.

use candle_core::{D, Device, Result, Tensor};
use ferrowarp_candle::{rms_norm, softmax_last_dim, top_k_last_dim};

const WIDTH: usize = 64;
const TOKENS: usize = 1000;
/// Tokens that are chosen from.
const K: usize = 5;

/// A matrix of numbers between -1 and 1.
fn numbers(rows: usize, columns: usize, device: &Device) -> Result<Tensor> {
    let n = rows * columns;
    let values = (0..n).map(|i| ((i * 7919) % 2003) as f32 / 1001.0 - 1.0).collect();
    Tensor::from_vec::<_, f32>(values, (rows, columns), device)
}

fn main() -> Result<()> {
    let device = Device::cuda_if_available(0)?;
    let state = numbers(2, WIDTH, &device)?;
    let scale = Tensor::ones(WIDTH, candle_core::DType::F32, &device)?;
    let vocabulary = numbers(WIDTH, TOKENS, &device)?;

    let logits = rms_norm(&state, &scale, 1e-5)?.matmul(&vocabulary)?;
    let (best, tokens) = top_k_last_dim(&logits, K, true)?;
    let chances = softmax_last_dim(&best)?;

    for row in 0..2 {
        let tokens = tokens.get(row)?.to_vec1::<u32>()?;
        let chances = chances.get(row)?.to_vec1::<f32>()?;
        println!("sequence {row}:");
        for (token, chance) in tokens.iter().zip(&chances) {
            println!("    token {token:3} with {:5.1} %", 100.0 * chance);
        }
        let sum: f32 = chances.iter().sum();
        assert!((sum - 1.0).abs() < 1e-5, "chances add up to {sum}");
        assert!(chances.is_sorted_by(|a, b| a >= b), "the best comes first");
    }
    let (all, _) = ferrowarp_candle::sort_last_dim(&logits, false)?;
    let first = all.narrow(D::Minus1, 0, K)?.to_vec2::<f32>()?;
    assert_eq!(best.to_vec2::<f32>()?, first, "the top k are the first of all");
    Ok(())
}
