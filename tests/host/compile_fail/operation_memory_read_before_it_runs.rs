//! What an operation has borrowed to write is not read before the operation has run.

use ferrowarp::operation::{DeviceOperation, fill};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let filled = fill(&mut buffer, 7);
    assert_eq!(buffer.to_vec()?, [7; 4]);
    filled.sync_on(&gpu).map(drop)
}
