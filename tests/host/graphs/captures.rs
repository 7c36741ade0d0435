//! Graphs of what a thread launches.

use super::*;

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
        a.slice_mut(..2).copy_from_device_on(&other, b.slice(..2))?;
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
    let event = stream.record_event()?;
    let mut refusals = Vec::new();
    let mut note = |result: GpuResult<()>| match refused(result) {
        GraphError::NotCapturable { operation } => refusals.push(operation),
        other => panic!("{other}"),
    };
    stream.capture(|stream| {
        note(stream.synchronize());
        note(stream.is_idle().map(drop));
        note(stream.record_event().map(drop));
        note(stream.wait_event(&event));
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
