//! The order of a graph: found from what its nodes read and write.

use super::*;

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

/// Sets `LEN` words at an address.
pub(super) fn fill_at(
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
