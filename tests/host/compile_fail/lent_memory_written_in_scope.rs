//! What is lent for an upload is not written until the scope has ended.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, PinnedBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(&gpu, 4)?;
    gpu.host_scope(|scope| {
        scope.upload(&gpu, &pinned, &mut device)?;
        pinned[0] = 1;
        Ok(())
    })
}
