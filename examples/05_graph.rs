//! CUDA graphs: a hundred small launches as one, launched again with another parameter.
//!
//! Dependencies are inferred from the arguments: `&x` is read, `&mut y` is written. The graph owns its buffers.

use ferrowarp::graph::GraphBuilder;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
use kernels_gpu::elementwise::saxpy;

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let n = 4096;
    let config = LaunchConfig::for_num_elems(n);
    let x = DeviceBuffer::from_slice(&gpu, &vec![1.0f32; n])?;
    let mut y = DeviceBuffer::<f32>::zeroed(&gpu, n)?;

    // A builder, or one of its nodes, stands where a stream stands in a launch. Nothing runs yet.
    let builder = GraphBuilder::new(&gpu);
    let first = builder.node("first");
    saxpy::launch(&first, config, 1.0, &x, &mut y)?;
    for _ in 1..100 {
        saxpy::launch(&builder, config, 1.0, &x, &mut y)?;
    }
    let mut graph = builder.build((x, y))?;

    // y = 0 + 100 * 1
    graph.launch(&gpu)?;
    assert_eq!(graph.wait()?.1.to_vec()?, vec![100.0; n]);

    // A new parameter does not rebuild the graph: y = 100 + 901 + 99 * 1
    let alpha = graph.parameter::<f32>(&first, "alpha")?;
    graph.set(alpha, 901.0)?;
    graph.launch(&gpu)?;
    assert_eq!(graph.wait()?.1.to_vec()?, vec![1100.0; n]);

    // A graph launch against the launches one by one.
    let ((), as_graph) = gpu.time(|| graph.launch(&gpu))?;
    let (x, mut y) = graph.into_buffers();
    let ((), one_by_one) =
        gpu.time(|| (0..100).try_for_each(|_| saxpy::launch(&gpu, config, 1.0, &x, &mut y)))?;
    println!("device: {}", gpu.name());
    println!("100 launches: {one_by_one:.3} ms one by one, {as_graph:.3} ms as a graph");
    Ok(())
}
