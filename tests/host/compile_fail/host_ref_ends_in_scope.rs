//! A value that is lent lives longer than the scope.

use ferrowarp::{Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    gpu.host_scope(|scope| {
        let value = 1u32;
        scope.host_ref(&gpu, &value)?;
        Ok(())
    })
}
