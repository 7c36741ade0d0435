//! Memory that is not written yet has no values to copy to the host.

use ferrowarp::{Gpu, GpuResult, UninitBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let words = UninitBuffer::<u32>::new(&gpu, 4)?;
    assert_eq!(words.to_vec()?, [0; 4]);
    Ok(())
}
