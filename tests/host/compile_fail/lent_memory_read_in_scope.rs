//! What is lent for a download is not read until the scope has ended.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, PinnedBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let mut pinned = PinnedBuffer::<u32>::zeroed(&gpu, 4)?;
    gpu.host_scope(|scope| {
        scope.download(&gpu, &device, &mut pinned)?;
        assert_eq!(pinned[0], 0);
        Ok(())
    })
}
