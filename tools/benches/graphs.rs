//! Many small kernels: launched one by one, and as a graph; beside CUDA C++ in the same run.
//!
//! Each kernel is a `saxpy` of 256 elements, so what is measured is what a launch and a node cost. The
//! peer (tools/peers/graph.cu) does the same where `nvcc` is on the machine.
//!
//! What a node's cost is made of: chains of kernels in a module of their own, of an empty one, one with
//! arguments, a `saxpy` and a copy that check as C++ does; all of them `fresh`, before the shipped ones are launched,
//! again after, and `beside all` shipped ones. `chain` and `copies` are the shipped kernels; the first can panic, and
//! C++'s `asserts` is its peer that can too. Kernels are loaded as they are launched, as in any program, until
//! `beside all`. The last rows are behind launches on a second stream: from then on the driver takes longer for each
//! node, of ours and of C++'s (book/src/graphs.md). Until there, kernels are launched on one stream alone.

#[path = "graphs/alone.rs"]
mod alone;
mod peers;

use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr;
use std::time::Instant;

use cuda_driver::Backend;
use cuda_driver::sys;
use ferrowarp::graph::{Graph, GraphBuilder, GraphNode};
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::module::best_image;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, Linear, Stream};
use kernels_gpu::elementwise::copy::copy_coalesced;
use kernels_gpu::elementwise::saxpy;
use kernels_gpu::stencil::{smooth, smooth_dependent};
use serde::Deserialize;

const PEER: &str = include_str!("../peers/graph.cu");
const USAGE: &str = "usage: graphs [NODES [ROUNDS]]";
/// Elements of each kernel, one a thread.
const N: usize = 256;
const ONE_BLOCK: Linear = Linear::new(1, N as u32);

/// Times of one thing, in microseconds for a launch or a node.
#[derive(Deserialize)]
struct Case {
    name: String,
    us: Vec<f64>,
}

/// What to measure: so many kernels, so many times.
#[derive(Clone, Copy)]
struct Plan {
    nodes: usize,
    rounds: usize,
}

impl Plan {
    fn from_args(backend: Option<Backend>) -> Result<Self, String> {
        let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
        let mut next = |default: usize| match args.next().map(|text| text.parse()) {
            None => Ok(default),
            Some(Ok(number)) if number > 0 => Ok(number),
            Some(_) => Err(USAGE.to_owned()),
        };
        let on_gpu = backend == Some(Backend::Cuda);
        let (nodes, rounds) = if on_gpu { (1000, 50) } else { (40, 5) };
        Ok(Self { nodes: next(nodes)?, rounds: next(rounds)? })
    }
}

/// Measures `run`, which gives microseconds, of which each of the kernels has a part.
fn measure(name: &str, plan: Plan, mut run: impl FnMut() -> GpuResult<f64>) -> GpuResult<Case> {
    for _ in 0..3 {
        run()?;
    }
    let us = (0..plan.rounds).map(|_| Ok(run()? / plan.nodes as f64)).collect::<GpuResult<_>>()?;
    Ok(Case { name: name.to_owned(), us })
}

/// The microseconds that `work` takes, and those until `gpu` is done with it.
fn times(gpu: &Gpu, work: impl FnOnce() -> GpuResult<()>) -> GpuResult<(f64, f64)> {
    let start = Instant::now();
    work()?;
    let host = start.elapsed();
    gpu.stream().synchronize()?;
    Ok((host.as_secs_f64() * 1e6, start.elapsed().as_secs_f64() * 1e6))
}

type Buffers = (DeviceBuffer<f32>, Vec<DeviceBuffer<f32>>);

fn buffers(gpu: &Gpu, chains: usize) -> GpuResult<Buffers> {
    let zeros = || DeviceBuffer::zeroed(gpu, N);
    Ok((zeros()?, (0..chains).map(|_| zeros()).collect::<GpuResult<_>>()?))
}

/// As many nodes as the plan says, of which each waits for the one `chains` before it.
fn graph(gpu: &Gpu, plan: Plan, chains: usize) -> GpuResult<(Graph<Buffers>, Vec<GraphNode>)> {
    let (x, mut y) = buffers(gpu, chains)?;
    let builder = GraphBuilder::new(gpu);
    let nodes: Vec<_> = (0..plan.nodes).map(|i| builder.node(format!("step {i}"))).collect();
    for (i, node) in nodes.iter().enumerate() {
        saxpy::launch(node, ONE_BLOCK, 0.5, &x, &mut y[i % chains])?;
    }
    Ok((builder.build((x, y))?, nodes))
}

/// A chain of kernels that cannot panic: code that may be called, and a stack for it, cost a launch time.
fn copies(gpu: &Gpu, plan: Plan) -> GpuResult<Graph<Buffers>> {
    let (x, mut y) = buffers(gpu, 1)?;
    let builder = GraphBuilder::new(gpu);
    for _ in 0..plan.nodes {
        copy_coalesced::launch(&builder, ONE_BLOCK, &x, &mut y[0])?;
    }
    builder.build((x, y))
}

/// Rounds of smoothing, of which each reads what the one before wrote. If they are dependent launches, each begins early
/// and waits for the one before itself.
fn rounds(gpu: &Gpu, plan: Plan, are_dependent: bool) -> GpuResult<Graph<[DeviceBuffer<f32>; 2]>> {
    let mut cells = [DeviceBuffer::zeroed(gpu, N)?, DeviceBuffer::zeroed(gpu, N)?];
    let builder = GraphBuilder::new(gpu);
    for _ in 0..plan.nodes {
        let [from, to] = &mut cells;
        match are_dependent {
            true => smooth_dependent::launch(&builder, ONE_BLOCK, from, to)?,
            false => smooth::launch(&builder, ONE_BLOCK, from, to)?,
        }
        cells.swap(0, 1);
    }
    builder.build(cells)
}

/// Chains of the kernels that are alone in their module.
fn alone(gpu: &Gpu, plan: Plan, suffix: &str) -> GpuResult<Vec<Case>> {
    let case = |(name, mut graph): (&str, Graph<Buffers>)| {
        let name = format!("graph: {name}{suffix}");
        measure(&name, plan, || Ok(times(gpu, || graph.launch(gpu))?.1))
    };
    alone::graphs(gpu, plan)?.into_iter().map(case).collect()
}

/// Chains of shipped kernels.
fn shipped(gpu: &Gpu, plan: Plan, suffix: &str) -> GpuResult<[Case; 2]> {
    let case = |name: &str, mut graph: Graph<Buffers>| {
        let name = format!("graph: {name}{suffix}");
        measure(&name, plan, || Ok(times(gpu, || graph.launch(gpu))?.1))
    };
    Ok([case("chain", graph(gpu, plan, 1)?.0)?, case("copies", copies(gpu, plan)?)?])
}

fn ours(gpu: &Gpu, plan: Plan) -> GpuResult<Vec<Case>> {
    let (x, mut y) = buffers(gpu, 1)?;
    let mut launches =
        || (0..plan.nodes).try_for_each(|_| saxpy::launch(gpu, ONE_BLOCK, 0.5, &x, &mut y[0]));
    let mut cases = vec![
        measure("launch: host", plan, || Ok(times(gpu, &mut launches)?.0))?,
        measure("launch: whole", plan, || Ok(times(gpu, &mut launches)?.1))?,
    ];
    cases.extend(raw_launches(gpu, plan));
    cases.extend(shipped(gpu, plan, "")?);
    for (name, are_dependent) in [("graph: rounds", false), ("graph: dependent rounds", true)] {
        let mut graph = rounds(gpu, plan, are_dependent)?;
        cases.push(measure(name, plan, || Ok(times(gpu, || graph.launch(gpu))?.1))?);
    }
    let (mut chain, nodes) = graph(gpu, plan, 1)?;
    let (mut wide, _) = graph(gpu, plan, 4)?;
    cases.push(measure("graph: 4 chains", plan, || Ok(times(gpu, || wide.launch(gpu))?.1))?);
    let alphas = nodes.iter().map(|node| chain.parameter::<f32>(node, "alpha"));
    let alphas: Vec<_> = alphas.collect::<GpuResult<_>>()?;
    let mut value = 0.5;
    cases.push(measure("graph: set parameter", plan, || {
        value += 1.0;
        let set = Instant::now();
        alphas.iter().try_for_each(|&alpha| chain.set(alpha, value))?;
        let us = set.elapsed().as_secs_f64() * 1e6;
        times(gpu, || chain.launch(gpu))?;
        Ok(us)
    })?);
    let few = Plan { rounds: plan.rounds.min(10), ..plan };
    cases.push(measure("graph: build", few, || {
        let start = Instant::now();
        let graph = graph(gpu, plan, 1)?;
        let us = start.elapsed().as_secs_f64() * 1e6;
        drop(graph);
        Ok(us)
    })?);
    Ok(cases)
}

/// A thousand kernels on a stream of their own.
fn launch_on(stream: &Stream, gpu: &Gpu) -> GpuResult<()> {
    let (x, mut y) = buffers(gpu, 1)?;
    (0..1000).try_for_each(|_| saxpy::launch(stream, ONE_BLOCK, 0.5, &x, &mut y[0]))?;
    stream.synchronize()
}

/// Launches by the driver's function alone, of the `saxpy` in a module of its own: what ours cost beside it.
fn raw_launches(gpu: &Gpu, plan: Plan) -> Option<Case> {
    let image = best_image(alone::IMAGES, gpu.compute_capability())?;
    let (text, name) = (CString::new(image.ptx()).ok()?, CString::new("saxpy").ok()?);
    let (x, y) =
        (DeviceBuffer::<f32>::zeroed(gpu, N).ok()?, DeviceBuffer::<f32>::zeroed(gpu, N).ok()?);
    let stream: sys::CUstream = StreamRef::of(gpu).as_raw().cast();
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    let is_ok = |result| result == sys::CUresult::CUDA_SUCCESS;
    // SAFETY: the context is current on this thread, the texts end in zeros, all places are writable.
    let ready = unsafe {
        is_ok(sys::cuModuleLoadData(&mut module, text.as_ptr().cast_mut().cast()))
            && is_ok(sys::cuModuleGetFunction(&mut function, module, name.as_ptr()))
    };
    let (alpha, n) = (0.5f32, N);
    let (x_at, y_at) = (x.as_device_ptr().address(), y.as_device_ptr().address());
    let args: [*mut c_void; 5] = [
        (&raw const alpha).cast_mut().cast(),
        (&raw const x_at).cast_mut().cast(),
        (&raw const n).cast_mut().cast(),
        (&raw const y_at).cast_mut().cast(),
        (&raw const n).cast_mut().cast(),
    ];
    let mut run = || {
        let start = Instant::now();
        for _ in 0..plan.nodes {
            let (args, none) = (args.as_ptr().cast(), ptr::null());
            // SAFETY: the values are the kernel's parameters, in order; the buffers live until the wait.
            let _ = unsafe {
                sys::cuLaunchKernel(function, 1, 1, 1, N as u32, 1, 1, 0, stream, args, none)
            };
        }
        let us = start.elapsed().as_secs_f64() * 1e6;
        // SAFETY: the stream lives.
        let _ = unsafe { sys::cuStreamSynchronize(stream) };
        Ok(us)
    };
    let case = ready.then(|| measure("launch: host, raw", plan, &mut run).ok()).flatten();
    // SAFETY: nothing of it runs any more, and it is not used again.
    let _ = unsafe { sys::cuModuleUnload(module) };
    case
}

fn run_peer(program: &Path, plan: Plan) -> Result<Vec<Case>, String> {
    let text = peers::run(program, &[plan.nodes.to_string(), plan.rounds.to_string()])?;
    let case = |line| serde_json::from_str(line).map_err(|error| format!("{error} in {line}"));
    text.lines().map(case).collect()
}

/// The median, and the fastest and slowest tenth.
fn spread(us: &[f64]) -> [f64; 3] {
    let mut us = us.to_vec();
    us.sort_by(f64::total_cmp);
    let at = |share: f64| us[((us.len() - 1) as f64 * share) as usize];
    [at(0.5), at(0.1), at(0.9)]
}

fn print(ours: &[Case], peers: &[Case]) {
    println!("{:<34} {:>9} {:>15} {:>9}", "µs a kernel", "ours", "10%..90%", "C++");
    for case in ours {
        let [median, low, high] = spread(&case.us);
        let peer = peers.iter().find(|peer| case.name.trim_end_matches(", fresh") == peer.name);
        let peer = peer.map_or("-".to_owned(), |peer| format!("{:.3}", spread(&peer.us)[0]));
        let range = format!("{low:.3}..{high:.3}");
        println!("{:<34} {median:>9.3} {range:>15} {peer:>9}", case.name);
    }
    for peer in peers.iter().filter(|peer| ours.iter().all(|case| case.name != peer.name)) {
        println!("{:<34} {:>9} {:>15} {:>9.3}", peer.name, "-", "-", spread(&peer.us)[0]);
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (gpu, small) = (Gpu::new()?, Gpu::with_images(alone::IMAGES)?);
    let plan = Plan::from_args(cuda_driver::backend())?;
    println!("{}: {} kernels, {} rounds, medians", gpu.name(), plan.nodes, plan.rounds);
    let dir = tempfile::tempdir()?;
    let peer = match cuda_driver::backend() {
        Some(Backend::Cuda) => peers::build(dir.path(), "graph", PEER),
        _ => Err("it needs a GPU".into()),
    };
    let peer = peer.and_then(|program| run_peer(&program, plan));
    if let Err(why) = &peer {
        println!("no peer: {why}");
    }
    let mut cases = alone(&small, plan, ", fresh")?;
    cases.extend(ours(&gpu, plan)?);
    cases.extend(alone(&small, plan, "")?);
    gpu.load_kernels()?;
    cases.extend(alone(&small, plan, ", beside all")?);
    cases.extend(shipped(&gpu, plan, ", beside all")?);
    launch_on(&gpu.create_stream()?, &gpu)?;
    cases.extend(alone(&small, plan, ", two streams")?);
    cases.extend(shipped(&gpu, plan, ", two streams")?);
    print(&cases, &peer.unwrap_or_default());
    Ok(())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("graphs: {error}");
        std::process::exit(1);
    }
}
