//! Elements that a kernel has no instance for: the error names the kernel, and which types it takes.
#![forbid(unsafe_code)]

use cuda_std::number::f16;
use ferrowarp::ops::{lower_bound, reduce, scan, sort};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let bytes = DeviceBuffer::<u8>::zeroed(&gpu, 4)?;
    let halves = DeviceBuffer::<f16>::zeroed(&gpu, 4)?;
    let quads = DeviceBuffer::<u128>::zeroed(&gpu, 4)?;

    reduce::sum(&gpu, &bytes)?;
    reduce::product(&gpu, &halves)?;
    lower_bound(&gpu, &halves, &halves)?;
    scan::inclusive(&gpu, &quads)?;
    sort::sort(&gpu, &quads, sort::SortOptions::ASCENDING)?;
    Ok(())
}
