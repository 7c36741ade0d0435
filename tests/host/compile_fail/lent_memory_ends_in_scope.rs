//! What is lent lives longer than the scope.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut device = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    gpu.host_scope(|scope| {
        let values = vec![1u32; 4];
        scope.upload(&gpu, &values, &mut device)
    })
}
