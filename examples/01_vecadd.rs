//! Adds two vectors on the GPU, or on the emulator where there is no GPU.
//!
//! Run it with `cargo run --example 01_vecadd`. The kernel is one of those that ship with Ferrowarp; the
//! next example has a kernel of its own.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
use kernels_gpu::elementwise::vecadd;

fn main() -> GpuResult<()> {
    // The first device, with the shipped kernels. `FERROWARP_DEVICE=emulator` takes the emulator in any case.
    let gpu = Gpu::new()?;
    println!("device: {}", gpu.name());

    // Copy the inputs to the device, and allocate the output there.
    let n = 100_000;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let b: Vec<f32> = (0..n).map(|i| 0.5 * i as f32).collect();
    let on_a = DeviceBuffer::from_slice(&gpu, &a)?;
    let on_b = DeviceBuffer::from_slice(&gpu, &b)?;
    let mut on_sum = DeviceBuffer::<f32>::zeroed(&gpu, n)?;

    // One thread for each element. The launch is asynchronous; reading the result waits for it.
    vecadd::launch(&gpu, LaunchConfig::for_num_elems(n), &on_a, &on_b, &mut on_sum)?;
    let sum = on_sum.to_vec()?;

    for i in 0..n {
        assert_eq!(sum[i], a[i] + b[i]);
    }
    println!("{n} sums are right; the last one is {}", sum[n - 1]);
    Ok(())
}
