//! What a node can do beside launching a kernel.

use super::*;

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
