//! Streams, launches, graphs, futures and kernels that stay.

use cuda_std::launch::{Contract, Kernel, Linear};
use ferrowarp::completion::block_on;
use ferrowarp::graph::{GraphBuilder, HostBuffer};
use ferrowarp::reload::Watch;
use ferrowarp::{
    Bridge, Buffering, DeviceBox, DeviceBuffer, FrameShape, Gpu, GpuPool, GpuResult,
    PersistentKernel, Pipeline, Ring, StreamPool,
};

use super::{LEN, fill};
use crate::kernels::{ADD, CHURN, FILL, add, churn, churned, launch};

const PTX: &str = include_str!("../kernels.ptx");

static TOGETHER: Kernel = Kernel { contract: Contract::NONE.with_cooperative(), ..FILL };
static CLUSTERED: Kernel = Kernel { contract: Contract::NONE.with_cluster([2, 1, 1]), ..FILL };
static EARLY: Kernel = Kernel { contract: Contract::NONE.with_dependent(), ..CHURN };

pub fn streams(gpu: &Gpu) -> GpuResult<()> {
    let range = gpu.stream_priorities()?;
    let urgent = gpu.create_stream_with_priority(*range.start())?;
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let parts = urgent.fork(2)?;
    parts.iter().try_for_each(|part| churn(part, &mut words, 2))?;
    urgent.join(&parts)?;
    urgent.rehome(words.as_mut_slice(), |mut words| churn(&urgent, &mut words, 1))?;
    let (start, end) = (urgent.record_event()?, parts[0].record_event()?);
    gpu.stream().wait_event(&end)?;
    end.milliseconds_since(&start)?;
    assert!(start.is_complete()? && urgent.is_idle()?);
    assert_eq!(words.to_vec()?, [churned(0, 5); LEN]);
    Ok(())
}

pub fn futures(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    block_on(words.copy_from_vec(vec![3; LEN]))?;
    churn(&stream, &mut words, 2)?;
    block_on(stream.completed())?;
    let event = stream.record_event()?;
    block_on(event.completed())?;
    assert_eq!(block_on(words.to_vec_async())?, [churned(3, 2); LEN]);
    let answer = stream.launch_host_func(|| 42)?;
    assert_eq!(answer.wait()?, 42);
    stream.synchronize()
}

pub fn frames(gpu: &Gpu) -> GpuResult<()> {
    let shape = FrameShape { input_len: LEN, output_len: LEN };
    let mut pipeline = Pipeline::new(gpu, shape, Buffering::Double, |mut frame| {
        frame.output.copy_from_device(frame.input.as_slice())?;
        churn(frame.stream, &mut frame.output, 2)
    })?;
    let count = pipeline.run(
        |number, input: &mut [u32]| {
            input.fill(number as u32);
            number < 3
        },
        |number, output: &[u32]| assert_eq!(output, [churned(number as u32, 2); LEN]),
    )?;
    assert_eq!(count, 3);
    // One in flight when it ends.
    pipeline.push(|input| input.fill(9))
}

/// Plain, with much shared memory, cooperative, in clusters, early; and what the device holds of them.
pub fn launches(gpu: &Gpu) -> GpuResult<()> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let occupancy = gpu.occupancy(&FILL, 0)?;
    launch(gpu, &FILL, occupancy.for_num_elems(LEN), &mut words, 1)?;
    launch(gpu, &CHURN, Linear::new(2, 256).shared_mem(64 << 10), &mut words, 1)?;
    launch(gpu, &TOGETHER, Linear::new(2, 256), &mut words, 2)?;
    launch(gpu, &CLUSTERED, Linear::new(2, 256), &mut words, 3)?;
    launch(gpu, &EARLY, Linear::new(2, 256), &mut words, 2)?;
    assert!(gpu.active_blocks(&ADD, Linear::new(1, 64))? > 0);
    assert_eq!(words.to_vec()?, [churned(3, 2); LEN]);
    Ok(())
}

pub fn batches(gpu: &Gpu) -> GpuResult<()> {
    let (stream, other) = (gpu.create_stream()?, gpu.create_stream()?);
    let (one, many) = (DeviceBox::new(gpu, &1)?, DeviceBuffer::from_slice(&other, &[5; LEN])?);
    let mut out = DeviceBuffer::zeroed(gpu, LEN)?;
    stream.batch((&one, &many, &mut out), |batch, (one, many, out)| {
        add(batch, *one, *many, *out)?;
        churn(batch, *out, 3)?;
        launch(batch, &TOGETHER, Linear::new(2, 256), &mut out.slice_mut(..2), 2)
    })?;
    drop(many);
    assert_eq!(out.slice(1..3).to_vec()?, [2, churned(6, 3)]);
    Ok(())
}

pub fn graphs(gpu: &Gpu) -> GpuResult<()> {
    let (one, input) = (DeviceBox::new(gpu, &1)?, HostBuffer::from_slice(gpu, &[5u32; LEN])?);
    let mut many = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let mut out = DeviceBuffer::zeroed(gpu, LEN)?;
    let builder = GraphBuilder::new(gpu);
    let [upload, clear, steps, call, look] =
        ["upload", "clear", "steps", "call", "look"].map(|name| builder.node(name));
    upload.copy(&input, &mut many)?;
    clear.fill(&mut out.slice_mut(..4), 7u32)?;
    add(&builder, &one, &many, &mut out)?;
    churn(&steps, &mut out, 2)?;
    launch(&builder, &CLUSTERED, Linear::new(2, 256), &mut many, 3)?;
    call.host(|| ())?;
    look.host_reads(&input, |values: &[u32]| assert!(values.len() == LEN))?;
    call.after(&steps)?;
    let mut graph = builder.build((one, input, many, out))?;
    graph.launch(gpu)?;
    assert_eq!(graph.wait()?.3.to_vec()?, [churned(6, 2); LEN]);
    let rounds = graph.parameter::<u32>(&steps, "value")?;
    graph.set(rounds, 4)?;
    graph.relaunch(&steps, |node, (_, _, _, out)| churn(node, out, 5))?;
    graph.buffers_mut().2 = DeviceBuffer::zeroed(gpu, LEN)?;
    graph.launch(&gpu.create_stream()?)?;
    assert_eq!(graph.wait()?.3.to_vec()?, [churned(6, 5); LEN]);
    let (_, input, ..) = graph.into_buffers();
    assert_eq!(input.as_slice()?, [5; LEN]);
    Ok(())
}

pub fn captures(gpu: &Gpu) -> GpuResult<()> {
    let (mut a, mut b) =
        (DeviceBuffer::<u32>::zeroed(gpu, LEN)?, DeviceBuffer::<u32>::zeroed(gpu, LEN)?);
    let captured = gpu.stream().capture(|stream| {
        fill(stream, &mut a, 4)?;
        b.copy_from_device(&a)?;
        a.clear()
    })?;
    let mut child = captured.build((a, b))?;
    let parent = GraphBuilder::new(gpu);
    parent.node("first").graph(&mut child)?;
    let (a, mut b) = child.into_buffers();
    churn(&parent, &mut b, 3)?;
    let mut parent = parent.build((a, b))?;
    parent.launch(gpu)?;
    // Buffers in the place of those that the child's nodes have.
    parent.wait()?;
    parent.buffers_mut().1 = DeviceBuffer::zeroed(gpu, LEN)?;
    parent.launch(gpu)?;
    assert_eq!(parent.wait()?.1.to_vec()?, [churned(4, 3); LEN]);
    Ok(())
}

pub fn pools(gpu: &Gpu) -> GpuResult<()> {
    let gpus = GpuPool::of([gpu.clone()])?;
    let streams = StreamPool::new(gpu, 2)?;
    let (gpu, stream) = (gpus.acquire()?, streams.acquire()?);
    let mut words = DeviceBuffer::<u32>::zeroed(&gpu, LEN)?;
    fill(&stream, &mut words, 5)?;
    assert!(gpus.try_acquire()?.is_none() && streams.try_acquire()?.is_some());
    assert_eq!(words.to_vec()?, [5; LEN]);
    Ok(())
}

pub fn versions(gpu: &Gpu) -> GpuResult<()> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let hot = Watch::nothing().keep(2).start(gpu)?;
    fill(&hot, &mut words, 1)?;
    // SAFETY: the kernels of these tests.
    let second = unsafe { hot.load_ptx(format!("{PTX}\n// another one\n"))? };
    fill(&hot, &mut words, 2)?;
    churn(&hot.version(1)?, &mut words, 2)?;
    assert_eq!((words.to_vec()?, second.number()), (vec![churned(2, 2); LEN], 2));
    Ok(())
}

/// A kernel that its stream has, and that is over before it is asked to end.
pub fn staying(gpu: &Gpu) -> GpuResult<()> {
    let mut words = DeviceBuffer::<u32>::zeroed(gpu, LEN)?;
    let (_sender, _requests) = Ring::<u32, _>::to_device(gpu, 4, Bridge::Mapped)?;
    let kernel = PersistentKernel::start(gpu, |launcher| fill(launcher, &mut words, 5))?;
    assert_eq!(words.to_vec()?, [5; LEN]);
    assert!(!kernel.is_running()?);
    kernel.shut_down()?;
    drop(words);
    gpu.synchronize()
}
