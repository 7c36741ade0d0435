//! Tensor cores and clusters. All operands are small integers, so every sum is exact and the order
//! of its terms does not matter.

use super::gpu::{Chance, Gpu};

fn gpu() -> Gpu {
    Gpu::new(include_str!("tensor.ptx"))
}

/// Whole numbers from -8 to 8.
fn small(chance: &mut Chance, count: usize) -> Vec<i32> {
    (0..count).map(|_| chance.below(17) as i32 - 8).collect()
}

/// The bits of a small whole number as a half.
fn f16(x: i32) -> u16 {
    let sign = if x < 0 { 0x8000 } else { 0 };
    match x.unsigned_abs() {
        0 => sign,
        x => sign | ((x.ilog2() + 15) << 10 | (x << (10 - x.ilog2()) & 0x3ff)) as u16,
    }
}

fn bf16(x: i32) -> u16 {
    ((x as f32).to_bits() >> 16) as u16
}

/// `a` by rows times `b` by columns.
fn product(a: &[i32], b: &[i32], (rows, columns, inner): (usize, usize, usize)) -> Vec<i32> {
    let dot = |row: usize, column: usize| {
        (0..inner).map(|k| a[row * inner + k] * b[column * inner + k]).sum()
    };
    (0..rows * columns).map(|i| dot(i / columns, i % columns)).collect()
}

#[test]
fn wmma_gemm() {
    let gpu = gpu();
    let n = 48;
    let mut chance = Chance(1);
    let (a, b) = (small(&mut chance, n * n), small(&mut chance, n * n));
    let halves = |x: &[i32]| gpu.buffer(&x.iter().map(|x| f16(*x)).collect::<Vec<_>>());
    let out = gpu.buffer(&vec![0f32; n * n]);
    gpu.run("wmma_gemm", [3, 3], 32, &[&halves(&a), &halves(&b), &out, &(n as i32)]);
    let expected: Vec<f32> = product(&a, &b, (n, n, n)).iter().map(|x| *x as f32).collect();
    assert_eq!(out.read(), expected);
}

#[test]
fn mma_bf16() {
    let gpu = gpu();
    let mut chance = Chance(2);
    let (a, b) = (small(&mut chance, 16 * 16), small(&mut chance, 8 * 16));
    let brains = |x: &[i32]| gpu.buffer(&x.iter().map(|x| bf16(*x)).collect::<Vec<_>>());
    let out = gpu.buffer(&[0f32; 128]);
    gpu.run("mma_bf16", 1, 32, &[&brains(&a), &brains(&b), &out]);
    let expected: Vec<f32> = product(&a, &b, (16, 8, 16)).iter().map(|x| *x as f32).collect();
    assert_eq!(out.read(), expected);
}

#[test]
fn mma_s8() {
    let gpu = gpu();
    let mut chance = Chance(3);
    let bytes = |chance: &mut Chance, count: usize| -> Vec<i32> {
        (0..count).map(|_| i32::from(chance.bits() as i8)).collect()
    };
    let (a, b) = (bytes(&mut chance, 16 * 32), bytes(&mut chance, 8 * 32));
    let words = |x: &[i32]| gpu.buffer(&x.iter().map(|x| *x as u8).collect::<Vec<_>>());
    let out = gpu.buffer(&[0i32; 128]);
    gpu.run("mma_s8", 1, 32, &[&words(&a), &words(&b), &out]);
    assert_eq!(out.read(), product(&a, &b, (16, 8, 32)));
}

#[test]
fn cluster_histogram() {
    let gpu = gpu();
    let x: Vec<u8> = Chance(4).words(3000).iter().map(|word| (word % 251) as u8).collect();
    let bins = gpu.buffer(&[9u32; 256]);
    gpu.run("cluster_histogram", 4, 64, &[&gpu.buffer(&x), &bins, &3000]);
    let mut expected = vec![0u32; 256];
    x.iter().for_each(|x| expected[usize::from(*x)] += 1);
    assert_eq!(bins.read(), expected);
}
