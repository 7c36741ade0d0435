//! Shipped kernels with rust-cuda's host crate: plain `cust`, and its memory in the library's operations.

use std::time::Instant;

use cust::launch;
use cust::memory::{CopyDestination, DeviceBox, DeviceBuffer, UnifiedBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use ferrowarp::Gpu;
use ferrowarp::cust::CustStream;
use ferrowarp::error::{GpuError, GpuResult};
use ferrowarp::module::best_image;
use ferrowarp::ops::{self, Scratch, reduce};
use ferrowarp::shipped::IMAGES;
use kernels_gpu::reduce::BLOCK;

use super::arrays::{HALF_ULP, elements, floats, sum_check, widened};
use super::{Check, Outcome, Scale};

/// Threads of a block of the element-wise kernels.
const THREADS: u32 = 256;
/// Blocks of the reduction, whose sums are one value on the device.
const SUMS: usize = 64;

/// `cust`'s module with a shipped kernel: the part of the shipped PTX that holds it.
fn module(gpu: &Gpu, kernel: &str) -> GpuResult<Module> {
    let missing = || GpuError::NoKernels { kernel: Some(kernel.to_owned()) };
    let image = best_image(IMAGES, gpu.compute_capability()).ok_or_else(missing)?;
    let parts = ptx_format::index::parts(image.ptx()).ok_or_else(missing)?;
    let has = |name: &String| name == kernel;
    let part = parts.iter().find(|part| part.kernels.iter().any(has)).ok_or_else(missing)?;
    Ok(Module::from_ptx(part.text(image.ptx()), &[])?)
}

/// Median time of five runs of `work`, which waits for the device, after one that warms up.
fn timed(mut work: impl FnMut() -> GpuResult<()>) -> GpuResult<std::time::Duration> {
    work()?;
    let mut times = Vec::new();
    for _ in 0..5 {
        let start = Instant::now();
        work()?;
        times.push(start.elapsed());
    }
    times.sort();
    Ok(times[2])
}

/// Plain `cust`: three `DeviceBuffer`s, a module and `launch!`.
pub(super) fn vecadd(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let _context = cust::quick_init()?;
    let (module, stream) = (module(gpu, "vecadd")?, Stream::new(StreamFlags::DEFAULT, None)?);
    let vecadd = module.get_function("vecadd")?;
    let (a, b) = (floats(n, 1), floats(n, 2));
    let (on_a, on_b) = (DeviceBuffer::from_slice(&a)?, DeviceBuffer::from_slice(&b)?);
    let out = DeviceBuffer::from_slice(&vec![0.0f32; n])?;
    let time = timed(|| {
        let grid = (n as u32).div_ceil(THREADS).max(1);
        // SAFETY: these are the kernel's parameters: each array is a pointer and a length.
        unsafe {
            launch!(vecadd<<<grid, THREADS, 0, stream>>>(
                on_a.as_device_ptr(), n, on_b.as_device_ptr(), n, out.as_device_ptr(), n
            ))?;
        }
        Ok(stream.synchronize()?)
    })?;
    let mut found = vec![0.0; n];
    out.copy_to(&mut found)?;
    let check = Check::exact(&found, &reference::vecadd::vecadd(&a, &b));
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

/// Plain `cust`: two `UnifiedBuffer`s, which the host fills and reads in place.
pub(super) fn saxpy(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let _context = cust::quick_init()?;
    let (module, stream) = (module(gpu, "saxpy")?, Stream::new(StreamFlags::DEFAULT, None)?);
    let saxpy = module.get_function("saxpy")?;
    let (x, y) = (floats(n, 3), floats(n, 4));
    let (mut on_x, mut on_y) = (UnifiedBuffer::from_slice(&x)?, UnifiedBuffer::from_slice(&y)?);
    let mut update = |alpha: f32| {
        let grid = (n as u32).div_ceil(THREADS).max(1);
        let (x, y) = (on_x.as_unified_ptr(), on_y.as_unified_ptr());
        // SAFETY: these are the kernel's parameters: each array is a pointer and a length.
        unsafe { launch!(saxpy<<<grid, THREADS, 0, stream>>>(alpha, x, n, y, n))? };
        Ok(stream.synchronize()?)
    };
    update(0.5)?;
    // Adds nothing, so that the result stays to be checked.
    let time = timed(|| update(0.0))?;
    let expected = reference::saxpy::saxpy(0.5, &x, &y);
    let check = Check::within(3.0 * HALF_ULP, widened(on_y.as_slice(), &expected));
    Ok(Outcome { size: elements(n), time, bytes: 12 * n, check, picture: None })
}

/// Plain `cust`: the sums of blocks in one `DeviceBox`, which the host adds up.
pub(super) fn reduce_tree(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    const KERNEL: &str = "reduce_tree_f32";
    let _context = cust::quick_init()?;
    let (module, stream) = (module(gpu, KERNEL)?, Stream::new(StreamFlags::DEFAULT, None)?);
    let reduce = module.get_function(KERNEL)?;
    let x = floats(n.min(SUMS * BLOCK as usize), 6);
    let on_x = DeviceBuffer::from_slice(&x)?;
    let sums = DeviceBox::new(&[0u32; SUMS])?;
    let time = timed(|| {
        let grid = (x.len() as u32).div_ceil(BLOCK).max(1);
        // SAFETY: these are the kernel's parameters: each array is a pointer and a length.
        unsafe {
            launch!(reduce<<<grid, BLOCK, 0, stream>>>(
                on_x.as_device_ptr(), x.len(), sums.as_device_ptr(), SUMS
            ))?;
        }
        Ok(stream.synchronize()?)
    })?;
    let mut words = [0; SUMS];
    sums.copy_to(&mut words)?;
    let found = words.into_iter().map(f32::from_bits).sum();
    let (check, size) = (sum_check(found, &x), elements(x.len()));
    Ok(Outcome { size, time, bytes: 4 * x.len(), check, picture: None })
}

/// The library's operations on all three kinds of `cust`'s memory, on a stream of `cust`.
pub(super) fn operations(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let _context = cust::quick_init()?;
    let stream = CustStream::new(gpu, Stream::new(StreamFlags::DEFAULT, None)?)?;
    let (x, y) = (floats(n, 3), floats(n, 4));
    let (on_x, mut on_y) = (UnifiedBuffer::from_slice(&x)?, DeviceBuffer::from_slice(&y)?);
    let (mut sum, mut scratch) = (DeviceBox::new(&0f32)?, Scratch::new(&stream)?);
    ops::saxpy(&stream, 0.5, &on_x, &mut on_y)?;
    let time = timed(|| reduce::sum_into(&stream, &on_y, &mut sum, &mut scratch))?;
    let check = sum_check(sum.as_host_value()?, &reference::saxpy::saxpy(0.5, &x, &y));
    Ok(Outcome { size: elements(n), time, bytes: 4 * n, check, picture: None })
}
