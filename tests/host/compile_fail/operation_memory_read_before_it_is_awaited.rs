//! What a future has borrowed to write is not read before it is done.

use ferrowarp::completion::block_on;
use ferrowarp::operation::{DeviceOperation, fill};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut buffer = DeviceBuffer::<u32>::zeroed(&gpu, 4)?;
    let filled = fill(&mut buffer, 7).async_on(&gpu);
    assert_eq!(buffer.to_vec()?, [7; 4]);
    block_on(filled).map(drop)
}
