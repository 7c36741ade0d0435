//! The textbook's kernels with and without `unsafe`, side by side: medians of alternating runs.
//!
//! `cargo run --release -p cuda_std_tests --example safe_forms -- [LOG2 [SIDE [ROUNDS]]]`

use cuda_std::launch::{Grid1, Grid2};
use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use kernels_gpu::transpose::transpose_tiled;
use shared_kernels::{textbook, twins};

static IMAGES: &[Image] = ferrowarp::include_kernels!("shared.rs");

/// Milliseconds of one run.
fn time(gpu: &Gpu, run: &mut dyn FnMut() -> GpuResult<()>) -> GpuResult<f64> {
    Ok(gpu.stream().time(run)?.1)
}

/// Runs both in turns, each on its own stream, and prints their medians.
fn compare(
    [raw_gpu, safe_gpu]: [&Gpu; 2],
    rounds: usize,
    (name, bytes): (&str, usize),
    raw: &mut dyn FnMut() -> GpuResult<()>,
    safe: &mut dyn FnMut() -> GpuResult<()>,
) -> GpuResult<()> {
    let (mut raws, mut safes) = (Vec::new(), Vec::new());
    for round in 0..rounds + 3 {
        let (raw, safe) = (time(raw_gpu, raw)?, time(safe_gpu, safe)?);
        if round >= 3 {
            raws.push(raw);
            safes.push(safe);
        }
    }
    let [raw, safe] = [raws, safes].map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    });
    let rate = |ms: f64| bytes as f64 / ms / 1e6;
    println!(
        "{name:<10} unsafe {raw:9.4} ms {:7.0} GB/s   safe {safe:9.4} ms {:7.0} GB/s   safe/unsafe {:.4}",
        rate(raw),
        rate(safe),
        safe / raw
    );
    Ok(())
}

fn main() -> GpuResult<()> {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let mut next = |default| args.next().unwrap_or(default);
    let (n, side, rounds) = (1 << next(20), next(512), next(3));
    let gpu = &Gpu::with_images(IMAGES)?;
    let shipped = Gpu::new()?;
    println!("{n} elements, {side} × {side}, {rounds} rounds");

    let floats = vec![0.5f32; n.max(side * side)];
    let x = DeviceBuffer::from_slice(gpu, &floats[..n])?;
    let mut sums = [(); 2].map(|()| DeviceBuffer::from_slice(gpu, &vec![0.0f32; n.div_ceil(256)]));
    let [a, b] = &mut sums;
    let (a, b) = (a.as_mut().expect("memory"), b.as_mut().expect("memory"));
    let grid = Grid1::new(n.div_ceil(256) as u32);
    let mut raw = || twins::raw_reduce::launch(gpu, grid, &x, a);
    let mut safe = || textbook::reduce::launch(gpu, grid, &x, b);
    compare([gpu; 2], rounds, ("reduction", 4 * n), &mut raw, &mut safe)?;

    let x = DeviceBuffer::from_slice(gpu, &vec![1u32; n])?;
    let mut a = DeviceBuffer::from_slice(gpu, &vec![0u32; n])?;
    let mut b = DeviceBuffer::from_slice(gpu, &vec![0u32; n])?;
    let mut raw = || twins::raw_scan::launch(gpu, grid, &x, &mut a);
    let mut safe = || textbook::scan::launch(gpu, grid, &x, &mut b);
    compare([gpu; 2], rounds, ("scan", 8 * n), &mut raw, &mut safe)?;

    let matrix = |gpu| DeviceBuffer::from_slice(gpu, &floats[..side * side]);
    let (x, y, mut a, mut b) = (matrix(gpu)?, matrix(&shipped)?, matrix(gpu)?, matrix(&shipped)?);
    let (mut a, mut b) = (a.grid_mut(side, side)?, b.grid_mut(side, side)?);
    let tiles = side.div_ceil(textbook::TILE) as u32;
    let grid = Grid2::new(tiles, tiles);
    let mut raw = || twins::raw_transpose::launch(gpu, grid, &x, &mut a);
    let mut safe = || transpose_tiled::launch(&shipped, grid, &y, &mut b);
    compare([gpu, &shipped], rounds, ("transpose", 8 * side * side), &mut raw, &mut safe)
}
