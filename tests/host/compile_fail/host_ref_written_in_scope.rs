//! A value that kernels read is not written until the scope has ended.

use ferrowarp::{Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut value = [1u32; 4];
    gpu.host_scope(|scope| {
        scope.host_ref(&gpu, &value)?;
        value[0] = 2;
        Ok(())
    })
}
