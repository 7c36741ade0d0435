//! The host's side as for rust-cuda: `cust`, `launch!`, and the module's globals.

use cust::memory::{CopyDestination, DeviceBuffer};
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::{launch, util::SliceExt};
use std::error::Error;
use std::ffi::CString;

// The driver's functions come from the front, as in the host crate.
extern crate ferrowarp as _;

static IMAGES: &[ferrowarp::module::Image] = ferrowarp::include_kernels!("compat.rs");

type Tested = Result<(), Box<dyn Error>>;

#[test]
fn a_kernel_starts_with_the_launch_macro() -> Tested {
    let _context = cust::quick_init()?;
    let module = Module::from_ptx(IMAGES[0].ptx(), &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let n = 1000usize;
    let a: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let (a_gpu, c) = (a.as_slice().as_dbuf()?, DeviceBuffer::<f32>::zeroed(n)?);
    let function = module.get_function("vecadd")?;
    let (_, block) = function.suggested_launch_configuration(0, 0.into())?;
    let grid = (n as u32).div_ceil(block);
    // SAFETY: pointer and length for each slice, and room for `n` sums.
    unsafe {
        launch!(function<<<grid, block, 0, stream>>>(
            a_gpu.as_device_ptr(), a_gpu.len(), a_gpu.as_device_ptr(), a_gpu.len(), c.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let mut sums = vec![0.0f32; n];
    c.copy_to(&mut sums)?;
    assert_eq!(sums, a.iter().map(|x| x + x).collect::<Vec<_>>());
    Ok(())
}

#[test]
fn the_host_fills_constant_memory() -> Tested {
    let _context = cust::quick_init()?;
    let module = Module::from_ptx(IMAGES[0].ptx(), &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let table: [u32; 32] = std::array::from_fn(|i| 1000 + i as u32);
    module.get_global::<[u32; 32]>(&CString::new("COMPAT_TABLE")?)?.copy_from(&table)?;
    let (weighted, out) = (DeviceBuffer::<f32>::zeroed(32)?, DeviceBuffer::<u32>::zeroed(32)?);
    let shift = 3usize;
    // SAFETY: one warp, and room for its results.
    unsafe {
        launch!(module.constants<<<1, 32, 0, stream>>>(
            shift, weighted.as_device_ptr(), out.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    let (mut sums, mut words) = ([0.0f32; 32], [0u32; 32]);
    weighted.copy_to(&mut sums)?;
    out.copy_to(&mut words)?;
    let weights = [1.0f32, 4.0, 6.0, 4.0, 1.0];
    assert_eq!(sums, std::array::from_fn(|i| weights[(i + shift) % 5]));
    assert_eq!(words, std::array::from_fn(|i| 2 * table[i ^ shift]));
    let mut total = 0u32;
    module.get_global::<u32>(&CString::new("COMPAT_TOTAL")?)?.copy_to(&mut total)?;
    assert_eq!(total, 6);
    Ok(())
}
