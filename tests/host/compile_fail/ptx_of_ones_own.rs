//! A launcher believes that the kernel of its name is the one it was written for: nothing loads other PTX without a
//! word of the program.

use ferrowarp::module::Image;
use ferrowarp::reload::Watch;
use ferrowarp::{Gpu, GpuResult};

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

fn main() -> GpuResult<()> {
    let gpu = Gpu::with_images(&[Image::from_ptx("sm_80", PTX)])?;
    let hot = gpu.watch_ptx("kernels.ptx")?;
    hot.load_ptx(PTX)?;
    let _crate = gpu.watch_kernels("kernels")?;
    Watch::ptx("kernels.ptx").start(&gpu)?;
    Watch::kernel_crate("kernels").start(&gpu)?;
    Ok(())
}
