//! Shared memory: a moving average, for which each block loads its elements once and all its threads read them.
//!
//! The kernel is `kernels/src/shared_memory.rs`. Its type says that blocks have 256 threads, so the launch gives the number of
//! blocks alone, and nothing but a barrier makes the shared tile readable: a missing one does not compile.

use std::f32::consts::TAU;

use ferrowarp::{DeviceBuffer, Gpu, GpuResult};
use kernels::{RADIUS, average};

fn main() -> GpuResult<()> {
    let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;

    // A sine with noise: what a moving average removes.
    let n = 10_000;
    let noise = |i: usize| (i * 7919 % 101) as f32 / 101.0 - 0.5;
    let x: Vec<f32> = (0..n).map(|i| (TAU * i as f32 / 1000.0).sin() + noise(i)).collect();

    let on_x = DeviceBuffer::from_slice(&gpu, &x)?;
    let mut on_out = DeviceBuffer::<f32>::zeroed(&gpu, n)?;
    average::launch(&gpu, average::grid_for(n), &on_x, &mut on_out)?;
    let smooth = on_out.to_vec()?;

    let mut largest_error = 0.0f32;
    for (i, average) in smooth.iter().enumerate() {
        let window = i.saturating_sub(RADIUS)..(i + RADIUS + 1).min(n);
        let expected = x[window].iter().sum::<f32>() / (2 * RADIUS + 1) as f32;
        largest_error = largest_error.max((average - expected).abs());
    }
    // Seven additions and a division, each rounded once, of values below 1.5.
    assert!(largest_error < 1e-5, "largest error: {largest_error}");

    let roughness = |x: &[f32]| x.windows(2).map(|w| (w[1] - w[0]).abs()).sum::<f32>() / n as f32;
    println!("device: {}", gpu.name());
    println!(
        "mean step between neighbours: {:.3} before, {:.3} after",
        roughness(&x),
        roughness(&smooth)
    );
    Ok(())
}
