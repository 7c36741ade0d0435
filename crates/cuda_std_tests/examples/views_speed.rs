//! Matrix products through pointers and through safe views, side by side: milliseconds and ratio.
//!
//! `cargo run --release -p cuda_std_tests --example views_speed [SIZE]`; the emulator's times say nothing.

use contracts_kernels::gemm;
use cuda_std_tests::{on_gpu, poisoned, upload};
use ferrowarp::{AsStream, DeviceBuffer, GpuResult};

cuda_std_tests::device!("contracts");

/// Rounds, in which the kernels take turns; each is timed by itself.
const ROUNDS: usize = 30;

fn main() -> GpuResult<()> {
    let default = if on_gpu() { 2048 } else { 64 };
    let size = std::env::args().nth(1).and_then(|size| size.parse().ok()).unwrap_or(default);
    println!("{}, {size} × {size} × {size}, f32", gpu().info().name);
    let matrix = |seed: usize| -> Vec<f32> {
        (0..size * size).map(|i| ((i * 31 + seed) % 17) as f32 - 8.0).collect()
    };
    let (a, b) = (upload(gpu(), &matrix(3)), upload(gpu(), &matrix(5)));
    let mut c = poisoned::<f32>(gpu(), size * size);
    type Run<'a> = &'a dyn Fn(&mut DeviceBuffer<f32>) -> GpuResult<()>;
    let (naive, tiled) =
        (gemm::naive_views::grid_for(size, size), gemm::tiled_views::grid_for(size, size));
    let runs: [(&str, Run<'_>); 5] = [
        ("naive, pointers", &|c| {
            let (a, b, c) = (a.as_device_ptr(), b.as_device_ptr(), c.as_device_ptr());
            // SAFETY: the buffers have these sizes.
            unsafe { gemm::naive_pointers::launch(gpu(), naive, a, b, c, size, size, size) }
        }),
        ("naive, views", &|c| {
            gemm::naive_views::launch(gpu(), naive, &a, &b, size, &mut c.grid_mut(size, size)?)
        }),
        ("naive, checked at each access", &|c| {
            gemm::naive_checked::launch(gpu(), naive, &a, &b, size, &mut c.grid_mut(size, size)?)
        }),
        ("tiled, pointers", &|c| {
            let (a, b, c) = (a.as_device_ptr(), b.as_device_ptr(), c.as_device_ptr());
            // SAFETY: the buffers have these sizes.
            unsafe { gemm::tiled_pointers::launch(gpu(), tiled, a, b, c, size, size, size) }
        }),
        ("tiled, views", &|c| {
            gemm::tiled_views::launch(gpu(), tiled, &a, &b, size, &mut c.grid_mut(size, size)?)
        }),
    ];
    let mut times = [const { Vec::new() }; 5];
    for round in 0..=ROUNDS {
        for ((_, run), times) in runs.iter().zip(&mut times) {
            let ((), ms) = gpu().as_stream().time(|| run(&mut c))?;
            // The first round warms up.
            if round > 0 {
                times.push(ms);
            }
        }
    }
    for ((name, _), times) in runs.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let (least, median) = (times[0], times[times.len() / 2]);
        println!("{name:30} median {median:9.4} ms, least {least:9.4} ms");
    }
    let median = |i: usize| times[i][ROUNDS / 2];
    println!("naive: views / pointers   {:.4}", median(1) / median(0));
    println!("naive: checked / pointers {:.4}", median(2) / median(0));
    println!("tiled: views / pointers   {:.4}", median(4) / median(3));
    Ok(())
}
