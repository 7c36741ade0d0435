//! The buffers that a graph has.

use super::*;

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
