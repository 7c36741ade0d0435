//! A part of a buffer borrows it, so it cannot be used after the buffer's end.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let part = buffer.slice(1..);
    drop(buffer);
    part.to_vec().map(drop)
}
