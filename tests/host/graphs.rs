//! Graphs: the order that is found, replays, new parameters, captures, and what is refused. On the
//! emulator the race check judges the order: nodes that no edge orders count as unordered.

#[path = "graphs/buffers.rs"]
mod buffers;
#[path = "graphs/captures.rs"]
mod captures;
#[path = "graphs/children.rs"]
mod children;
#[path = "graphs/foreign.rs"]
mod foreign;
#[path = "graphs/nodes.rs"]
mod nodes;
#[path = "graphs/optimize.rs"]
mod optimize;
#[path = "graphs/order.rs"]
mod order;
#[path = "graphs/parameters.rs"]
mod parameters;
#[path = "graphs/refusals.rs"]
mod refusals;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use cuda_driver::injection;
use cuda_std::launch::{
    Args, Contract, DevicePtr, Kernel, Launch, LaunchConfig, Linear, Param, ParamKind,
};
use ferrowarp::graph::{Graph, GraphBuffers, GraphBuilder, GraphError, GraphNode, HostBuffer};
use ferrowarp::{DeviceBox, DeviceBuffer, Gpu, GpuError, GpuResult, UnifiedBuffer, graph_buffers};

use crate::kernels::{CHURN, FILL, IMAGES, add, churn, churned, fill, gpu, launch};

const LEN: usize = 512;
/// Enough that a kernel still runs when the host goes on.
const ROUNDS: u32 = 5_000;

fn words(value: u32) -> GpuResult<DeviceBuffer<u32>> {
    DeviceBuffer::from_slice(gpu(), &[value; LEN])
}

fn builder() -> GraphBuilder {
    GraphBuilder::new(gpu())
}

#[track_caller]
fn refused<T>(result: GpuResult<T>) -> GraphError {
    match result.err().expect("an error").root() {
        GpuError::Graph(error) => (**error).clone(),
        other => panic!("{other}"),
    }
}

fn before<B: GraphBuffers>(graph: &Graph<B>, node: &GraphNode) -> Vec<String> {
    graph.predecessors(node).unwrap().into_iter().map(str::to_owned).collect()
}

#[test]
fn a_graph_may_go_to_another_thread() {
    fn sent<T: Send + Sync>() {}
    sent::<Graph<DeviceBuffer<f32>>>();
    sent::<GraphBuilder>();
    sent::<GraphNode>();
}

#[test]
fn a_graph_is_launched_a_hundred_times() -> GpuResult<()> {
    let (one, mut a, mut b) = (DeviceBox::new(gpu(), &1)?, words(0)?, words(0)?);
    let builder = builder();
    add(&builder, &one, &a, &mut b)?;
    builder.node("back").copy(&b, &mut a)?;
    let mut graph = builder.build((one, a, b))?;
    let other = gpu().create_stream()?;
    for i in 0..100 {
        // Replays are in order with each other, whatever streams they are on.
        if i % 3 == 0 { graph.launch(&other)? } else { graph.launch(gpu())? }
    }
    assert_eq!(graph.wait()?.1.to_vec()?, [100; LEN]);
    Ok(())
}

#[test]
fn a_graph_is_drawn_with_its_names() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    let [first, last] = ["the \"first\"", "last"].map(|name| builder.node(name));
    launch(&first, &FILL, Linear::new(4, 128), &mut a, 1)?;
    last.clear(&mut a)?;
    let graph = builder.build(a)?;
    let expected = "digraph {\n    node [shape=box];\n    \
        n0 [label=\"the \\\"first\\\"\\nfill of 4×1×1 blocks of 128×1×1\"];\n    \
        n1 [label=\"last\\nfills 2048 bytes\"];\n    n0 -> n1;\n}\n";
    assert_eq!(graph.to_dot(), expected);
    assert_eq!(format!("{graph:?}"), "Graph(2 nodes, 1 edges)");
    Ok(())
}

#[test]
fn a_graph_keeps_its_gpu_and_its_kernels() -> GpuResult<()> {
    let own = Gpu::with_images(IMAGES)?;
    let (builder, mut a) = (GraphBuilder::new(&own), DeviceBuffer::from_slice(&own, &[1; LEN])?);
    churn(&builder, &mut a, ROUNDS)?;
    let mut graph = builder.build(a)?;
    let stream = own.create_stream()?;
    drop(own);
    graph.launch(&stream)?;
    drop(stream);
    assert_eq!(graph.wait()?.to_vec()?, [churned(1, ROUNDS); LEN]);
    Ok(())
}
