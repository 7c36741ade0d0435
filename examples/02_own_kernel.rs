//! A kernel of one's own: which number below 100,000 has the longest Collatz sequence?
//!
//! A kernel lives in a crate of its own (`kernels/src/own_kernel.rs`). `build.rs` compiles that crate to PTX, and
//! `include_kernels!` embeds the PTX into this program. `ferrowarp new my-project` writes a project of this layout.

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig, ops};
use kernels::{collatz, steps};

fn main() -> GpuResult<()> {
    // A device with the kernels of this project, and the same device with the shipped kernels besides.
    let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;
    let with_ops = gpu.with_kernels(ferrowarp::shipped::IMAGES);

    let n = 100_000;
    let mut on_steps = DeviceBuffer::<u32>::zeroed(&gpu, n)?;
    collatz::launch(&gpu, LaunchConfig::for_num_elems(n), &mut on_steps)?;

    // A shipped operation on the result, which is still on the device.
    let longest = ops::reduce::argmax(&with_ops, &on_steps)?.expect("there are elements");

    // The kernel's arithmetic is a plain function, so the host can check all of it.
    let found = on_steps.to_vec()?;
    for (start, found) in (0..).zip(&found) {
        assert_eq!(*found, steps(start), "the sequence of {start}");
    }
    println!("device: {}", gpu.name());
    println!("below {n}, the sequence of {longest} is the longest: {} steps", found[longest]);
    Ok(())
}
