//! Prints the speed of the bf16 matrix product of the kernels' `gemm.rs`, for square matrices.

use cuda_std::bf16;
use cuda_std::launch::Grid2;
use cuda_std_tests::{done, poisoned, upload};
use ferrowarp::{Gpu, GpuResult, TensorView};
use hopper_kernels::gemm;

cuda_std_tests::device!("hopper");

fn main() -> GpuResult<()> {
    let gpu: &Gpu = gpu();
    println!("{} ({:?})", gpu.name(), gpu.backend());
    let sizes: Vec<usize> = match std::env::args().nth(1) {
        Some(size) => vec![size.parse().expect("a number of rows")],
        None => vec![4096, 8192],
    };
    for n in sizes {
        let value = |i: usize| {
            bf16::from_f32((i.wrapping_mul(2_654_435_761) >> 7 & 255) as f32 / 128.0 - 1.0)
        };
        let a = upload(gpu, &(0..n * n).map(value).collect::<Vec<_>>());
        let b = upload(gpu, &(0..n * n).map(|i| value(i + 77)).collect::<Vec<_>>());
        let c = poisoned::<f32>(gpu, n * n);
        let x = TensorView::new(a.as_slice(), [n, n])?;
        let rows = n.div_ceil(gemm::TILE) as u32;
        macro_rules! measure {
            ($kernel:ident, $columns:expr) => {
                let y = TensorView::new(b.as_slice(), [n, n])?;
                let grid = Grid2::new(n.div_ceil($columns) as u32, rows);
                // SAFETY: the matrices have these sizes, and `n` is even.
                let run = || unsafe {
                    gemm::$kernel::launch(gpu, grid, n, n, n, &x, &y, c.as_device_ptr())
                };
                let mut best = f64::INFINITY;
                for _ in 0..20 {
                    let ((), milliseconds) = gpu.time(run)?;
                    best = best.min(milliseconds);
                }
                let speed = 2.0 * (n as f64).powi(3) / best / 1e9;
                println!("{} {n}³: {best:.3} ms, {speed:.0} TFLOP/s", stringify!($kernel));
            };
        }
        measure!(gemm, gemm::COLUMNS);
        measure!(gemm_wide, gemm::WIDE);
    }
    done(gpu.synchronize());
    Ok(())
}
