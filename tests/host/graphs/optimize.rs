//! Optimised graphs: what goes, what stays, and that the results are those of the graph as it was recorded. The maps of `ops`
//! are in `tests/optimize.rs`.

use ferrowarp::graph::{Change, ForeignMemory, Optimization, Scratch};

use super::*;

/// The changes, as text.
fn texts(changes: &Optimization) -> Vec<String> {
    changes.changes().iter().map(Change::to_string).collect()
}

#[test]
fn a_copy_of_a_copy_reads_the_first_source() -> GpuResult<()> {
    let (a, mut b, mut c) = (words(7)?, words(0)?, words(0)?);
    let builder = builder();
    builder.node("in").copy(&a, &mut b)?;
    builder.node("out").copy(&b, &mut c)?;
    let (mut graph, changes) = builder.optimize((a, b, c))?;
    assert_eq!(texts(&changes), ["`out` reads what `in` copies"]);
    assert!(before(&graph, &graph.node("out")?).is_empty());
    graph.launch(gpu())?;
    // The host sees `b`, so that it is written too.
    let (_, b, c) = graph.wait()?;
    assert_eq!((b.to_vec()?, c.to_vec()?), (vec![7; LEN], vec![7; LEN]));
    Ok(())
}

#[test]
fn copies_through_scratch_are_one_copy() -> GpuResult<()> {
    let (a, mut b, mut c, mut d) = (words(7)?, words(0)?, words(0)?, words(1)?);
    let builder = builder();
    builder.node("first").copy(&a, &mut b)?;
    builder.node("second").copy(&b, &mut c)?;
    builder.node("third").copy(&c.slice(1..257), &mut d.slice_mut(..256))?;
    let (mut graph, changes) = builder.optimize((a, Scratch::new((b, c)), d))?;
    let nodes = |dot: &str| dot.matches("label").count();
    assert_eq!((nodes(changes.dot_before()), nodes(&graph.to_dot())), (3, 1));
    assert_eq!((graph.len(), changes.nodes_before()), (1, 3));
    assert!(texts(&changes).contains(&"`first` is removed".to_owned()), "{changes}");
    assert!(graph.node("second").unwrap_err().to_string().contains("it has `third`"));
    graph.buffers_mut().0.copy_from_host(&[9; LEN])?;
    graph.launch(gpu())?;
    let d = graph.wait()?.2.to_vec()?;
    assert_eq!((&d[..256], &d[256..]), (&[9; 256][..], &[1; LEN - 256][..]));
    // Other memory in its place is read and written.
    *graph.buffers_mut() = (words(3)?, Scratch::new((words(0)?, words(0)?)), words(4)?);
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?[255..257], [3, 4]);
    Ok(())
}

/// A copy whose source or whose result changes in between is no copy of the source any more.
#[test]
fn what_changes_in_between_keeps_a_copy() -> GpuResult<()> {
    for which in 0..4 {
        let (mut a, mut b, mut c) = (words(7)?, words(0)?, words(0)?);
        let builder = builder();
        builder.node("in").copy(&a, &mut b)?;
        match which {
            0 => builder.node("change").fill(&mut a.slice_mut(500..), 1)?,
            1 => churn(&builder.node("change"), &mut b.slice_mut(..1), 1)?,
            2 => builder.node("change").copy(&a.slice(..0), &mut b.slice_mut(..0))?,
            _ => {}
        }
        // Part of it was not copied, or it goes back.
        match which {
            3 => builder.node("out").copy(&b, &mut a)?,
            _ => builder.node("out").copy(&b, &mut c)?,
        }
        let (mut graph, changes) = builder.optimize((a, Scratch::new(b), c))?;
        let text = texts(&changes).join(", ");
        assert_eq!(text.contains("reads"), which == 2, "{which}: {text}");
        graph.launch(gpu())?;
        let (a, _, c) = graph.wait()?;
        let mut expected = [[7; LEN], [7; LEN], [7; LEN], [0; LEN]][which];
        if which == 1 {
            expected[0] = churned(7, 1);
        }
        assert_eq!(c.to_vec()?, expected, "{which}");
        assert_eq!(a.to_vec()?[..500], [7; 500]);
    }
    Ok(())
}

#[test]
fn what_nobody_reads_goes_and_what_somebody_reads_stays() -> GpuResult<()> {
    let one = DeviceBox::new(gpu(), &1)?;
    let (mut seen, mut over, mut scratch, mut kept) = (words(0)?, words(0)?, words(0)?, words(0)?);
    let builder = builder();
    builder.node("overwritten").fill(&mut over, 3)?;
    builder.node("overwriting").fill(&mut over, 4)?;
    fill(&builder.node("kernel for nobody"), &mut scratch.slice_mut(..100), 5)?;
    fill(&builder.node("kernel for sum"), &mut kept, 6)?;
    add(&builder.node("sum"), &one, &kept, &mut seen)?;
    churn(&builder.node("last"), &mut kept, 10)?;
    let empty = builder.node("empty");
    fill(&empty, &mut scratch.slice_mut(..0), 5)?;
    let (mut graph, changes) =
        builder.optimize((one, seen, over, Scratch::new((scratch, kept))))?;
    let mut text = texts(&changes);
    text.sort();
    let gone = ["empty", "kernel for nobody", "last", "overwritten"];
    // The kernel `fill` may read what it writes, so that `kept` is read by the next replay, and `last` stays.
    let gone = gone.iter().filter(|&&name| name != "last");
    assert_eq!(text, gone.map(|name| format!("`{name}` is removed")).collect::<Vec<_>>());
    for _ in 0..2 {
        graph.launch(gpu())?;
        let (_, seen, over, _) = graph.wait()?;
        assert_eq!((seen.to_vec()?, over.to_vec()?), (vec![7; LEN], vec![4; LEN]));
    }
    Ok(())
}

/// A sum that each replay reads before it writes it is read by the next replay.
#[test]
fn scratch_that_is_carried_over_stays() -> GpuResult<()> {
    let one = DeviceBox::new(gpu(), &1)?;
    let (mut out, mut carried, mut sum) = (words(0)?, words(0)?, words(0)?);
    let builder = builder();
    add(&builder, &one, &carried, &mut sum)?;
    builder.node("out").copy(&sum, &mut out)?;
    builder.node("carry").copy(&sum, &mut carried)?;
    let (mut graph, changes) = builder.optimize((one, out, Scratch::new((carried, sum))))?;
    assert!(changes.is_empty(), "{changes}");
    for round in 1..5 {
        graph.launch(gpu())?;
        assert_eq!(graph.wait()?.1.to_vec()?, [round; LEN]);
    }
    Ok(())
}

#[test]
fn host_callbacks_and_explicit_order_stay() -> GpuResult<()> {
    let calls = Arc::new(AtomicU32::new(0));
    let (mut a, mut b) = (words(0)?, HostBuffer::<u32>::zeroed(gpu(), LEN)?);
    let builder = builder();
    let [first, second, third] = ["first", "second", "third"].map(|name| builder.node(name));
    first.fill(&mut a, 3)?;
    let count = calls.clone();
    second.host(move || {
        count.fetch_add(1, Ordering::SeqCst);
    })?;
    second.after(&first)?;
    third.host_writes(&mut b, |values| values.fill(5))?;
    let (mut graph, changes) = builder.optimize(Scratch::new((a, b)))?;
    assert!(changes.is_empty() && graph.len() == 3, "{changes}");
    graph.launch(gpu())?;
    graph.wait()?;
    assert_eq!(calls.load(Ordering::SeqCst), 1);
    Ok(())
}

/// Reading the host's memory twice is no gain: once is.
#[test]
fn uploads_are_not_repeated() -> GpuResult<()> {
    for is_scratch in [false, true] {
        let input = HostBuffer::from_slice(gpu(), &[4u32; LEN])?;
        let (mut device, mut out) = (words(0)?, words(0)?);
        let builder = builder();
        builder.node("upload").copy(&input, &mut device)?;
        builder.node("copy").copy(&device, &mut out)?;
        let len = if is_scratch {
            let (mut graph, _) = builder.optimize((input, Scratch::new(device), out))?;
            graph.launch(gpu())?;
            assert_eq!(graph.wait()?.2.to_vec()?, [4; LEN]);
            graph.len()
        } else {
            let (graph, changes) = builder.optimize((input, device, out))?;
            assert!(changes.is_empty(), "{changes}");
            graph.len()
        };
        assert_eq!(len, if is_scratch { 1 } else { 2 });
    }
    Ok(())
}

#[test]
fn a_changed_graph_refuses_other_launches_and_others_are_as_before() -> GpuResult<()> {
    let (mut a, mut b, mut c) = (words(0)?, words(0)?, words(0)?);
    let builder = builder();
    let (step, gone) = (builder.node("step"), builder.node("gone"));
    churn(&step, &mut a, 3)?;
    gone.fill(&mut b, 1)?;
    builder.node("child").copy(&a, &mut c)?;
    let (mut graph, changes) = builder.optimize((a, Scratch::new(b), c))?;
    assert_eq!(texts(&changes), ["`gone` is removed"]);
    let refusal = refused(graph.relaunch(&step, |node, buffers| churn(node, &mut buffers.0, 4)));
    assert_eq!(refusal, GraphError::Optimized { node: "step".to_owned() });
    let refusal = refused(graph.parameter::<u32>(&gone, "value"));
    assert!(refusal.to_string().contains("set the parameters when the node is made"), "{refusal}");
    // Its own parameters are its own.
    let rounds = graph.parameter::<u32>(&step, "value")?;
    graph.set(rounds, 5)?;
    graph.launch(gpu())?;
    assert_eq!(graph.wait()?.2.to_vec()?, [churned(0, 5); LEN]);
    // As a part of another graph it does the same.
    let parent = GraphBuilder::new(gpu());
    parent.node("part").graph(&mut graph)?;
    let mut parent = parent.build(graph.into_buffers())?;
    parent.launch(gpu())?;
    assert_eq!(parent.wait()?.2.to_vec()?, [churned(churned(0, 5), 5); LEN]);
    Ok(())
}

#[test]
fn work_of_other_libraries_cannot_be_looked_into() -> GpuResult<()> {
    let mut a = words(0)?;
    let builder = builder();
    let memory = ForeignMemory::new().writes(&mut a);
    let address = a.as_device_ptr().address();
    // SAFETY: it writes `a`, which the graph has.
    unsafe {
        builder.node("foreign").foreign(memory, |stream| {
            let code = cuda_driver::sys::cuMemsetD8Async(address, 1, 4, stream.as_raw().cast());
            assert_eq!(code, cuda_driver::sys::CUresult::CUDA_SUCCESS);
            Ok(())
        })?;
    }
    let error = refused(builder.optimize(a));
    assert_eq!(error, GraphError::NotOptimizable { node: "foreign".to_owned() });
    Ok(())
}

/// What a random graph does, twice: with the same nodes.
#[derive(Clone, Copy, Debug)]
enum Step {
    Fill { to: usize, start: usize, end: usize, value: u32 },
    Copy { from: usize, to: usize, start: usize, shift: usize, len: usize },
    Churn { to: usize, start: usize, end: usize },
    Add { from: usize, to: usize },
}

const BUFFERS: usize = 6;

fn record(
    builder: &GraphBuilder,
    steps: &[Step],
    one: &DeviceBox<u32>,
    all: &mut [DeviceBuffer<u32>],
) -> GpuResult<()> {
    for (at, &step) in steps.iter().enumerate() {
        let node = builder.node(format!("{at}"));
        match step {
            Step::Fill { to, start, end, value } => {
                node.fill(&mut all[to].slice_mut(start..end), value)?;
            }
            Step::Copy { from, to, start, shift, len } => {
                let [from, to] = all.get_disjoint_mut([from, to]).expect("two buffers");
                node.copy(&from.slice(start..start + len), &mut to.slice_mut(shift..shift + len))?;
            }
            Step::Churn { to, start, end } => churn(&node, &mut all[to].slice_mut(start..end), 3)?,
            Step::Add { from, to } => {
                let [from, to] = all.get_disjoint_mut([from, to]).expect("two buffers");
                add(&node, one, &*from, to)?;
            }
        }
    }
    Ok(())
}

/// Random graphs, each as it was recorded and optimised, in several replays: the buffers that the host sees are equal. The
/// last two are scratch.
#[test]
fn random_graphs_give_the_same_results() -> GpuResult<()> {
    let seed = std::env::var("FERROWARP_SEED").ok().and_then(|seed| seed.parse().ok());
    let mut state: u64 = seed.unwrap_or(20_261_125);
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let one = DeviceBox::new(gpu(), &1)?;
    let mut total = 0;
    for round in 0..40 {
        let steps: Vec<Step> = (0..1 + random(25))
            .map(|_| {
                let from = random(BUFFERS);
                let to = (from + 1 + random(BUFFERS - 1)) % BUFFERS;
                // Mostly whole buffers, which chains of copies need.
                let (start, end) =
                    if random(3) > 0 { (0, LEN) } else { (random(200), 300 + random(212)) };
                let len = end - start;
                match random(8) {
                    0 => Step::Churn { to, start, end },
                    1 | 2 => Step::Fill { to, start, end, value: random(1000) as u32 },
                    3 => Step::Add { from, to },
                    _ => Step::Copy { from, to, start, shift: random(LEN - len + 1), len },
                }
            })
            .collect();
        let fresh = || (0..BUFFERS as u32).map(words).collect::<GpuResult<Vec<_>>>();
        let split = |mut all: Vec<DeviceBuffer<u32>>| {
            let scratch = all.split_off(BUFFERS - 2);
            (&one, all, Scratch::new(scratch))
        };
        let (mut plain, mut optimised) = (fresh()?, fresh()?);
        let (first, second) = (builder(), builder());
        record(&first, &steps, &one, &mut plain)?;
        record(&second, &steps, &one, &mut optimised)?;
        let mut plain = first.build(split(plain))?;
        let (mut optimised, changes) = second.optimize(split(optimised))?;
        total += changes.len();
        for replay in 0..3 {
            plain.launch(gpu())?;
            optimised.launch(gpu())?;
            for (at, (expected, found)) in
                plain.wait()?.1.iter().zip(&optimised.wait()?.1).enumerate()
            {
                assert!(
                    expected.to_vec()? == found.to_vec()?,
                    "seed {seed:?}, graph {round}, replay {replay}, buffer {at}: {steps:#?}\n{changes}"
                );
            }
        }
    }
    assert!(total > 40, "{total} changes in 40 graphs");
    Ok(())
}
