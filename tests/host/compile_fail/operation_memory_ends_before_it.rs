//! Memory that an operation has borrowed lives until the operation has run.

use ferrowarp::operation::{DeviceOperation, download};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let values = {
        let buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
        download(&buffer)
    };
    values.sync_on(&gpu).map(drop)
}
