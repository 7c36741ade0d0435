//! New values and new launches for the nodes of a graph that is ready.

use super::order::fill_at;
use super::*;

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

/// A driver that refuses a value is asked again: no launch uses the old one. A GPU's refuses nothing here.
#[test]
fn a_value_that_was_refused_is_given_before_the_next_launch() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(0)?);
    let node = builder.node("node");
    fill(&node, &mut a, 1)?;
    let mut graph = builder.build(a)?;
    let value = graph.parameter::<u32>(&node, "value")?;
    let (refused, calls) = injection::fail(1, 1, || graph.set(value, 7));
    let refuses = calls.iter().any(|call| call.function == "cuGraphExecKernelNodeSetParams");
    assert!(refused.is_err() == refuses, "{calls:?}");
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?, [7; LEN]);
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

/// A length beyond the buffer would let the kernel write anywhere.
#[test]
fn a_parameter_of_an_unsafe_kernel_is_set_by_unsafe_code_alone() -> GpuResult<()> {
    let (builder, a) = (builder(), words(0)?);
    let node = builder.node("words");
    fill_at(&node, a.as_device_ptr(), 7)?;
    let mut graph = builder.build(a)?;
    let len = graph.parameter::<u64>(&node, "len")?;
    let error = refused(graph.set(len, 2 * LEN as u64));
    assert_eq!(error, GraphError::UnsafeKernel { node: "words".to_owned(), kernel: "fill" });
    let line = "node `words` of the graph runs `fill`, whose launch is unsafe, since not every value of a \
                parameter is valid: use `relaunch`, or `set_unchecked`";
    assert_eq!(error.to_string(), line);
    // SAFETY: the buffer is longer.
    unsafe { graph.set_unchecked(len, 100) }?;
    graph.launch(gpu())?;
    let values = graph.wait()?.to_vec()?;
    assert_eq!((values[99], values[100]), (7, 0));
    // What was refused changed nothing.
    refused(graph.set(len, 200));
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?[100], 0);

    let (other, b) = (GraphBuilder::new(gpu()), words(0)?);
    fill_at(&other, b.as_device_ptr(), 7)?;
    let mut other = other.build(b)?;
    // SAFETY: as above.
    let error = refused(unsafe { other.set_unchecked(len, 100) });
    assert!(matches!(error, GraphError::OtherGraph { .. }), "{error}");
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
