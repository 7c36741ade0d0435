//! Functors whose kernels are not listed: the error says which line to write.
#![forbid(unsafe_code)]

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, ops};
use kernels_gpu::functor::Functor;

#[derive(Clone, Copy)]
struct Scale {
    by: f32,
}

impl Functor<f32> for Scale {
    type Output = f32;

    fn apply(self, x: f32) -> f32 {
        self.by * x
    }
}

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let x = DeviceBuffer::<f32>::zeroed(&gpu, 4)?;

    ops::map(&gpu, Scale { by: 2.0 }, &x)?;
    ops::zip(&gpu, Scale { by: 2.0 }, &x, &x)?;
    ops::reduce::by(&gpu, Scale { by: 2.0 }, &x)?;
    ops::select::by(&gpu, ops::select::Where(Scale { by: 2.0 }), &x)?;
    ops::select::by(&gpu, Scale { by: 2.0 }, &x)?;
    Ok(())
}
