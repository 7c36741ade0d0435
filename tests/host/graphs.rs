//! Graphs: the order that is found, replays, new parameters, captures, and what is refused. On the
//! emulator the race check judges the order: nodes that no edge orders count as unordered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

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
fn a_diamond_runs_in_its_order() -> GpuResult<()> {
    let (mut top, one) = (words(0)?, DeviceBox::new(gpu(), &1)?);
    let (mut left, mut right) = (words(0)?, words(0)?);
    let builder = builder();
    let nodes = ["top", "left", "right", "bottom"].map(|name| builder.node(name));
    churn(&nodes[0], &mut top, ROUNDS)?;
    add(&nodes[1], &one, &top, &mut left)?;
    add(&nodes[2], &one, &top, &mut right)?;
    let two = DeviceBox::new(gpu(), &2)?;
    let sum = builder.node("sum");
    // Reads what both arms wrote, and writes what both have read.
    add(&nodes[3], &two, &left, &mut top)?;
    add(&sum, &one, &right, &mut left)?;
    let mut graph = builder.build((top, left, right, one, two))?;
    assert!(before(&graph, &nodes[0]).is_empty());
    assert_eq!(before(&graph, &nodes[1]), ["top"]);
    assert_eq!(before(&graph, &nodes[2]), ["top"]);
    assert_eq!(before(&graph, &nodes[3]), ["left", "right"]);
    assert_eq!(before(&graph, &sum), ["bottom"]);
    let mut expected = 0;
    for _ in 0..3 {
        graph.launch(gpu())?;
        let step = churned(expected, ROUNDS).wrapping_add(1);
        expected = step.wrapping_add(2);
        let (top, left, right, ..) = graph.wait()?;
        assert_eq!(top.to_vec()?, [expected; LEN]);
        assert_eq!(left.to_vec()?, [step.wrapping_add(1); LEN]);
        assert_eq!(right.to_vec()?, [step; LEN]);
    }
    Ok(())
}

#[test]
fn three_levels_wait_for_each_other() -> GpuResult<()> {
    let one = DeviceBox::new(gpu(), &1)?;
    let mut levels: Vec<_> = (0..4).map(|_| words(0)).collect::<GpuResult<_>>()?;
    let builder = builder();
    churn(&builder, &mut levels[0], ROUNDS)?;
    for level in 1..4 {
        let (above, below) = levels.split_at_mut(level);
        add(&builder.node(format!("level {level}")), &one, &above[level - 1], &mut below[0])?;
    }
    let mut graph = builder.build((levels, one))?;
    graph.launch(gpu())?;
    let first = churned(0, ROUNDS);
    for (level, words) in graph.wait()?.0.iter().enumerate() {
        assert_eq!(words.to_vec()?, [first.wrapping_add(level as u32); LEN], "level {level}");
    }
    assert_eq!(before(&graph, &graph.node("level 3")?), ["level 2"]);
    Ok(())
}

#[test]
fn a_writer_waits_for_readers_and_parts_are_told_apart() -> GpuResult<()> {
    let (one, mut source, mut target) = (DeviceBox::new(gpu(), &1)?, words(5)?, words(0)?);
    let builder = builder();
    let nodes = ["read", "write", "first half", "second half", "both"].map(|n| builder.node(n));
    add(&nodes[0], &one, &source, &mut target)?;
    fill(&nodes[1], &mut source, 9)?;
    churn(&nodes[2], &mut target.slice_mut(..LEN / 2), ROUNDS)?;
    churn(&nodes[3], &mut target.slice_mut(LEN / 2..), 2 * ROUNDS)?;
    churn(&nodes[4], &mut target, 1)?;
    let mut graph = builder.build((one, source, target))?;
    assert_eq!(before(&graph, &nodes[1]), ["read"]);
    assert_eq!(before(&graph, &nodes[2]), ["read"]);
    assert_eq!(before(&graph, &nodes[3]), ["read"]);
    assert_eq!(before(&graph, &nodes[4]), ["first half", "second half"]);
    graph.launch(gpu())?;
    let (_, source, target) = graph.wait()?;
    assert_eq!(source.to_vec()?, [9; LEN]);
    assert_eq!(target.slice(..LEN / 2).to_vec()?, [churned(6, ROUNDS + 1); LEN / 2]);
    assert_eq!(target.slice(LEN / 2..).to_vec()?, [churned(6, 2 * ROUNDS + 1); LEN / 2]);
    Ok(())
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
fn copies_fills_and_the_host_are_nodes() -> GpuResult<()> {
    let mut words = words(3)?;
    let mut shown = UnifiedBuffer::<u32>::zeroed(gpu(), LEN)?;
    let calls = Arc::new(Mutex::new(Vec::new()));
    let builder = builder();
    churn(&builder, &mut words, ROUNDS)?;
    let [show, first, second, clear] =
        ["show", "first", "second", "clear"].map(|name| builder.node(name));
    show.copy(&words.slice(..8), &mut shown.as_device_slice_mut().slice_mut(..8))?;
    clear.clear(&mut words.slice_mut(4..))?;
    let (a, b) = (calls.clone(), calls.clone());
    second.host(move || b.lock().unwrap().push("second"))?;
    first.host(move || a.lock().unwrap().push("first"))?;
    second.after(&first)?;
    first.after(&clear)?;
    let mut graph = builder.build((words, shown))?;
    assert_eq!(before(&graph, &second), ["first"]);
    graph.launch(gpu())?;
    graph.launch(gpu())?;
    let (words, shown) = graph.wait()?;
    assert_eq!(*calls.lock().unwrap(), ["first", "second", "first", "second"]);
    assert_eq!(shown.as_slice()?[..4], [churned(3, 2 * ROUNDS); 4]);
    assert_eq!(shown.as_slice()?[4..8], [churned(0, ROUNDS); 4]);
    assert_eq!(words.to_vec()?[4..], [0; LEN - 4]);
    Ok(())
}

#[test]
fn host_memory_goes_in_and_comes_out() -> GpuResult<()> {
    let one = DeviceBox::new(gpu(), &1)?;
    let (input, mut device) = (HostBuffer::from_slice(gpu(), &[4u32; LEN])?, words(0)?);
    let (mut sum, mut output) = (words(0)?, HostBuffer::<u32>::zeroed(gpu(), LEN)?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let builder = builder();
    let [upload, double, download, look] =
        ["upload", "double", "download", "look"].map(|name| builder.node(name));
    upload.copy(&input, &mut device)?;
    add(&builder, &one, &device, &mut sum)?;
    download.copy(&sum, &mut output)?;
    double.host_writes(&mut output, |values: &mut [u32]| {
        values.iter_mut().for_each(|value| *value *= 2);
    })?;
    let shown = seen.clone();
    look.host_reads(&output, move |values: &[u32]| shown.lock().unwrap().push(values[LEN - 1]))?;
    let mut graph = builder.build((one, input, device, sum, output))?;
    assert_eq!(before(&graph, &double), ["download"]);
    assert_eq!(before(&graph, &look), ["double"]);
    for i in 0..6 {
        graph.buffers_mut().1.as_mut_slice()?.fill(i);
        graph.launch(gpu())?;
        if i == 3 {
            // Functions of the host see other memory, too.
            let other = HostBuffer::zeroed(gpu(), LEN)?;
            let old = std::mem::replace(&mut graph.buffers_mut().4, other);
            assert_eq!(old.as_slice()?, [2 * (i + 1); LEN]);
        }
    }
    assert_eq!(graph.wait()?.4.as_slice()?, [12; LEN]);
    assert_eq!(*seen.lock().unwrap(), [2, 4, 6, 8, 10, 12]);
    Ok(())
}

#[test]
fn fills_repeat_values_of_one_two_and_four_bytes() -> GpuResult<()> {
    let builder = builder();
    let mut bytes = DeviceBuffer::<u8>::zeroed(gpu(), 1001)?;
    let mut halves = DeviceBuffer::<u16>::zeroed(gpu(), 1002)?;
    let mut floats = DeviceBuffer::<f32>::zeroed(gpu(), 1003)?;
    builder.node("bytes").fill(&mut bytes.slice_mut(1..), 0xa5)?;
    builder.node("halves").fill(&mut halves, 0x1234)?;
    builder.node("floats").fill(&mut floats.slice_mut(..1000), -1.5)?;
    let mut graph = builder.build((bytes, halves, floats))?;
    graph.launch(gpu())?;
    let (bytes, halves, floats) = graph.wait()?;
    assert_eq!((bytes.to_vec()?[0], bytes.slice(1..).to_vec()?), (0, vec![0xa5; 1000]));
    assert_eq!(halves.to_vec()?, [0x1234; 1002]);
    assert_eq!(floats.slice(..1000).to_vec()?, [-1.5; 1000]);
    assert_eq!(floats.slice(1000..).to_vec()?, [0.0; 3]);
    Ok(())
}

#[test]
fn a_panic_on_the_host_is_told_once_and_the_rest_runs() -> GpuResult<()> {
    let mut buffer = words(1)?;
    let builder = builder();
    builder.node("log").host(|| panic!("no room for the log"))?;
    churn(&builder, &mut buffer, 1)?;
    let mut graph = builder.build(buffer)?;
    graph.launch(gpu())?;
    let error = refused(graph.wait().map(drop));
    let message = "no room for the log".to_owned();
    assert_eq!(error, GraphError::HostPanic { node: "log".to_owned(), message });
    assert_eq!(graph.wait()?.to_vec()?, [churned(1, 1); LEN]);
    Ok(())
}

#[test]
fn parameters_are_set_anew() -> GpuResult<()> {
    let (builder, mut a, mut b) = (builder(), words(0)?, words(0)?);
    let (first, second) = (builder.node("first"), builder.node("second"));
    fill(&first, &mut a, 1)?;
    fill(&second, &mut b, 2)?;
    let mut graph = builder.build((a, b))?;
    let value = graph.parameter::<u32>(&first, "value")?;
    for i in 10..40 {
        graph.set(value, i)?;
        graph.launch(gpu())?;
        // What is queued keeps the value that it had.
        graph.set(value, 0)?;
        let (a, b) = graph.wait()?;
        assert_eq!((a.to_vec()?[LEN - 1], b.to_vec()?[0]), (i, 2));
    }
    Ok(())
}

#[test]
fn what_is_no_parameter_is_refused() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(0)?);
    let (node, clear) = (builder.node("one"), builder.node("clear"));
    fill(&node, &mut a, 1)?;
    clear.clear(&mut a)?;
    let mut graph = builder.build(a)?;
    let error = refused(graph.parameter::<u32>(&node, "valve"));
    assert!(matches!(&error, GraphError::NoParameter { known, .. } if known == &["value"]));
    let line = "node `one` of the graph has no parameter `valve`; it has `value`";
    assert_eq!(error.to_string(), line);
    let error = refused(graph.parameter::<u64>(&node, "p"));
    assert!(matches!(error, GraphError::NoParameter { .. }), "{error}");
    let error = refused(graph.parameter::<u32>(&clear, "value"));
    assert!(matches!(error, GraphError::NoParameter { .. }), "{error}");
    let error = refused(graph.parameter::<f32>(&node, "value"));
    let (expected, found) = ("u32", "f32");
    let (named, parameter) = ("one".to_owned(), "value".to_owned());
    assert_eq!(error, GraphError::WrongType { node: named, parameter, expected, found });

    let (other, mut b) = (GraphBuilder::new(gpu()), words(0)?);
    let stranger = other.node("stranger");
    fill(&stranger, &mut b, 1)?;
    let error = refused(graph.parameter::<u32>(&stranger, "value"));
    assert_eq!(error, GraphError::OtherGraph { node: "stranger".to_owned() });
    let other = other.build(b)?;
    let value = other.parameter::<u32>(&stranger, "value")?;
    assert!(matches!(refused(graph.set(value, 1)), GraphError::OtherGraph { .. }));
    let error = refused(graph.node("three"));
    let known = ["one", "clear"].map(str::to_owned).to_vec();
    assert_eq!(error, GraphError::NoNode { node: "three".to_owned(), known });
    Ok(())
}

#[test]
fn a_kernel_is_launched_anew_on_its_node() -> GpuResult<()> {
    let (builder, mut a, mut b) = (builder(), words(0)?, words(0)?);
    let (node, other) = (builder.node("fill"), builder.node("other"));
    fill(&node, &mut a, 1)?;
    churn(&other, &mut b, 1)?;
    let mut graph = builder.build((a, b))?;
    graph.relaunch(&node, |node, (a, _)| fill(node, &mut a.slice_mut(..100), 7))?;
    graph.launch(gpu())?;
    let values = graph.wait()?.0.to_vec()?;
    assert_eq!((values[99], values[100]), (7, 0));
    // The part stays where it is in a buffer that takes the first one's place.
    drop(std::mem::replace(&mut graph.buffers_mut().0, words(4)?));
    graph.relaunch(&node, |node, (a, _)| fill(node, &mut a.slice_mut(50..), 8))?;
    drop(std::mem::replace(&mut graph.buffers_mut().0, words(5)?));
    graph.launch(gpu())?;
    let values = graph.wait()?.0.to_vec()?;
    assert_eq!((values[49], values[50], values[LEN - 1]), (5, 8, 8));

    let error = refused(graph.relaunch(&node, |node, (_, b)| fill(node, b, 7)));
    assert!(matches!(error, GraphError::OtherMemory { argument: "p", .. }), "{error}");
    let error = refused(graph.relaunch(&node, |node, (a, _)| churn(node, a, 7)));
    let named = "fill".to_owned();
    let (expected, found) = ("fill", "churn");
    assert_eq!(error, GraphError::OtherKernel { node: named.clone(), expected, found });
    let mut outside = words(0)?;
    let error = refused(graph.relaunch(&node, |node, _| fill(node, &mut outside, 7)));
    assert_eq!(error, GraphError::NotOwned { node: named.clone(), argument: "p" });
    let empty = Linear::new(0, 32);
    let error = refused(graph.relaunch(&node, |node, (a, _)| launch(node, &FILL, empty, a, 1)));
    assert_eq!(error, GraphError::EmptyGrid { node: named });
    // After all that it does what it did.
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.0.to_vec()?[LEN - 1], 8);
    Ok(())
}

#[test]
fn buffers_are_filled_and_exchanged_between_replays() -> GpuResult<()> {
    let (one, a, mut b) = (DeviceBox::new(gpu(), &1)?, words(1)?, words(0)?);
    let builder = builder();
    add(&builder, &one, &a, &mut b)?;
    churn(&builder, &mut b, ROUNDS)?;
    let mut graph = builder.build((one, a, b))?;
    let mut expected = 1u32;
    for _ in 0..6 {
        graph.launch(gpu())?;
        // The next replay reads what this one wrote, which may still run.
        let (_, a, b) = graph.buffers_mut();
        std::mem::swap(a, b);
        expected = churned(expected.wrapping_add(1), ROUNDS);
    }
    assert_eq!(graph.wait()?.1.to_vec()?, [expected; LEN]);
    graph.buffers_mut().1.copy_from_host(&[70; LEN])?;
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?, [churned(71, ROUNDS); LEN]);

    let short = DeviceBuffer::zeroed(gpu(), LEN - 1)?;
    let whole = std::mem::replace(&mut graph.buffers_mut().2, short);
    let error = refused(graph.launch(gpu()));
    let (expected, found) = (4 * LEN, 4 * LEN - 4);
    assert_eq!(error, GraphError::BufferChanged { index: 2, expected, found });
    graph.buffers_mut().2 = whole;
    graph.launch(gpu())?;
    assert_eq!(graph.into_buffers().2.to_vec()?, [churned(71, ROUNDS); LEN]);
    Ok(())
}

#[test]
fn the_number_of_buffers_stays() -> GpuResult<()> {
    let (builder, mut buffer) = (builder(), words(1)?);
    fill(&builder, &mut buffer, 2)?;
    let mut graph = builder.build(vec![buffer])?;
    let taken = graph.buffers_mut().pop();
    let error = refused(graph.launch(gpu()));
    assert_eq!(error, GraphError::BufferCount { expected: 1, found: 0 });
    assert_eq!(taken.expect("it was there").to_vec()?, [1; LEN]);
    Ok(())
}

#[test]
fn a_graph_may_be_dropped_while_it_runs() -> GpuResult<()> {
    let calls = Arc::new(AtomicU32::new(0));
    for _ in 0..8 {
        let (builder, mut gone, counter) = (builder(), words(1)?, calls.clone());
        let (slow, last) = (builder.node("slow"), builder.node("last"));
        churn(&slow, &mut gone, 4 * ROUNDS)?;
        last.host(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })?;
        last.after(&slow)?;
        let mut graph = builder.build(gone)?;
        graph.launch(gpu())?;
        drop(graph);
        // The same memory again, most likely.
        assert_eq!(words(5)?.to_vec()?, [5; LEN]);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 8);
    Ok(())
}

#[test]
fn two_graphs_run_on_two_streams() -> GpuResult<()> {
    let weights = Arc::new(words(3)?);
    let graph = || -> GpuResult<_> {
        let (one, mut own) = (DeviceBox::new(gpu(), &1)?, words(0)?);
        let builder = builder();
        add(&builder, &one, &*weights, &mut own)?;
        churn(&builder, &mut own, ROUNDS)?;
        builder.build((weights.clone(), one, own))
    };
    let mut graphs = [graph()?, graph()?];
    let streams = [gpu().create_stream()?, gpu().create_stream()?];
    for _ in 0..3 {
        for (graph, stream) in graphs.iter_mut().zip(&streams) {
            graph.launch(stream)?;
        }
    }
    for graph in &graphs {
        assert_eq!(graph.wait()?.2.to_vec()?, [churned(4, ROUNDS); LEN]);
    }
    // Kernels on other streams are in order with replays, too.
    let mut sum = words(0)?;
    graphs[0].launch(&streams[0])?;
    add(&streams[1], &graphs[0].buffers().1, &graphs[0].buffers().2, &mut sum)?;
    graphs[0].buffers_mut().2.clear()?;
    assert_eq!(sum.to_vec()?, [churned(4, ROUNDS).wrapping_add(1); LEN]);
    Ok(())
}

#[test]
fn a_graph_may_borrow_its_buffers() -> GpuResult<()> {
    let (one, a, mut b) = (DeviceBox::new(gpu(), &1)?, words(1)?, words(0)?);
    let builder = builder();
    add(&builder, &one, &a, &mut b.slice_mut(..))?;
    let mut graph = builder.build((&one, a.as_slice(), b.as_mut_slice()))?;
    graph.launch(&gpu().create_stream()?)?;
    // Even one that is never dropped is over before its buffers are used.
    std::mem::forget(graph);
    assert_eq!(b.to_vec()?, [2; LEN]);
    Ok(())
}

#[test]
fn memory_that_the_graph_does_not_have_is_refused() -> GpuResult<()> {
    let (one, a, mut b) = (DeviceBox::new(gpu(), &1)?, words(1)?, words(0)?);
    let nodes = |b: &mut DeviceBuffer<u32>| -> GpuResult<_> {
        let builder = builder();
        add(&builder.node("sum"), &one, &a, b)?;
        Ok(builder)
    };
    let error = refused(nodes(&mut b)?.build((&one, &a)));
    assert_eq!(error, GraphError::NotOwned { node: "sum".to_owned(), argument: "out" });
    let error = refused(nodes(&mut b)?.build((&a, &mut b)));
    assert_eq!(error, GraphError::NotOwned { node: "sum".to_owned(), argument: "one" });
    let error = refused(nodes(&mut b)?.build((&one, a.slice(1..), &mut b)));
    assert_eq!(error, GraphError::NotOwned { node: "sum".to_owned(), argument: "many" });
    let builder = nodes(&mut b)?;
    let error = refused(builder.build((&one, &a, &b)));
    assert_eq!(error, GraphError::WritesShared { node: "sum".to_owned(), argument: "out" });
    let builder = nodes(&mut b)?;
    let shared = Arc::new(b);
    let error = refused(builder.build((&one, &a, shared)));
    assert_eq!(error, GraphError::WritesShared { node: "sum".to_owned(), argument: "out" });
    assert!(error.to_string().contains("in place of an `Arc`"), "{error}");
    Ok(())
}

#[test]
fn nodes_that_cannot_be_are_refused() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    let (first, second) = (builder.node("first"), builder.node("second"));
    fill(&first, &mut a, 1)?;
    let error = refused(fill(&first, &mut a, 1));
    assert_eq!(error, GraphError::Taken { node: "first".to_owned() });
    fill(&second, &mut a, 2)?;
    first.after(&second)?;
    let error = refused(builder.clone().build(&mut a));
    let GraphError::Cycle { mut nodes } = error else { panic!("{error}") };
    nodes.sort();
    assert_eq!(nodes, ["first", "second"]);
    // Its nodes are gone with it.
    let error = refused(first.host(|| {}));
    assert!(matches!(error, GraphError::Built { .. } | GraphError::Taken { .. }), "{error}");
    let late = builder.node("late");
    assert_eq!(refused(late.host(|| {})), GraphError::Built { node: "late".to_owned() });
    assert!(matches!(refused(late.after(&first)), GraphError::Built { .. }));
    assert!(matches!(refused(builder.build(())), GraphError::Built { .. }));

    let builder = GraphBuilder::new(gpu());
    let (node, never) = (builder.node("node"), builder.node("never"));
    node.after(&never)?;
    node.host(|| {})?;
    let error = refused(node.after(&first));
    assert_eq!(error, GraphError::OtherGraph { node: "first".to_owned() });
    let error = refused(builder.build(()));
    assert_eq!(error, GraphError::Empty { node: "never".to_owned() });
    Ok(())
}

#[test]
fn launches_and_copies_are_checked_when_they_are_recorded() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    let wide = LaunchConfig { grid: (1, 1, 1), block: (2048, 1, 1), shared_mem_bytes: 0 };
    let error = launch(&builder, &FILL, wide, &mut a, 1).unwrap_err();
    assert!(matches!(error.root(), GpuError::LaunchTooLarge { kernel: "fill", .. }), "{error}");
    let short = DeviceBuffer::<u32>::zeroed(gpu(), 3)?;
    let error = builder.node("copy").copy(&short, &mut a).unwrap_err();
    let GpuError::SizeMismatch { expected: LEN, found: 3, .. } = error.root() else {
        panic!("{error}")
    };
    Ok(())
}

#[test]
fn what_has_no_elements_or_no_blocks_is_a_node_too() -> GpuResult<()> {
    let (builder, mut none, mut some) = (builder(), words(0)?, words(1)?);
    let mut empty = DeviceBuffer::<u32>::zeroed(gpu(), 0)?;
    let nodes = ["fill", "clear", "copy", "after"].map(|name| builder.node(name));
    launch(&nodes[0], &FILL, Linear::new(0, 32), &mut none, 1)?;
    nodes[1].clear(&mut empty)?;
    nodes[2].copy(&DeviceBuffer::<u32>::zeroed(gpu(), 0)?, &mut empty)?;
    launch(&nodes[3], &FILL, Linear::new(2, 256), &mut some, 7)?;
    nodes[3].after(&nodes[0])?;
    let mut graph = builder.build((empty, none, some))?;
    assert_eq!((graph.len(), graph.is_empty()), (4, false));
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?, [7; LEN]);
    let mut nothing = GraphBuilder::new(gpu()).build(())?;
    nothing.launch(gpu())?;
    nothing.wait()?;
    assert!(nothing.is_empty());
    Ok(())
}

/// `fill`, as an unsafe kernel that takes a pointer.
static FILL_AT: Kernel = Kernel {
    name: "fill",
    params: &[
        Param { name: "p", kind: ParamKind::Pointer, size_bytes: 8 },
        Param { name: "len", kind: ParamKind::Value, size_bytes: 8 },
        Param { name: "value", kind: ParamKind::Value, size_bytes: 4 },
    ],
    contract: Contract::NONE,
};

fn fill_at(
    on: &impl Launch<Error = GpuError>,
    pointer: DevicePtr<u32>,
    value: u32,
) -> GpuResult<()> {
    let mut args = Args::new();
    args.push_pointer(pointer);
    args.push_value(LEN as u64);
    args.push_value(value);
    // SAFETY: the arguments are those of `fill`; callers give memory of as many words.
    unsafe { on.launch(&FILL_AT, LaunchConfig::for_num_elems(LEN).into(), &args) }
}

#[test]
fn who_takes_a_pointer_is_between_all_others() -> GpuResult<()> {
    let (builder, mut a, mut b) = (builder(), words(0)?, words(0)?);
    let nodes = ["one", "other", "pointer", "behind"].map(|name| builder.node(name));
    churn(&nodes[0], &mut a, ROUNDS)?;
    churn(&nodes[1], &mut b, ROUNDS)?;
    fill_at(&nodes[2], a.as_device_ptr(), 6)?;
    churn(&nodes[3], &mut b, 1)?;
    let mut graph = builder.build((a, b))?;
    assert_eq!(before(&graph, &nodes[2]), ["one", "other"]);
    assert_eq!(before(&graph, &nodes[3]), ["pointer"]);
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.0.to_vec()?, [6; LEN]);
    // The pointer goes with the buffer.
    let old = std::mem::replace(&mut graph.buffers_mut().0, words(1)?);
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.0.to_vec()?, [6; LEN]);
    drop(old);

    let (builder, stray) = (GraphBuilder::new(gpu()), words(0)?);
    fill_at(&builder, stray.as_device_ptr(), 6)?;
    let error = refused(builder.build(()));
    assert_eq!(error, GraphError::NotOwned { node: "fill".to_owned(), argument: "p" });
    Ok(())
}

#[test]
fn a_capture_takes_launches_copies_and_fills() -> GpuResult<()> {
    let (one, mut a, mut b) = (DeviceBox::new(gpu(), &1)?, words(1)?, words(0)?);
    let (stream, other) = (gpu().create_stream()?, gpu().create_stream()?);
    let builder = stream.capture(|stream| {
        churn(stream, &mut a, ROUNDS)?;
        // On another stream, of buffers of a third one: the order is found all the same.
        add(&other, &one, &a, &mut b)?;
        a.copy_from_device(&b)?;
        b.slice_mut(1..).clear()?;
        a.slice_mut(5..).fill(17)?;
        a.slice_mut(..2).copy_from_device_on(&other, &b.slice(..2))?;
        fill(gpu(), &mut b.slice_mut(2..4), 9)
    })?;
    // Nothing has run.
    assert_eq!((a.to_vec()?, b.to_vec()?), (vec![1; LEN], vec![0; LEN]));
    let mut graph = builder.build((one, a, b))?;
    for pair in ["churn", "add", "copy", "clear"].windows(2) {
        assert_eq!(before(&graph, &graph.node(pair[1])?), [pair[0]]);
    }
    assert_eq!(graph.len(), 7);
    graph.launch(&stream)?;
    let sum = churned(1, ROUNDS).wrapping_add(1);
    let (_, a, b) = graph.wait()?;
    assert_eq!(a.to_vec()?[..6], [sum, 0, sum, sum, sum, 17]);
    assert_eq!(b.to_vec()?[..5], [sum, 0, 9, 9, 0]);
    let value = graph.parameter::<u32>(&graph.node("churn")?, "rounds");
    assert!(matches!(refused(value), GraphError::NoParameter { .. }));
    let value = graph.parameter::<u32>(&graph.node("churn")?, "value")?;
    graph.set(value, 1)?;
    graph.buffers_mut().1.copy_from_host(&[2; LEN])?;
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?[0], churned(2, 1).wrapping_add(1));
    Ok(())
}

#[test]
fn a_capture_refuses_what_would_happen_now() -> GpuResult<()> {
    let mut words = words(1)?;
    let unified = UnifiedBuffer::<u32>::zeroed(gpu(), 4)?;
    let stream = gpu().create_stream()?;
    let event = stream.record()?;
    let mut refusals = Vec::new();
    let mut note = |result: GpuResult<()>| match refused(result) {
        GraphError::NotCapturable { operation } => refusals.push(operation),
        other => panic!("{other}"),
    };
    stream.capture(|stream| {
        note(stream.synchronize());
        note(stream.is_idle().map(drop));
        note(stream.record().map(drop));
        note(stream.wait_for(&event));
        note(gpu().synchronize());
        note(event.synchronize());
        note(DeviceBuffer::<u32>::zeroed(stream, 4).map(drop));
        note(words.to_vec().map(drop));
        note(words.copy_from_host(&[0; LEN]));
        note(unified.as_slice().map(drop));
        note(stream.capture(|_| Ok(())).map(drop));
        Ok(())
    })?;
    assert_eq!(refusals.len(), 11);
    assert_eq!(refusals[..2], ["cuStreamSynchronize", "cuStreamQuery"]);
    let error = stream.capture(|stream| stream.synchronize()).unwrap_err().to_string();
    assert!(error.contains("cuStreamSynchronize cannot be captured: it would happen"), "{error}");
    // Neither an error nor a panic leaves the thread captured.
    let panicked = catch_unwind(AssertUnwindSafe(|| stream.capture(|_| panic!("in a capture"))));
    assert!(panicked.is_err());
    fill(&stream, &mut words, 3)?;
    assert_eq!(words.to_vec()?, [3; LEN]);
    Ok(())
}

#[test]
fn other_threads_work_on_while_one_captures() -> GpuResult<()> {
    let (stream, mut a, mut b) = (gpu().create_stream()?, words(1)?, words(1)?);
    let builder = stream.capture(|captured| {
        fill(captured, &mut a, 2)?;
        let other = || {
            fill(captured, &mut b, 3)?;
            b.to_vec()
        };
        let values = std::thread::scope(|scope| scope.spawn(other).join().expect("no panic"))?;
        assert_eq!(values, [3; LEN]);
        Ok(())
    })?;
    let mut graph = builder.build(a)?;
    graph.launch(&stream)?;
    assert_eq!(graph.wait()?.to_vec()?, [2; LEN]);
    Ok(())
}

#[test]
fn a_capture_is_a_part_of_a_graph() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    fill(&builder.node("first"), &mut a, 4)?;
    let n = builder.capture(|| churn(gpu(), &mut a, 1).map(|()| 5))?;
    fill(&builder.node("half"), &mut a.slice_mut(LEN / 2..), n)?;
    let mut graph = builder.build(a)?;
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?[LEN / 2 - 1..=LEN / 2], [churned(4, 1), 5]);
    Ok(())
}

struct State {
    values: DeviceBuffer<u32>,
    scratch: Option<Box<DeviceBuffer<u32>>>,
    steps: u32,
}
graph_buffers!(State { values, scratch });

#[test]
fn a_struct_of_buffers_belongs_to_a_graph() -> GpuResult<()> {
    let mut state = State { values: words(1)?, scratch: Some(Box::new(words(0)?)), steps: 0 };
    let (builder, one) = (builder(), DeviceBox::new(gpu(), &1)?);
    let State { values, scratch, .. } = &mut state;
    let scratch = scratch.as_mut().expect("it was put there");
    add(&builder, &one, values, &mut **scratch)?;
    builder.node("back").copy(&**scratch, values)?;
    let mut graph = builder.build((state, [one]))?;
    for _ in 0..4 {
        graph.launch(gpu())?;
        graph.buffers_mut().0.steps += 1;
    }
    let (state, _) = graph.wait()?;
    assert_eq!((state.steps, state.values.to_vec()?), (4, vec![5; LEN]));
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

#[test]
fn a_thousand_nodes_are_in_order() -> GpuResult<()> {
    let (builder, mut a, mut b) = (builder(), words(1)?, words(2)?);
    for _ in 0..500 {
        launch(&builder, &CHURN, Linear::new(1, 32), &mut a.slice_mut(..32), 1)?;
        launch(&builder, &CHURN, Linear::new(1, 32), &mut b.slice_mut(..32), 1)?;
    }
    let mut graph = builder.build((a, b))?;
    graph.launch(gpu())?;
    let (a, b) = graph.wait()?;
    assert_eq!((a.to_vec()?[31], b.to_vec()?[31]), (churned(1, 500), churned(2, 500)));
    Ok(())
}
