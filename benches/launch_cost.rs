//! What a typed launch and the launch of a graph cost the thread that enqueues them, beside the driver's bare calls.
//!
//! Both sides launch one empty kernel with the parameters of `copy_coalesced`, on one stream: one side by the typed launcher
//! of `copy_coalesced`, the other by `cuLaunchKernelEx`, looked up in `libcuda.so.1` itself where there is a GPU. The graphs
//! have 32 nodes of that launch, one after the other. Batches of both sides alternate; figures are medians of the thread's own CPU
//! time, in nanoseconds, and the heap allocations of one call. Each batch ends with a wait, off the clock.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::{CString, c_void};
use std::ptr;

use cuda_driver::sys::{self, CUlaunchConfig};
use cuda_driver::{Backend, LaunchAttribute};
use ferrowarp::graph::GraphBuilder;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::module::Image;
use ferrowarp::{DeviceBuffer, Gpu, GpuResult, LaunchConfig};
use kernels_gpu::elementwise::copy_coalesced;

/// A kernel that does nothing under the name and with the parameters of one that ships, so that both sides launch the same.
const PTX: &str = ".version 7.0
.target sm_70
.address_size 64
.visible .entry copy_coalesced(.param .u64 x, .param .u64 x_len, .param .u64 out, .param .u64 out_len)
{
    ret;
}
";

// SAFETY: the kernel does nothing.
const IMAGES: &[Image] = &[unsafe { Image::from_ptx("sm_70", PTX) }];

/// Calls between waits: few enough for the driver's queue to have room for all of them.
const BATCH: usize = 50;
/// Nodes of the graphs.
const NODES: usize = 32;

/// The system's allocator, which counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all memory is the system allocator's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "there is no clock of the thread's CPU time");
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn checked(code: sys::CUresult) {
    assert_eq!(code, sys::CUresult::CUDA_SUCCESS);
}

type LaunchKernelEx = unsafe extern "C" fn(
    *const CUlaunchConfig,
    sys::CUfunction,
    *const *mut c_void,
    *const *mut c_void,
) -> sys::CUresult;
type GraphLaunch = unsafe extern "C" fn(sys::CUgraphExec, sys::CUstream) -> sys::CUresult;

/// The emulator's, which has no library of its own.
unsafe extern "C" fn emulated_launch(
    config: *const CUlaunchConfig,
    function: sys::CUfunction,
    params: *const *mut c_void,
    extra: *const *mut c_void,
) -> sys::CUresult {
    // SAFETY: the caller's promise.
    unsafe { sys::cuLaunchKernelEx(config, function, params.cast(), extra.cast()) }
}

unsafe extern "C" fn emulated_graph_launch(
    exec: sys::CUgraphExec,
    stream: sys::CUstream,
) -> sys::CUresult {
    // SAFETY: the caller's promise.
    unsafe { sys::cuGraphLaunch(exec, stream) }
}

/// The two calls that are compared with, of the driver's library.
fn bare_calls(backend: Backend) -> (LaunchKernelEx, GraphLaunch) {
    if backend != Backend::Cuda {
        return (emulated_launch, emulated_graph_launch);
    }
    // SAFETY: the library is loaded already and stays, and both functions have these types.
    unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_NOW);
        let launch = libc::dlsym(library, c"cuLaunchKernelEx".as_ptr());
        let graph = libc::dlsym(library, c"cuGraphLaunch".as_ptr());
        assert!(!launch.is_null() && !graph.is_null(), "the driver is older than CUDA 11.8");
        (
            std::mem::transmute::<*mut c_void, LaunchKernelEx>(launch),
            std::mem::transmute::<*mut c_void, GraphLaunch>(graph),
        )
    }
}

/// The empty kernel and a graph of its launches, without anything of this crate around them.
struct Bare {
    function: sys::CUfunction,
    /// That of the other side.
    stream: sys::CUstream,
    exec: sys::CUgraphExec,
    calls: (LaunchKernelEx, GraphLaunch),
}

impl Bare {
    /// Of the context that is current.
    fn new(gpu: &Gpu) -> Self {
        let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
        let mut exec = ptr::null_mut();
        let ptx = CString::new(PTX).expect("no NUL in there");
        // SAFETY: the places are writable, and the texts end with a NUL.
        unsafe {
            checked(sys::cuModuleLoadData(&mut module, ptx.as_ptr().cast_mut().cast()));
            checked(sys::cuModuleGetFunction(&mut function, module, c"copy_coalesced".as_ptr()));
        }
        let stream = StreamRef::of(gpu).as_raw().cast();
        let bare = Self { function, stream, exec, calls: bare_calls(gpu.backend()) };
        bare.capture(&mut exec);
        Self { exec, ..bare }
    }

    /// Makes the graph ready: launches one after the other.
    fn capture(&self, exec: &mut sys::CUgraphExec) {
        let mut graph = ptr::null_mut();
        // SAFETY: the stream is this program's, and the places are writable.
        unsafe {
            checked(sys::cuStreamBeginCapture_v2(self.stream, 2));
            (0..NODES).for_each(|_| self.launch());
            checked(sys::cuStreamEndCapture(self.stream, &mut graph));
            checked(sys::cuGraphInstantiateWithFlags(exec, graph, 0));
        }
    }

    fn launch(&self) {
        let mut words = [256u64, 1, 512, 1];
        let mut values = words.each_mut().map(|word| ptr::from_mut(word).cast::<c_void>());
        let none: &[LaunchAttribute] = &[];
        let config = CUlaunchConfig {
            grid: [1; 3],
            block: [256, 1, 1],
            shared_mem_bytes: 0,
            stream: self.stream,
            attributes: none.into(),
            n_attributes: 0,
        };
        // SAFETY: the values are the kernel's parameters, which the driver copies.
        checked(unsafe {
            (self.calls.0)(&config, self.function, values.as_mut_ptr(), ptr::null())
        });
    }

    fn launch_graph(&self) {
        // SAFETY: the graph is ready and the stream lives.
        checked(unsafe { (self.calls.1)(self.exec, self.stream) });
    }
}

/// Samples of one side: nanoseconds and allocations of one call.
#[derive(Default)]
struct Samples {
    ns: Vec<f64>,
    allocations: Vec<f64>,
}

impl Samples {
    /// One batch of calls.
    fn take(&mut self, mut call: impl FnMut() -> GpuResult<()>) -> GpuResult<()> {
        let (allocations, start) = (ALLOCATIONS.get(), cpu_ns());
        (0..BATCH).try_for_each(|_| call())?;
        let (end, after) = (cpu_ns(), ALLOCATIONS.get());
        self.ns.push((end - start) as f64 / BATCH as f64);
        self.allocations.push((after - allocations) as f64 / BATCH as f64);
        Ok(())
    }
}

fn median(samples: &mut [f64]) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// Alternates batches of both sides, and prints their medians.
fn compare(
    gpu: &Gpu,
    batches: usize,
    name: &str,
    mut ours: impl FnMut() -> GpuResult<()>,
    mut bare: impl FnMut(),
) -> GpuResult<()> {
    let mut sides = [Samples::default(), Samples::default()];
    for round in 0..batches + 10 {
        // What comes first changes, so that neither side has the warmer caches.
        for side in [round % 2, 1 - round % 2] {
            match side {
                0 => sides[0].take(&mut ours)?,
                _ => sides[1].take(|| {
                    bare();
                    Ok(())
                })?,
            }
            // SAFETY: the context is current on this thread.
            checked(unsafe { sys::cuCtxSynchronize() });
            gpu.synchronize()?;
        }
    }
    let [ours, bare] = sides.map(|mut side| {
        (median(&mut side.ns.split_off(10)), median(&mut side.allocations.split_off(10)))
    });
    let (more, allocations) = (ours.0 - bare.0, ours.1 - bare.1);
    println!(
        "{name:<28} {:>8.0} ns  bare {:>8.0} ns  more {more:>6.0} ns  allocations {allocations:>5.1}",
        ours.0, bare.0
    );
    Ok(())
}

fn run() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let batches = if gpu.backend() == Backend::Cuda { 400 } else { 10 };
    let config = LaunchConfig::for_num_elems(1);
    let x = DeviceBuffer::from_slice(&gpu, &[1.0f32])?;
    let mut out = DeviceBuffer::zeroed(&gpu, 1)?;
    copy_coalesced::launch(&gpu, config, &x, &mut out)?;
    gpu.synchronize()?;
    let bare = Bare::new(&gpu);
    println!("{}: {batches} batches of {BATCH}, CPU time of the thread", gpu.name());
    let launch = || copy_coalesced::launch(&gpu, config, &x, &mut out);
    compare(&gpu, batches, "a typed launch", launch, || bare.launch())?;
    let builder = GraphBuilder::new(&gpu);
    for _ in 0..NODES {
        copy_coalesced::launch(&builder, config, &x, &mut out)?;
    }
    let mut graph = builder.build((x, out))?;
    let launch = || graph.launch(&gpu);
    compare(&gpu, batches, "a graph of 32 nodes", launch, || bare.launch_graph())
}

fn main() {
    if let Err(error) = run() {
        eprintln!("launch_cost: {error}");
        std::process::exit(1);
    }
}
