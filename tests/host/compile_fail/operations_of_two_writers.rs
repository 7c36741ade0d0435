//! Two branches do not write one buffer.

use ferrowarp::operation::{DeviceOperation, fill};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    fill(&mut buffer, 7).zip(fill(&mut buffer, 8)).sync_on(&gpu).map(drop)
}
