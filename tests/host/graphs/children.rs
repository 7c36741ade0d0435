//! Graphs as nodes of others.

use super::*;

type Words = DeviceBuffer<u32>;

/// Churns `a`, and makes `b` one more.
fn churn_and_add(rounds: u32) -> GpuResult<Graph<(DeviceBox<u32>, Words, Words)>> {
    let (one, mut a, mut b) = (DeviceBox::new(gpu(), &1)?, words(1)?, words(0)?);
    let builder = builder();
    churn(&builder, &mut a, rounds)?;
    add(&builder.node("sum"), &one, &a, &mut b)?;
    builder.build((one, a, b))
}

#[test]
fn a_child_is_in_order_with_what_shares_its_memory() -> GpuResult<()> {
    let (mut child, mut other) = (churn_and_add(ROUNDS)?, words(7)?);
    let builder = builder();
    let nodes = ["fill", "other", "child", "read", "write"].map(|name| builder.node(name));
    let [first, beside, node, read, write] = &nodes;
    fill(first, &mut child.buffers_mut().1, 5)?;
    churn(beside, &mut other, ROUNDS)?;
    node.graph(&mut child)?;
    let (one, mut a, b) = child.into_buffers();
    read.copy(&b.slice(..1), &mut other.slice_mut(..1))?;
    churn(write, &mut a, 1)?;
    let mut graph = builder.build((one, a, b, other))?;
    assert_eq!(before(&graph, beside), [""; 0]);
    assert_eq!(before(&graph, node), ["fill"]);
    assert_eq!(before(&graph, read), ["other", "child"]);
    assert_eq!(before(&graph, write), ["child"]);
    assert!(graph.to_dot().contains("child\\na graph of 2 nodes"), "{}", graph.to_dot());
    for round in 1..4 {
        graph.launch(gpu())?;
        let (_, a, b, other) = graph.wait()?;
        let sum = churned(5, ROUNDS).wrapping_add(1);
        assert_eq!(a.to_vec()?, [churned(5, ROUNDS + 1); LEN]);
        assert_eq!(b.to_vec()?, [sum; LEN]);
        assert_eq!(other.slice(..2).to_vec()?, [sum, churned(7, round * ROUNDS)]);
    }
    Ok(())
}

#[test]
fn a_child_is_a_node_many_times_and_its_parent_a_child() -> GpuResult<()> {
    let (inner, mut a) = (builder(), words(1)?);
    churn(&inner, &mut a, 3)?;
    churn(&inner, &mut a, 4)?;
    let mut inner = inner.build(a)?;
    let middle = builder();
    (0..5).try_for_each(|_| middle.node("inner").graph(&mut inner))?;
    let mut middle = middle.build(inner.into_buffers())?;
    let outer = builder();
    (0..2).try_for_each(|_| outer.node("middle").graph(&mut middle))?;
    let mut outer = outer.build(middle.into_buffers())?;
    outer.launch(gpu())?;
    outer.launch(&gpu().create_stream()?)?;
    assert_eq!(outer.wait()?.to_vec()?, [churned(1, 2 * 2 * 5 * 7); LEN]);
    // Other memory reaches what is two graphs down.
    let old = std::mem::replace(outer.buffers_mut(), words(2)?);
    outer.launch(gpu())?;
    assert_eq!(outer.wait()?.to_vec()?, [churned(2, 2 * 5 * 7); LEN]);
    assert_eq!(old.to_vec()?, [churned(1, 2 * 2 * 5 * 7); LEN]);
    Ok(())
}

#[test]
fn buffers_of_a_child_are_exchanged_and_its_functions_follow() -> GpuResult<()> {
    let (mut a, mut shown) = (words(1)?, HostBuffer::<u32>::zeroed(gpu(), LEN)?);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let inner = builder();
    churn(&inner, &mut a, 1)?;
    inner.node("clear").clear(&mut a.slice_mut(..2))?;
    inner.node("show").copy(&a, &mut shown)?;
    let to = seen.clone();
    let see = move |values: &[u32]| to.lock().unwrap().push((values[0], values[LEN - 1]));
    inner.node("see").host_reads(&shown, see)?;
    let mut child = inner.build((a, shown))?;
    let outer = builder();
    outer.node("child").graph(&mut child)?;
    let mut graph =
        outer.build((words(20)?, HostBuffer::<u32>::zeroed(gpu(), LEN)?, child.into_buffers()))?;
    for other in [false, true, false] {
        if other {
            let (a, shown, own) = graph.buffers_mut();
            std::mem::swap(a, &mut own.0);
            std::mem::swap(shown, &mut own.1);
        }
        graph.launch(gpu())?;
    }
    graph.wait()?;
    let expected = [(0, churned(1, 1)), (0, churned(20, 1)), (0, churned(20, 2))];
    assert_eq!(*seen.lock().unwrap(), expected);
    Ok(())
}

#[test]
fn what_becomes_of_the_child_is_its_own_affair() -> GpuResult<()> {
    let mut a = words(1)?;
    let inner = builder();
    churn(&inner, &mut a, 3)?;
    let mut child = inner.build(a)?;
    let rounds = child.parameter::<u32>(&child.node("churn")?, "value")?;
    let outer = builder();
    outer.node("three").graph(&mut child)?;
    child.set(rounds, 4)?;
    outer.node("four").graph(&mut child)?;
    child.set(rounds, 100)?;
    let node = child.node("churn")?;
    child.launch(gpu())?;
    let mut graph = outer.build(child.into_buffers())?;
    // The child's nodes are not its parent's.
    let error = refused(graph.parameter::<u32>(&node, "value"));
    assert_eq!(error, GraphError::OtherGraph { node: "churn".to_owned() });
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.to_vec()?, [churned(1, 107); LEN]);
    Ok(())
}

#[test]
fn a_child_may_share_what_it_reads() -> GpuResult<()> {
    let (one, many) = (Arc::new(DeviceBox::new(gpu(), &1)?), Arc::new(words(6)?));
    let (mut first, inner) = (words(0)?, builder());
    add(&inner, &*one, &*many, &mut first)?;
    let mut child = inner.build((one.clone(), many.clone(), &mut first))?;
    let (outer, mut second) = (builder(), words(0)?);
    outer.node("child").graph(&mut child)?;
    add(&outer.node("beside"), &*one, &*many, &mut second)?;
    let mut graph = outer.build((one, many, child.into_buffers().2, second))?;
    assert_eq!(before(&graph, &graph.node("beside")?), [""; 0]);
    graph.launch(gpu())?;
    let (_, _, first, second) = graph.wait()?;
    assert_eq!((first.to_vec()?, second.to_vec()?), (vec![7; LEN], vec![7; LEN]));
    Ok(())
}

#[test]
fn memory_of_a_child_that_its_parent_cannot_use_is_refused() -> GpuResult<()> {
    let mut child = churn_and_add(1)?;
    let parent = |child: &mut Graph<_>| -> GpuResult<_> {
        let builder = builder();
        builder.node("child").graph(child)?;
        Ok(builder)
    };
    let error = refused(parent(&mut child)?.build(()));
    assert_eq!(error, GraphError::NotOwned { node: "child/churn".to_owned(), argument: "p" });
    let builder = parent(&mut child)?;
    let (one, a, b) = child.buffers();
    let error = refused(builder.build((one, a, b)));
    assert_eq!(error, GraphError::WritesShared { node: "child/churn".to_owned(), argument: "p" });
    let builder = parent(&mut child)?;
    let (one, mut a, b) = child.into_buffers();
    let error = refused(builder.build((&one, &mut a, Arc::new(b))));
    assert_eq!(error, GraphError::WritesShared { node: "child/sum".to_owned(), argument: "out" });
    Ok(())
}

#[test]
fn a_child_that_is_not_whole_is_refused() -> GpuResult<()> {
    let mut child = churn_and_add(1)?;
    let (builder, short) = (builder(), DeviceBuffer::zeroed(gpu(), 3)?);
    let node = builder.node("child");
    let whole = std::mem::replace(&mut child.buffers_mut().1, short);
    let error = refused(node.graph(&mut child));
    assert!(matches!(error, GraphError::BufferChanged { index: 1, .. }), "{error}");
    child.buffers_mut().1 = whole;
    let error = refused(builder.capture(|| node.graph(&mut child)));
    assert!(matches!(error, GraphError::NotCapturable { .. }), "{error}");
    node.graph(&mut child)?;
    assert_eq!(
        refused(node.graph(&mut child)),
        GraphError::NodeAlreadySet { node: "child".to_owned() }
    );
    let mut nothing = GraphBuilder::new(gpu()).build(())?;
    let none = builder.node("none");
    none.graph(&mut nothing)?;
    none.after(&node)?;
    let mut graph = builder.build(child.into_buffers())?;
    assert_eq!(before(&graph, &none), ["child"]);
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?, [churned(1, 1).wrapping_add(1); LEN]);
    Ok(())
}

#[test]
fn a_panic_in_a_child_names_its_node() -> GpuResult<()> {
    let inner = builder();
    inner.node("log").host(|| panic!("no room"))?;
    let mut child = inner.build(())?;
    let outer = builder();
    outer.node("child").graph(&mut child)?;
    let mut graph = outer.build(())?;
    graph.launch(gpu())?;
    let (node, message) = ("child/log".to_owned(), "no room".to_owned());
    assert_eq!(refused(graph.wait().map(drop)), GraphError::HostPanic { node, message });
    // The child itself has not run.
    child.wait()?;
    Ok(())
}
