//! That a kernel has written all of the memory is a promise, which takes `unsafe`.

use ferrowarp::{Gpu, GpuResult, UninitBuffer};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let words = UninitBuffer::<u32>::new(&gpu, 4)?;
    assert_eq!(words.assume_init().to_vec()?, [0; 4]);
    Ok(())
}
