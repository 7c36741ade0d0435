//! Reading write-combined memory would be slow beyond measure, so there is no way to do so.

use ferrowarp::{Gpu, GpuResult, WriteCombined};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut frame = WriteCombined::<u32>::zeroed(&gpu, 4)?;
    frame.write(..).set(0, 1);
    assert_eq!(frame[0], 1);
    Ok(())
}
