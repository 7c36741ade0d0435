//! Unified memory: host and device use one array in turns, and no copy is written anywhere.
//!
//! `as_slice` and `as_mut_slice` wait for the kernels that use the memory, and the borrow keeps later ones away: host and
//! kernels cannot race.

use ferrowarp::memory::{MemoryAdvice, MemoryLocation};
use ferrowarp::{Gpu, GpuResult, LaunchConfig, UnifiedBuffer};
use kernels_gpu::elementwise::saxpy;

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let n = 100_000;
    let mut x = UnifiedBuffer::<f32>::zeroed(&gpu, n)?;
    let mut y = UnifiedBuffer::<f32>::zeroed(&gpu, n)?;

    // The host fills both arrays where they are.
    for (i, x) in x.as_mut_slice()?.iter_mut().enumerate() {
        *x = i as f32;
    }
    y.as_mut_slice()?.fill(1.0);

    // Where host and device may use managed memory at the same time, hints save page faults. They change no result.
    if gpu.info().concurrent_managed_access {
        let device = MemoryLocation::Device(gpu.info().ordinal);
        x.advise(MemoryAdvice::SetReadMostly)?;
        x.prefetch(device)?;
        y.prefetch(device)?;
    }

    // The device updates y, then the host reads it.
    saxpy::launch(&gpu, LaunchConfig::for_num_elems(n), 2.0, &x, &mut y)?;
    let result = y.as_slice()?;
    for (i, value) in result.iter().enumerate() {
        assert_eq!(*value, 2.0 * i as f32 + 1.0);
    }
    println!("device: {}", gpu.name());
    println!("y[{}] = {}, written by the device and read by the host", n - 1, result[n - 1]);
    Ok(())
}
