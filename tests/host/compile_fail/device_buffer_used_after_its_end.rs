//! A buffer ends once, and is not used afterwards.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    drop(buffer);
    drop(buffer);
    Ok(())
}
