//! A rust-cuda program that moves one call at a time. Each step is a whole program, and all have one result.
//!
//! Before the first step it is like `12_cust`. Then the launch goes, then a loop on the host becomes an operation, then the
//! memory changes hands, and with the last step `cust` is gone. The kernels of the first and of the other steps compute the same.

use std::error::Error;

use cust::memory::DeviceBuffer;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::{launch, util::SliceExt};
use ferrowarp::cust::CustStream;
use ferrowarp::{Gpu, LaunchConfig, ops};
use kernels_gpu::elementwise::saxpy;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// What `build.rs` wrote by `copy_to`.
static PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.sm_80.ptx"));

fn main() -> Result<()> {
    let _context = cust::quick_init()?;
    // The same context, for the steps that use it.
    let gpu = Gpu::new()?;
    let x: Vec<f32> = (0..10_000).map(|i| (i % 100) as f32).collect();
    let sums = [
        ("cust alone", with_cust(&x)?),
        ("step 1, a typed launch", with_a_typed_launch(&gpu, &x)?),
        ("step 2, an operation", with_an_operation(&gpu, &x)?),
        ("step 3, memory taken over", with_memory_taken_over(&gpu, &x)?),
        ("step 4, without cust", without_cust(&gpu, &x)?),
    ];
    for (step, sum) in sums {
        println!("{step}: {sum}");
        assert_eq!(sum, x.iter().map(|x| 2.0 * x + 1.0).sum::<f32>());
    }
    Ok(())
}

/// The program before: names and arguments of the launch are checked by nobody.
fn with_cust(x: &[f32]) -> Result<f32> {
    let module = Module::from_ptx(PTX, &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
    let (on_x, on_y) = (x.as_dbuf()?, vec![1.0f32; x.len()].as_slice().as_dbuf()?);
    let saxpy = module.get_function("saxpy")?;
    let grid = (x.len() as u32).div_ceil(256);
    // SAFETY: the parameters are the kernel's (a slice is a pointer and a length), and `on_y` has as many elements as `on_x`.
    unsafe {
        launch!(saxpy<<<grid, 256, 0, stream>>>(
            2.0f32,
            on_x.as_device_ptr(),
            on_x.len(),
            on_y.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;
    Ok(on_y.as_host_vec()?.iter().sum())
}

/// The launch: a function with types, which takes `cust`'s memory and stream. It waits for the kernel.
fn with_a_typed_launch(gpu: &Gpu, x: &[f32]) -> Result<f32> {
    let stream = CustStream::new(gpu, Stream::new(StreamFlags::NON_BLOCKING, None)?)?;
    let (on_x, mut on_y) = (x.as_dbuf()?, vec![1.0f32; x.len()].as_slice().as_dbuf()?);
    saxpy::launch(&stream, LaunchConfig::for_num_elems(x.len()), 2.0, &on_x, &mut on_y)?;
    Ok(on_y.as_host_vec()?.iter().sum())
}

/// The loop on the host: an operation, which takes `cust`'s memory too.
fn with_an_operation(gpu: &Gpu, x: &[f32]) -> Result<f32> {
    let stream = CustStream::new(gpu, Stream::new(StreamFlags::NON_BLOCKING, None)?)?;
    let (on_x, mut on_y) = (x.as_dbuf()?, vec![1.0f32; x.len()].as_slice().as_dbuf()?);
    saxpy::launch(&stream, LaunchConfig::for_num_elems(x.len()), 2.0, &on_x, &mut on_y)?;
    Ok(ops::reduce::sum(&stream, &on_y)?)
}

/// The memory: `cust` has allocated it, and this library has it from then on. The launch does not wait any more.
fn with_memory_taken_over(gpu: &Gpu, x: &[f32]) -> Result<f32> {
    let (on_x, on_y) = (x.as_dbuf()?, DeviceBuffer::from_slice(&vec![1.0f32; x.len()])?);
    let on_x = ferrowarp::DeviceBuffer::from_cust(gpu, on_x)?;
    let mut on_y = ferrowarp::DeviceBuffer::from_cust(gpu, on_y)?;
    saxpy::launch(gpu, LaunchConfig::for_num_elems(x.len()), 2.0, &on_x, &mut on_y)?;
    Ok(ops::reduce::sum(gpu, &on_y)?)
}

/// The rest.
fn without_cust(gpu: &Gpu, x: &[f32]) -> Result<f32> {
    let on_x = ferrowarp::DeviceBuffer::from_slice(gpu, x)?;
    let mut on_y = ferrowarp::DeviceBuffer::from_slice(gpu, &vec![1.0f32; x.len()])?;
    saxpy::launch(gpu, LaunchConfig::for_num_elems(x.len()), 2.0, &on_x, &mut on_y)?;
    Ok(ops::reduce::sum(gpu, &on_y)?)
}
