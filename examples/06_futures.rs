//! Futures: sixteen tasks of an async executor share the device, each with a stream of its own.
//!
//! Any executor works, and no future has a thread of its own. A program without an executor can use
//! `ferrowarp::completion::block_on`.

use std::sync::Arc;

use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
use kernels_gpu::elementwise::vecadd;

/// Twice each value.
async fn doubled(gpu: Arc<Gpu>, values: Vec<f32>) -> GpuResult<Vec<f32>> {
    let stream = gpu.create_stream()?;
    let n = values.len();
    let mut x = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    let mut sum = DeviceBuffer::<f32>::zeroed(&stream, n)?;
    x.copy_from_vec(values).await?;
    vecadd::launch(&stream, LaunchConfig::for_num_elems(n), &x, &x, &mut sum)?;
    sum.to_vec_async().await
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gpu = Arc::new(Gpu::new()?);
    println!("device: {}", gpu.name());

    let executor = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    executor.block_on(async {
        let tasks: Vec<_> = (0..16)
            .map(|task| tokio::spawn(doubled(Arc::clone(&gpu), vec![task as f32; 10_000])))
            .collect();
        for (number, task) in tasks.into_iter().enumerate() {
            let result = task.await??;
            assert_eq!(result, vec![2.0 * number as f32; 10_000]);
        }
        println!("16 tasks on 2 threads have doubled 160000 values");
        Ok(())
    })
}
