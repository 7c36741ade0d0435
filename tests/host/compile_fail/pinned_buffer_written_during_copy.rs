//! The copy owns the buffer until it is over.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, PinnedBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(&gpu, 4)?;
    let pending = device.copy_from_pinned_async(&gpu, pinned)?;
    pinned[0] = 1;
    pending.wait().map(drop)
}
