//! Demos of what runs at the same time: streams, calls of the host, pools, a pipeline of frames, futures.

use std::future::{Future, poll_fn};
use std::panic::resume_unwind;
use std::sync::mpsc::channel;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use kernels_gpu::elementwise::saxpy;
use kernels_gpu::elementwise::vecadd;

use super::arrays::floats;
use super::{Check, Outcome, Scale, timed};
use ferrowarp::completion::block_on;
use ferrowarp::error::GpuResult;
use ferrowarp::memory::DeviceBuffer;
use ferrowarp::pipeline::{Buffering, FrameShape, Pipeline};
use ferrowarp::pool::{GpuPool, StreamPool};
use ferrowarp::{Gpu, LaunchConfig, Stream};

/// Parts of an array, each on a stream of its own.
const BRANCHES: usize = 4;
/// Threads that share streams.
const THREADS: usize = 8;
/// Kernels behind which the host is called.
const STEPS: usize = 8;
const FRAMES: u64 = 24;
const TASKS: usize = 16;

/// A part of the sum of two arrays, at home on its branch.
struct Part {
    a: DeviceBuffer<f32>,
    b: DeviceBuffer<f32>,
    sum: DeviceBuffer<f32>,
}

impl Part {
    fn new(on: &Stream, a: &[f32], b: &[f32]) -> GpuResult<Self> {
        let (a, b) = (DeviceBuffer::from_slice(on, a)?, DeviceBuffer::from_slice(on, b)?);
        let sum = DeviceBuffer::zeroed(on, a.len())?;
        Ok(Self { a, b, sum })
    }

    fn add(&mut self, on: &Stream) -> GpuResult<()> {
        let all = LaunchConfig::for_num_elems(self.a.len());
        vecadd::launch(on, all, &self.a, &self.b, &mut self.sum)
    }
}

/// Four branches add four parts of two arrays, side by side.
pub(super) fn streams(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let (a, b) = (floats(n, 11), floats(n, 12));
    let (trunk, chunk) = (gpu.stream(), n.div_ceil(BRANCHES).max(1));
    let branches = trunk.fork(BRANCHES)?;
    let chunks = a.chunks(chunk).zip(b.chunks(chunk)).zip(&branches);
    let parts = chunks.map(|((a, b), branch)| Part::new(branch, a, b));
    let mut parts = parts.collect::<GpuResult<Vec<_>>>()?;
    let time = timed(gpu, || {
        for (part, branch) in parts.iter_mut().zip(&branches) {
            branch.join(std::slice::from_ref(trunk))?;
            part.add(branch)?;
        }
        trunk.join(&branches)
    })?;
    let mut found = Vec::new();
    for part in &parts {
        found.extend(part.sum.to_vec()?);
    }
    let check = Check::exact(&found, &reference::vecadd::vecadd(&a, &b));
    let size = format!("{BRANCHES} × {chunk} elements");
    Ok(Outcome { size, time, bytes: 12 * n, check, picture: None })
}

/// A stream whose blocks are taken before others' calls the host when each of its kernels is done.
pub(super) fn callbacks(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let urgent = gpu.create_stream_with_priority(*gpu.stream_priorities()?.start())?;
    let (x, all) = (floats(n, 15), LaunchConfig::for_num_elems(n));
    let on_x = DeviceBuffer::from_slice(&urgent, &x)?;
    let mut y = DeviceBuffer::zeroed(&urgent, n)?;
    let (tell, told) = channel();
    let start = Instant::now();
    let mut calls = Vec::new();
    for step in 0..STEPS {
        saxpy::launch(&urgent, all, 1.0, &on_x, &mut y)?;
        let tell = tell.clone();
        calls.push(urgent.launch_host_func(move || tell.send(step).is_ok())?);
    }
    let mut are_heard = true;
    for call in calls {
        are_heard &= call.wait()?;
    }
    let time = start.elapsed();
    drop(tell);
    let step = |y: Vec<f32>, _| reference::saxpy::saxpy(1.0, &x, &y);
    let check = Check::exact(&y.to_vec()?, &(0..STEPS).fold(vec![0.0; n], step))
        .provided(are_heard && told.iter().eq(0..STEPS));
    let size = format!("{STEPS} × {n} elements");
    Ok(Outcome { size, time, bytes: STEPS * 12 * n, check, picture: None })
}

/// Threads take a stream when they need one; there are fewer, so they wait for one another.
pub(super) fn pools(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    // `GpuPool::new` has all devices of the machine.
    let devices = GpuPool::of([gpu.clone()])?;
    let device = devices.acquire()?;
    let is_taken = devices.try_acquire()?.is_none();
    let streams = StreamPool::new(&device, THREADS / 4)?;
    let sum = |a: &[f32], b: &[f32]| {
        let stream = streams.acquire()?; // given back when it is dropped
        let mut part = Part::new(&stream, a, b)?;
        part.add(&stream)?;
        part.sum.to_vec()
    };
    let (a, b, chunk) = (floats(n, 11), floats(n, 12), n.div_ceil(THREADS).max(1));
    let start = Instant::now();
    let parts: GpuResult<Vec<_>> = thread::scope(|scope| {
        let work = |(a, b)| scope.spawn(move || sum(a, b));
        let threads: Vec<_> = a.chunks(chunk).zip(b.chunks(chunk)).map(work).collect();
        threads.into_iter().map(|own| own.join().unwrap_or_else(|own| resume_unwind(own))).collect()
    });
    let time = start.elapsed();
    let check = Check::exact(&parts?.concat(), &reference::vecadd::vecadd(&a, &b));
    let size = format!("{THREADS} × {chunk} elements");
    let check = check.provided(is_taken);
    Ok(Outcome { size, time, bytes: 12 * n, check, picture: None })
}

/// While one frame is computed, the next one comes in and the one before goes out.
pub(super) fn pipeline(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let len = (n / 16).max(1);
    let (x, all) = (floats(len, 13), LaunchConfig::for_num_elems(len));
    let shape = FrameShape { input_len: len, output_len: len };
    let mut pipeline = Pipeline::new(gpu, shape, Buffering::Triple, |mut frame| {
        frame.output.clear()?;
        saxpy::launch(frame.stream, all, 3.0, &frame.input, &mut frame.output)
    })?;
    let expected = reference::saxpy::saxpy(3.0, &x, &vec![0.0; len]);
    let mut right = 0;
    let fill = |number: u64, input: &mut [f32]| {
        input.copy_from_slice(&x);
        input[0] = number as f32;
        number < FRAMES
    };
    let start = Instant::now();
    pipeline.run(fill, |number, output: &[f32]| {
        right += u64::from(output[0] == 3.0 * number as f32 && output[1..] == expected[1..]);
    })?;
    let time = start.elapsed();
    let check = Check::exact(&[right], &[FRAMES]);
    let size = format!("{FRAMES} × {len} elements");
    let bytes = 8 * len * FRAMES as usize;
    Ok(Outcome { size, time, bytes, check, picture: None })
}

/// One thread awaits many copies and kernels, each on a stream of its own.
pub(super) fn futures(gpu: &Gpu, Scale { n, .. }: Scale) -> GpuResult<Outcome> {
    let len = (n / TASKS).max(1);
    let inputs: Vec<_> = (0..TASKS as u32).map(|task| floats(len, 14 + task)).collect();
    let start = Instant::now();
    let doubled = inputs.iter().map(|x| doubled(gpu, x.clone()));
    let found = block_on(all(doubled.collect()));
    let time = start.elapsed().max(Duration::from_nanos(1));
    let mut right = 0;
    for (found, x) in found.into_iter().zip(&inputs) {
        right += usize::from(found? == x.iter().map(|x| x + x).collect::<Vec<_>>());
    }
    let check = Check::exact(&[right], &[TASKS]);
    let size = format!("{TASKS} × {len} elements");
    Ok(Outcome { size, time, bytes: 8 * len * TASKS, check, picture: None })
}

async fn doubled(gpu: &Gpu, values: Vec<f32>) -> GpuResult<Vec<f32>> {
    let (stream, all) = (gpu.create_stream()?, LaunchConfig::for_num_elems(values.len()));
    let mut x = DeviceBuffer::zeroed(&stream, values.len())?;
    let mut sum = DeviceBuffer::zeroed(&stream, values.len())?;
    x.copy_from_vec(values).await?;
    vecadd::launch(&stream, all, &x, &x, &mut sum)?;
    sum.to_vec_async().await
}

/// Awaits all at the same time.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut values: Vec<_> = futures.iter().map(|_| None).collect();
    poll_fn(|task| {
        for (future, value) in futures.iter_mut().zip(&mut values) {
            // One that is ready must not be polled again.
            if value.is_none()
                && let Poll::Ready(ready) = future.as_mut().poll(task)
            {
                *value = Some(ready);
            }
        }
        if values.iter().all(Option::is_some) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    values.into_iter().flatten().collect()
}
