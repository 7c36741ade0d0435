//! A persistent kernel: it is launched once, stays on the device, and answers messages through two ring buffers.
//!
//! The kernel is `kernels/src/persistent_kernel.rs`. A question costs a trip over the bus instead of a launch and a wait.

use std::time::Instant;

use ferrowarp::{Bridge, Gpu, GpuResult, Grid1, PersistentKernel, Ring};
use kernels::squares;

fn main() -> GpuResult<()> {
    let gpu = Gpu::with_images(ferrowarp::include_kernels!())?;
    println!("device: {}", gpu.name());

    // 256 slots each way. The kernel polls host memory that is mapped into the device's address space.
    let (sender, requests) = Ring::to_device(&gpu, 256, Bridge::Mapped)?;
    let (replies, receiver) = Ring::to_host(&gpu, 256)?;
    let kernel = PersistentKernel::start(&gpu, |launcher| {
        squares::launch(launcher, Grid1::new(1), &requests, &replies)
    })?;

    // Question and answer.
    sender.send(&12)?;
    assert_eq!(receiver.recv()?, Some([12, 144]));

    // Many questions: up to 32 at a time are answered by the lanes of a warp.
    let count = 200;
    let begin = Instant::now();
    let questions: Vec<u32> = (0..count).collect();
    sender.send_all(&questions)?;
    for _ in 0..count {
        let [x, square] = receiver.recv()?.expect("the kernel runs");
        assert_eq!(square, x * x);
    }
    println!("{count} answers in {:.3} ms", begin.elapsed().as_secs_f64() * 1e3);

    // The kernel answers what is left in the ring, and ends.
    kernel.shut_down()?;
    Ok(())
}
