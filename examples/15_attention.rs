//! Attention over a cache of keys in pages, as when text is generated: two sequences of different lengths, a new query each, and pages that
//! lie in no order.

use cuda_std::bf16;
use ferrowarp::ops::attention::{Band, Heads, HeadsLayout, Options, attention};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

/// Heads of queries, those of keys that they share, and elements of a row.
const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const DEPTH: usize = 64;
/// Keys of a page, and pages of the cache.
const PAGE: usize = 16;
const PAGES: usize = 8;
/// Keys of each sequence, and its pages in order. A sequence has places for three pages in the table.
const LENGTHS: [u32; 2] = [37, 20];
const TABLE: [[u32; 3]; 2] = [[5, 0, 7], [2, 6, 0]];

/// `len` numbers in -1..1, the same on every run.
fn numbers(len: usize, seed: usize) -> Vec<bf16> {
    (0..len).map(|i| bf16::from_f32(((i + seed) * 7919 % 2000) as f32 / 1000.0 - 1.0)).collect()
}

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let (of_q, of_cache) = ([2, HEADS, 1, DEPTH], [PAGES, KV_HEADS, PAGE, DEPTH]);
    let q = numbers(2 * HEADS * DEPTH, 1);
    let (k, v) =
        (numbers(PAGES * KV_HEADS * PAGE * DEPTH, 2), numbers(PAGES * KV_HEADS * PAGE * DEPTH, 3));
    let [on_q, on_k, on_v] = [&q, &k, &v].map(|values| DeviceBuffer::from_slice(&gpu, values));
    let (on_q, on_k, on_v) = (on_q?, on_k?, on_v?);
    let lengths = DeviceBuffer::from_slice(&gpu, &LENGTHS)?;
    let table = DeviceBuffer::from_slice(&gpu, TABLE.as_flattened())?;

    let o = attention(
        &gpu,
        Heads::new(&on_q, HeadsLayout::by_head(of_q))?,
        Heads::new(&on_k, HeadsLayout::by_head(of_cache))?,
        Heads::new(&on_v, HeadsLayout::by_head(of_cache))?,
        Options::new().score(Band::CAUSAL).lengths(&lengths).pages(&table),
    )?
    .to_vec()?;

    // Check on the host: the results are means of numbers in -1..1, and weights and results are rounded to bf16, 2^-8 of them.
    let mut largest = 0.0_f32;
    for row in 0..2 * HEADS {
        let (sequence, head) = (row / HEADS, row % HEADS / (HEADS / KV_HEADS));
        let of_key = |of: &[bf16], key: usize| -> Vec<f32> {
            let page = TABLE[sequence][key / PAGE] as usize;
            let at = ((page * KV_HEADS + head) * PAGE + key % PAGE) * DEPTH;
            of[at..][..DEPTH].iter().map(|x| x.to_f32()).collect()
        };
        let weights: Vec<f32> = (0..LENGTHS[sequence] as usize)
            .map(|key| {
                q[row * DEPTH..][..DEPTH].iter().zip(of_key(&k, key)).map(|(q, k)| q.to_f32() * k)
            })
            .map(|products| (products.sum::<f32>() / 8.0).exp())
            .collect();
        let sum: f32 = weights.iter().sum();
        for (i, found) in o[row * DEPTH..][..DEPTH].iter().enumerate() {
            let expected: f32 = weights
                .iter()
                .enumerate()
                .map(|(key, weight)| weight / sum * of_key(&v, key)[i])
                .sum();
            largest = largest.max((found.to_f32() - expected).abs());
        }
    }
    assert!(largest < 1.0 / 64.0, "off by {largest}");
    println!("device: {}", gpu.name());
    println!("{} results over {LENGTHS:?} keys in pages: off by {largest:.4} at most", o.len());
    Ok(())
}
