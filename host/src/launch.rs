//! Starting kernels: the limits that are checked before the driver, and the order among streams.

mod batch;
mod groups;
mod occupancy;

use std::ptr;

use cuda_driver::LaunchAttribute;
use cuda_std::launch::{Args, Kernel, Launch, LaunchConfig};
use cust::sys;
use smallvec::SmallVec;

use crate::device::DeviceInfo;
use crate::error::{GpuContext, GpuError, GpuResult, LaunchLimit};
use crate::event::Event;
use crate::gpu::Gpu;
use crate::memory::PeerHome;
use crate::module::Function;
use crate::recorder;
use crate::shared_memory::{SharedMemory, shared_of};
use crate::stream::{AsStream, Stream, StreamInner, check_same, home_of};

pub use batch::Batch;
pub(crate) use groups::{ClustersAtOnce, is_of_streams};
pub use occupancy::Occupancy;

impl Launch for Stream {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
    ) -> GpuResult<()> {
        if let Some(graph) = recorder::current() {
            return graph.launch(self, kernel, config, args);
        }
        let homes = homes(self, kernel, args)?;
        let Some(prepared) = prepare(self, kernel, config, args)? else { return Ok(()) };
        // SAFETY: the caller's promise.
        unsafe { queue(self, kernel, &homes, &prepared, args) }
            .with_gpu_context(|| format!("launching `{}`", kernel.name))
    }
}

impl Launch for Gpu {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.as_stream().launch(kernel, config, args) }
    }
}

/// A launch that kernel and device allow.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) function: Function,
    pub(crate) config: LaunchConfig,
    pub(crate) attributes: Vec<LaunchAttribute>,
}

/// Checks a launch, and finds what the driver needs for it; `None` for a grid without blocks.
pub(crate) fn prepare(
    stream: &Stream,
    kernel: &'static Kernel,
    config: LaunchConfig,
    args: &Args,
) -> GpuResult<Option<Prepared>> {
    let config = kernel
        .contract
        .apply(config)
        .map_err(|broken| GpuError::Contract { kernel: kernel.name, broken })?;
    if config.is_empty() {
        return Ok(None);
    }
    check_dims(kernel.name, &config, stream.inner().context().info())?;
    prepare_function(stream, kernel, config, args)
        .with_gpu_context(|| format!("launching `{}`", kernel.name))
        .map(Some)
}

fn prepare_function(
    stream: &Stream,
    kernel: &'static Kernel,
    config: LaunchConfig,
    args: &Args,
) -> GpuResult<Prepared> {
    groups::check_device(&kernel.contract, stream.inner().context().info())?;
    let function = stream.module().function(kernel)?;
    check_args(kernel, args)?;
    check_function(kernel.name, &config, function, stream.inner().context().info())?;
    allow_shared(stream, kernel, &config, function)?;
    let attributes = groups::attributes(stream, kernel, &config, function)?;
    Ok(Prepared { function, config, attributes })
}

/// Queues the kernel in the order of its arguments' homes.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn queue(
    stream: &Stream,
    kernel: &'static Kernel,
    homes: &Homes<'_>,
    prepared: &Prepared,
    args: &Args,
) -> GpuResult<()> {
    #[cfg(feature = "nvtx")]
    let _range = crate::nvtx::range(kernel.name);
    let &Prepared { function, config, ref attributes } = prepared;
    let ends = homes.shared.iter().map(|_| Event::untimed(stream.inner().context()));
    let ends = ends.collect::<GpuResult<SmallVec<[Event; 4]>>>()?;
    stream.inner().launches(kernel.name, &config);
    let queued = stream.inner().ordered(&homes.streams, || match attributes.as_slice() {
        // SAFETY: the caller's promise.
        [] => unsafe { start(stream.inner(), function, config, args) },
        // SAFETY: the caller's promise.
        some => unsafe { groups::start(stream.inner(), function, config, args, some) },
    });
    homes.shared.iter().zip(ends).for_each(|(memory, end)| memory.used_by(stream.inner(), end));
    queued
}

/// The driver's launch.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn start(
    stream: &StreamInner,
    function: Function,
    config: LaunchConfig,
    args: &Args,
) -> GpuResult<()> {
    stream.context().call("cuLaunchKernel", || {
        // SAFETY: the caller's promise.
        unsafe { start_raw(stream, function, config, args) }
    })
}

/// The same with the stream's context current already.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn start_raw(
    stream: &StreamInner,
    function: Function,
    config: LaunchConfig,
    args: &Args,
) -> sys::CUresult {
    let LaunchConfig { grid: g, block: b, shared_mem_bytes: shared } = config;
    args.with_pointers(|values| {
        let (values, extra) = (values.as_mut_ptr(), ptr::null_mut());
        let (f, s) = (function.handle, stream.handle());
        // SAFETY: the function's module is loaded, the values are the kernel's parameters in order
        // (the caller's promise), and the driver copies them before it returns.
        unsafe { sys::cuLaunchKernel(f, g.0, g.1, g.2, b.0, b.1, b.2, shared, s, values, extra) }
    })
}

/// The arguments' memory is of this device itself, and in the order of streams that are known.
pub(crate) fn check_homes(stream: &Stream, kernel: &'static Kernel, args: &Args) -> GpuResult<()> {
    if args.homes().any(|home| home.is::<PeerHome>()) {
        let what = "another device's memory in a graph: copy it with copy_from_peer before";
        return Err(GpuError::Unsupported { what });
    }
    if args.homes().any(|home| shared_of(home).is_some()) {
        let what = "a graph with memory that host and kernels use at once: launch the kernel";
        return Err(GpuError::Unsupported { what });
    }
    homes(stream, kernel, args).map(drop)
}

/// What the arguments belong to; of few, without an allocation.
#[derive(Default)]
struct Homes<'a> {
    /// The streams that order arguments.
    streams: SmallVec<[&'a StreamInner; 4]>,
    /// The arguments that no stream orders.
    shared: SmallVec<[&'a SharedMemory; 4]>,
}

/// What the arguments belong to.
fn homes<'a>(stream: &Stream, kernel: &'static Kernel, args: &'a Args) -> GpuResult<Homes<'a>> {
    let (here, mut homes) = (stream.inner().context(), Homes::default());
    for home in args.homes() {
        if let Some(memory) = shared_of(home) {
            check_same(here, memory.context(), "an argument")?;
            homes.shared.push(memory);
        } else if let Some(peer) = home.downcast_ref::<PeerHome>() {
            homes.streams.push(peer.home_for(here)?);
        } else {
            let home = home_of(home).ok_or(GpuError::ForeignStream { kernel: kernel.name })?;
            home.check_device(here, "an argument")?;
            homes.streams.push(home);
        }
    }
    Ok(homes)
}

/// Blocks and threads against the device's limits.
fn check_dims(kernel: &'static str, config: &LaunchConfig, info: &DeviceInfo) -> GpuResult<()> {
    let [grid, block] = [config.grid, config.block].map(|(x, y, z)| [x, y, z].map(u64::from));
    for dim in 0..3u8 {
        let at = usize::from(dim);
        let limit = u64::from(info.max_grid_dim[at]);
        within(kernel, LaunchLimit::GridDim(dim), grid[at], limit)?;
        let limit = u64::from(info.max_block_dim[at]);
        within(kernel, LaunchLimit::BlockDim(dim), block[at], limit)?;
    }
    let threads = block.iter().product();
    within(kernel, LaunchLimit::BlockThreads, threads, u64::from(info.max_threads_per_block))
}

/// The arguments against the kernel's parameters.
fn check_args(kernel: &'static Kernel, args: &Args) -> GpuResult<()> {
    let expected = kernel.params.iter().map(|param| param.size_bytes);
    if expected.clone().eq(args.sizes_bytes()) {
        return Ok(());
    }
    let (expected, found) = (expected.collect(), args.sizes_bytes().collect());
    Err(GpuError::WrongParameters { kernel: kernel.name, expected, found })
}

/// Threads and shared memory against the kernel's limits.
fn check_function(
    kernel: &'static str,
    config: &LaunchConfig,
    function: Function,
    info: &DeviceInfo,
) -> GpuResult<()> {
    let (x, y, z) = config.block;
    let threads = u64::from(x) * u64::from(y) * u64::from(z);
    let limit = u64::from(function.max_threads_per_block);
    within(kernel, LaunchLimit::KernelThreads, threads, limit)?;
    let shared = u64::from(function.static_shared_bytes) + u64::from(config.shared_mem_bytes);
    let limit = info.shared_mem_per_block_optin_bytes.max(info.shared_mem_per_block_bytes);
    within(kernel, LaunchLimit::SharedMemory, shared, u64::from(limit))
}

/// A block may have more than the ordinary shared memory if its kernel asks for it.
fn allow_shared(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    function: Function,
) -> GpuResult<()> {
    let ordinary = stream.inner().context().info().shared_mem_per_block_bytes;
    let shared = function.static_shared_bytes.saturating_add(config.shared_mem_bytes);
    if shared <= ordinary {
        return Ok(());
    }
    stream.module().allow_dynamic_shared(kernel, function, config.shared_mem_bytes)
}

/// Also refuses 0, which no launch limit allows: an empty grid is handled before.
fn within(kernel: &'static str, what: LaunchLimit, value: u64, limit: u64) -> GpuResult<()> {
    if (1..=limit).contains(&value) || (what == LaunchLimit::SharedMemory && value <= limit) {
        return Ok(());
    }
    Err(GpuError::LaunchTooLarge { kernel, what, value, limit })
}

/// The book's pages, whose programs compile.
#[cfg(doctest)]
#[doc = include_str!("../../book/src/first-kernel.md")]
#[doc = include_str!("../../book/src/running.md")]
#[doc = include_str!("../../book/src/asynchrony.md")]
#[doc = include_str!("../../book/src/atomics.md")]
struct Book;
