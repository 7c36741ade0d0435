//! A value that kernels write is not read until the scope has ended.

use ferrowarp::{Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let mut value = [1u32; 4];
    gpu.host_scope(|scope| {
        scope.host_ref_mut(&gpu, &mut value)?;
        assert_eq!(value[0], 1);
        Ok(())
    })
}
