//! The demo of graphs.

use super::{Check, Outcome, Scale, timed};
use ferrowarp::Gpu;
use ferrowarp::error::GpuResult;
use ferrowarp::graph::{GraphBuilder, Scratch};
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::ops;

/// Launches in the graph.
const NODES: usize = 200;
/// Elements at most: small launches are what a graph is for.
const MOST: usize = 1 << 12;

/// Two rows of updates that know nothing of each other, and one kernel that adds up what they made.
pub(super) fn graph(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let n = n.min(MOST);
    // Whole numbers, so that no sum is rounded.
    let x: Vec<f32> = (0..n).map(|i| (i % 17) as f32 - 8.0).collect();
    let on_x = DeviceBuffer::from_slice(gpu, &x)?;
    let zeros = || DeviceBuffer::zeroed(gpu, n);
    let (mut up, mut down, mut sum) = (zeros()?, zeros()?, zeros()?);
    let builder = GraphBuilder::new(gpu);
    builder.capture(|| {
        for _ in 0..NODES / 2 {
            ops::saxpy(gpu, 1.0, &on_x, &mut up)?;
            ops::saxpy(gpu, -3.0, &on_x, &mut down)?;
        }
        ops::vecadd(gpu, &up, &down, &mut sum)
    })?;
    let mut graph = builder.build((on_x, up, down, sum))?;
    graph.launch(gpu)?;
    let check = Check::exact(&graph.wait()?.3.to_vec()?, &expected(&x));
    let time = timed(gpu, || graph.launch(gpu))?;
    let bytes = (NODES + 1) * 12 * n;
    Ok(Outcome {
        size: format!("{} launches of {n}", NODES + 1),
        time,
        bytes,
        check,
        picture: None,
    })
}

/// A graph of copies and maps in Graphviz's language: as it is recorded, and optimised, with the changes as comments.
///
/// # Errors
/// What the driver returns.
pub fn drawn(gpu: &Gpu) -> GpuResult<String> {
    let zeros = || DeviceBuffer::<f32>::zeroed(gpu, MOST);
    let (x, mut loaded, mut magnitude) = (zeros()?, zeros()?, zeros()?);
    let (mut negative, mut scaled, mut y) = (zeros()?, zeros()?, zeros()?);
    let builder = GraphBuilder::new(gpu);
    builder.node("load").copy(&x, &mut loaded)?;
    builder.capture(|| {
        ops::map::abs(gpu, &loaded, &mut magnitude)?;
        ops::map::negate(gpu, &magnitude, &mut negative)?;
        ops::map::scale(gpu, 0.5, &negative, &mut scaled)
    })?;
    builder.node("store").copy(&scaled, &mut y)?;
    let scratch = Scratch::new([loaded, magnitude, negative, scaled]);
    let (graph, changes) = builder.optimize((x, scratch, y))?;
    let comments = changes.to_string().replace('\n', "\n// ");
    Ok(format!("{}// {comments}\n{}", changes.dot_before(), graph.to_dot()))
}

fn expected(x: &[f32]) -> Vec<f32> {
    let (mut up, mut down) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for _ in 0..NODES / 2 {
        up = reference::saxpy::saxpy(1.0, x, &up);
        down = reference::saxpy::saxpy(-3.0, x, &down);
    }
    reference::vecadd::vecadd(&up, &down)
}
