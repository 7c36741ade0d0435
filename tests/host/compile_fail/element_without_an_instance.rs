//! Elements that a kernel has no instance for: the error names the kernel, and which types it takes.
#![forbid(unsafe_code)]

use cuda_std::number::f16;
use ferrowarp::ops::{Scratch, histogram, lower_bound, map, reduce, scan, select, sort, spmv};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult};

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let bytes = DeviceBuffer::<u8>::zeroed(&gpu, 4)?;
    let halves = DeviceBuffer::<f16>::zeroed(&gpu, 4)?;
    let doubles = DeviceBuffer::<f64>::zeroed(&gpu, 4)?;
    let quads = DeviceBuffer::<u128>::zeroed(&gpu, 4)?;
    let mut out = DeviceBuffer::<u128>::zeroed(&gpu, 4)?;

    reduce::sum(&gpu, &bytes)?;
    reduce::product(&gpu, &halves)?;
    map::scale(&gpu, 2, &quads, &mut out)?;
    scan::by(&gpu, scan::Max, scan::Form::Inclusive, &doubles)?;
    scan::inclusive(&gpu, &quads)?;
    select::by(&gpu, select::Above(1.0), &doubles)?;
    lower_bound(&gpu, &halves, &halves)?;
    sort::sort(&gpu, &quads, sort::SortOptions::ASCENDING)?;
    histogram::Bins::<f64>::even(&gpu, 0.0..1.0, 4)?;
    let matrix = spmv::Csr::new(&gpu, 1, &[0], &[], &[0_u8; 0])?;
    spmv::spmv_into(&gpu, &matrix, &bytes, &mut DeviceBuffer::zeroed(&gpu, 4)?, &mut Scratch::new(&gpu)?)?;
    Ok(())
}
