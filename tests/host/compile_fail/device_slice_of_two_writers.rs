//! Nobody else reaches memory that is borrowed to be written.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let mut first = buffer.slice_mut(..3);
    let mut second = buffer.slice_mut(1..);
    first.clear()?;
    second.clear()
}
