//! A kernel's plain host value cannot be used after the scope that waits for it.

use ferrowarp::{Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let value = 1u32;
    let lent = gpu.host_scope(|scope| scope.host_ref(&gpu, &value))?;
    drop(lent);
    Ok(())
}
