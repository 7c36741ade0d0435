//! Copies and barriers that do not wait.

use super::gpu::{Chance, Gpu};

fn gpu() -> Gpu {
    Gpu::new(include_str!("async.ptx"))
}

#[test]
fn pipeline_sums() {
    let gpu = gpu();
    let tiles = 5;
    let x = Chance(1).floats(tiles * 256, 1.);
    let out = gpu.buffer(&vec![0f32; tiles * 64]);
    gpu.run("pipeline_sums", 1, 64, &[&gpu.buffer(&x), &out, &(tiles as i32)]);
    let sum = |i: usize| {
        let v = &x[(i / 64 * 64 + 63 - i % 64) * 4..][..4];
        v[0] + v[1] + v[2] + v[3]
    };
    assert_eq!(out.read(), (0..tiles * 64).map(sum).collect::<Vec<_>>());
}

#[test]
fn group_copy() {
    let gpu = gpu();
    for n in [1usize, 31, 128, 301] {
        let x: Vec<i32> = (0..n as i32).map(|i| i * i).collect();
        let out = gpu.buffer(&vec![0i32; n]);
        gpu.launch("group_copy", (1, 64, 4 * n as u32), &[&gpu.buffer(&x), &out, &(n as i32)])
            .unwrap_or_else(|trap| panic!("{n}: {trap}"));
        assert_eq!(out.read(), x.into_iter().rev().collect::<Vec<_>>());
    }
}

#[test]
fn split_barrier() {
    let gpu = gpu();
    let x: Vec<i32> = (0..96).map(|i| i * 7 % 31).collect();
    let out = gpu.buffer(&[0i32; 96]);
    gpu.run("split_barrier", 1, 96, &[&gpu.buffer(&x), &out]);
    let expected: Vec<i32> = (0..96).map(|t| 3 + 6 * x[(t + 17) % 96]).collect();
    assert_eq!(out.read(), expected);
}
