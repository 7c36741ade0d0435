//! What cannot be a graph.

use super::*;

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
    assert!(error.to_string().contains("instead of an `Arc`"), "{error}");
    Ok(())
}

#[test]
fn nodes_that_cannot_be_are_refused() -> GpuResult<()> {
    let (builder, mut a) = (builder(), words(1)?);
    let (first, second) = (builder.node("first"), builder.node("second"));
    fill(&first, &mut a, 1)?;
    let error = refused(fill(&first, &mut a, 1));
    assert_eq!(error, GraphError::NodeAlreadySet { node: "first".to_owned() });
    fill(&second, &mut a, 2)?;
    first.after(&second)?;
    let error = refused(builder.clone().build(&mut a));
    let GraphError::Cycle { mut nodes } = error else { panic!("{error}") };
    nodes.sort();
    assert_eq!(nodes, ["first", "second"]);
    // Its nodes are gone with it.
    let error = refused(first.host(|| {}));
    assert!(
        matches!(error, GraphError::AlreadyBuilt { .. } | GraphError::NodeAlreadySet { .. }),
        "{error}"
    );
    let late = builder.node("late");
    assert_eq!(refused(late.host(|| {})), GraphError::AlreadyBuilt { node: "late".to_owned() });
    assert!(matches!(refused(late.after(&first)), GraphError::AlreadyBuilt { .. }));
    assert!(matches!(refused(builder.build(())), GraphError::AlreadyBuilt { .. }));

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
