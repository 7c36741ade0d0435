//! The values of a download are not there when the next operation is made.

use ferrowarp::operation::{DeviceOperation, download, value};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    download(&buffer).then(|values| value(values[0])).sync_on(&gpu).map(drop)
}
