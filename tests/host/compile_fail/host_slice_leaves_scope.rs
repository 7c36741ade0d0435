//! A kernel's plain host memory cannot be used after the scope that waits for it.

use ferrowarp::{Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let values = vec![1u32; 4];
    let slice = gpu.host_scope(|scope| scope.host_slice(&gpu, &values))?;
    drop(slice);
    Ok(())
}
