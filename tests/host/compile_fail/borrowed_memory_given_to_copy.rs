//! A copy that can be forgotten takes no borrow, not even of page-locked memory.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, PinnedBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let pinned = PinnedBuffer::<u32>::zeroed(&gpu, 4)?;
    std::mem::forget(device.copy_from_pinned_async(&gpu, &pinned)?);
    Ok(())
}
