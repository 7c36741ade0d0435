//! A rust-cuda program: plain `cust` on the host, and a kernel with raw pointers (`kernels/src/cust.rs`).
//!
//! No type of `ferrowarp` is used. `cuda_driver` has the driver functions that `cust` links to: it calls the installed
//! driver, or the emulator where there is none.

use std::error::Error;

use cust::memory::CopyDestination;
use cust::module::Module;
use cust::stream::{Stream, StreamFlags};
use cust::{launch, util::SliceExt};

// Nothing names this crate, so it is linked by this line.
extern crate cuda_driver as _;

/// What `build.rs` wrote by `copy_to`.
static PTX: &str = include_str!(concat!(env!("OUT_DIR"), "/kernels.sm_80.ptx"));

fn main() -> Result<(), Box<dyn Error>> {
    let _context = cust::quick_init()?;
    let module = Module::from_ptx(PTX, &[])?;
    let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;

    let n = 10_000usize;
    let x: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let on_x = x.as_slice().as_dbuf()?;
    let on_y = vec![1.0f32; n].as_slice().as_dbuf()?;

    let saxpy = module.get_function("saxpy")?;
    let (_, block) = saxpy.suggested_launch_configuration(0, 0.into())?;
    let grid = (n as u32).div_ceil(block);
    // SAFETY: the parameters are the kernel's (a slice is a pointer and a length), and `on_y` has `n` elements.
    unsafe {
        launch!(saxpy<<<grid, block, 0, stream>>>(
            2.0f32,
            on_x.as_device_ptr(),
            on_x.len(),
            on_y.as_device_ptr()
        ))?;
    }
    stream.synchronize()?;

    let mut y = vec![0.0f32; n];
    on_y.copy_to(&mut y)?;
    for (x, y) in x.iter().zip(&y) {
        assert_eq!(*y, 2.0 * x + 1.0);
    }
    println!("{n} values are right; the last one is {}", y[n - 1]);
    Ok(())
}
