//! What it costs the host to get and to give back device memory: the driver's calls, and ours, in one run.
//!
//! Each figure is the median over rounds of a batch's time, divided by the batch. Buffers of a batch are all held
//! before the first is given back; nothing is queued on the stream beside.

use std::sync::{Arc, Barrier};
use std::time::Instant;

use cuda_driver::Backend;
use cuda_driver::sys;
use ferrowarp::memory::resource::{MemoryPool, StreamRef};
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, Stream};

const THREADS: usize = 4;

/// How much is measured.
#[derive(Clone, Copy)]
struct Plan {
    bytes: usize,
    batch: usize,
    rounds: usize,
}

/// Nanoseconds of one call.
struct Cost {
    acquire: f64,
    release: f64,
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Times `acquire` and the end of what it gives.
fn measure<M>(
    plan: Plan,
    stream: &Stream,
    acquire: impl Fn() -> GpuResult<M>,
    release: impl Fn(M),
) -> GpuResult<Cost> {
    let mut rounds = Vec::new();
    for _ in 0..plan.rounds + 3 {
        let mut held = Vec::with_capacity(plan.batch);
        let start = Instant::now();
        for _ in 0..plan.batch {
            held.push(acquire()?);
        }
        let middle = Instant::now();
        held.into_iter().for_each(&release);
        let end = Instant::now();
        rounds.push((middle - start, end - middle));
        stream.synchronize()?;
    }
    let warm = &rounds[3..];
    let each = |nanos: u128| nanos as f64 / plan.batch as f64;
    Ok(Cost {
        acquire: median(warm.iter().map(|(acquire, _)| each(acquire.as_nanos()))),
        release: median(warm.iter().map(|(_, release)| each(release.as_nanos()))),
    })
}

fn print(name: &str, plan: Plan, Cost { acquire, release }: Cost) {
    println!("{name:<34} {:>10} {acquire:>12.0} {release:>12.0}", plan.bytes);
}

fn told(code: sys::CUresult) {
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
}

/// The driver's calls, without anything of ours around them.
fn driver(plan: Plan, stream: &Stream) -> GpuResult<()> {
    let at_once = || {
        let mut address = 0;
        // SAFETY: `address` is writable, and a context is current.
        told(unsafe { sys::cuMemAlloc_v2(&mut address, plan.bytes) });
        Ok(address)
    };
    // SAFETY: it was allocated so, and nothing uses it.
    let free = |address| told(unsafe { sys::cuMemFree_v2(address) });
    print("cuMemAlloc, cuMemFree", plan, measure(plan, stream, at_once, free)?);

    let handle: sys::CUstream = StreamRef::of(stream).as_raw().cast();
    let in_order = || {
        let mut address = 0;
        // SAFETY: `address` is writable, and the stream lives.
        told(unsafe { sys::cuMemAllocAsync(&mut address, plan.bytes, handle) });
        Ok(address)
    };
    // SAFETY: it was allocated so, and nothing uses it.
    let free = |address| told(unsafe { sys::cuMemFreeAsync(address, handle) });
    print("cuMemAllocAsync, cuMemFreeAsync", plan, measure(plan, stream, in_order, free)?);
    Ok(())
}

/// Lets the device's own pool keep what is freed, as ours do.
fn keep_all() {
    let (mut pool, mut threshold) = (std::ptr::null_mut(), u64::MAX);
    let attribute = sys::mempool_attribute::RELEASE_THRESHOLD;
    // SAFETY: `pool` is writable, and device 0 is in use.
    told(unsafe { sys::cuDeviceGetDefaultMemPool(&mut pool, 0) });
    // SAFETY: the pool is the device's, and the attribute has 64 bits.
    told(unsafe { sys::cuMemPoolSetAttribute(pool, attribute, (&raw mut threshold).cast()) });
}

fn ours(plan: Plan, stream: &Stream) -> GpuResult<()> {
    // SAFETY: nobody reads it.
    let at_once = || unsafe { DeviceBuffer::<u8>::uninitialized(stream, plan.bytes) };
    print("DeviceBuffer::uninitialized", plan, measure(plan, stream, at_once, drop)?);
    // SAFETY: nobody reads it.
    let in_order = || unsafe { DeviceBuffer::<u8>::uninitialized_async(stream, plan.bytes) };
    print("DeviceBuffer::uninitialized_async", plan, measure(plan, stream, in_order, drop)?);
    let pool = MemoryPool::new(stream);
    print("MemoryPool", plan, pooled(plan, stream, &pool)?);
    Ok(())
}

fn pooled(plan: Plan, stream: &Stream, pool: &Arc<MemoryPool>) -> GpuResult<Cost> {
    // SAFETY: nobody reads it.
    let acquire = || unsafe { DeviceBuffer::<u8>::uninitialized_in(pool, stream, plan.bytes) };
    measure(plan, stream, acquire, drop)
}

/// Threads with streams of their own, and one pool.
fn contended(plan: Plan, gpu: &Gpu) -> GpuResult<()> {
    let (pool, start) = (MemoryPool::new(gpu), Barrier::new(THREADS));
    let work = || -> GpuResult<Cost> {
        let stream = gpu.create_stream()?;
        start.wait();
        pooled(plan, &stream, &pool)
    };
    let costs = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        ended.collect::<GpuResult<Vec<Cost>>>()
    })?;
    let acquire = median(costs.iter().map(|cost| cost.acquire));
    let release = median(costs.iter().map(|cost| cost.release));
    print(&format!("MemoryPool, {THREADS} threads at once"), plan, Cost { acquire, release });
    Ok(())
}

fn main() -> GpuResult<()> {
    let gpu = Gpu::new()?;
    let stream = gpu.create_stream()?;
    let on_gpu = gpu.backend() == Backend::Cuda;
    let rounds = if on_gpu { 200 } else { 20 };
    let sizes: &[(usize, usize)] =
        if on_gpu { &[(4 << 10, 64), (1 << 20, 64), (64 << 20, 8)] } else { &[(4 << 10, 64)] };
    keep_all();
    println!("{}: nanoseconds of the host, medians of {rounds} rounds", gpu.name());
    println!("{:<34} {:>10} {:>12} {:>12}", "memory", "bytes", "acquire ns", "release ns");
    for &(bytes, batch) in sizes {
        let plan = Plan { bytes, batch, rounds };
        driver(plan, &stream)?;
        ours(plan, &stream)?;
        contended(plan, &gpu)?;
    }
    Ok(())
}
