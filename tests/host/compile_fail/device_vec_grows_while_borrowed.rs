//! A part of a vector that is borrowed would be left behind where the vector moves.

use ferrowarp::{DeviceVec, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut words = DeviceVec::from_slice(&gpu, &[1u32, 2, 3])?;
    let first = words.slice(..1);
    words.reserve(1000)?;
    assert_eq!(first.to_vec()?, [1]);
    Ok(())
}
