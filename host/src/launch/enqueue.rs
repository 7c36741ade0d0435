//! Kernel launches: checks against the device's limits, and the order among streams.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use cuda_driver::sys::{self, CUlaunchConfig, LaunchAttribute};
use cuda_std::launch::{Args, Home, Kernel, Launch, LaunchConfig, Param, ParamKind, Unordered};
use smallvec::SmallVec;

use super::limits::{allow_shared, check_args, check_dims, check_function, have_sizes};
use super::{groups, unordered};
use crate::error::{GpuContext, GpuError, GpuResult};
use crate::event::Event;
use crate::foreign::check_memory;
use crate::gpu::Gpu;
use crate::memory::PeerHome;
use crate::module::{CheckedLaunch, Function};
use crate::recorder;
use crate::shared_memory::{SharedMemory, shared_of};
use crate::stream::{AsStream, HomeUse, Stream, StreamInner, check_same, home_of, is_forked};
use crate::thread_state;

impl Launch for Stream {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe {
            match warm_launch(self, kernel, &config, args) {
                Some(launch) => launch_warm(self, kernel, launch, config, args),
                None => launch_cold(self, kernel, config, args),
            }
        }
    }
}

/// The launch as this thread remembers it, if nothing is left to do for it but the driver's call: the thread has launched the
/// kernel in this shape before, and the arguments are at home on `stream`. Most launches in a loop are such ones, and the
/// driver evicts the processor's caches in between, so what counts here is how little code and data is touched.
#[inline]
fn warm_launch(
    stream: &Stream,
    kernel: &'static Kernel,
    config: &LaunchConfig,
    args: &Args<'_>,
) -> Option<CheckedLaunch> {
    let own = Arc::as_ptr(stream.inner());
    let is_at_home = |home: Home<'_>| ptr::addr_eq(home.as_ptr(), own);
    if !thread_state::is_plain() || !args.homes().all(is_at_home) {
        return None;
    }
    let launch = stream.module().checked(kernel, config)?;
    (args.is_of(kernel) || have_sizes(args, kernel)).then_some(launch)
}

/// Makes the driver's call of a launch that needs nothing else.
///
/// # Safety
/// As [`Launch::launch`].
#[inline]
unsafe fn launch_warm(
    stream: &Stream,
    kernel: &'static Kernel,
    launch: CheckedLaunch,
    config: LaunchConfig,
    args: &Args<'_>,
) -> GpuResult<()> {
    #[cfg(feature = "nvtx")]
    let _range = crate::nvtx::range(kernel.name);
    let (inner, function) = (stream.inner(), launch.function);
    let epoch = inner.launch_epoch();
    if launch.noted != epoch {
        note_warm(stream, kernel, &config);
    }
    let launched = inner.context().call_on_stream("cuLaunchKernelEx", || {
        // SAFETY: the caller's promise.
        unsafe {
            match launch.has_attributes {
                false => start_raw(inner.handle(), function, config, args, &[]),
                true => start_with_attributes(inner, kernel, function, config, args),
            }
        }
    });
    // Otherwise this thread has counted a launch of the epoch, which is enough: an epoch begins behind each count that is
    // compared with a later one. So most launches make no atomic addition.
    if launch.noted != epoch || inner.launch_epoch() != epoch {
        inner.context().count_submission();
    }
    launched.with_gpu_context(|| format!("launching `{}`", kernel.name))
}

/// Notes a launch that this thread has not noted since the latest wait began.
#[cold]
fn note_warm(stream: &Stream, kernel: &'static Kernel, config: &LaunchConfig) {
    let epoch = stream.inner().note_launch(kernel.name, config);
    stream.module().set_noted(kernel, config, epoch);
}

/// The driver's launch in clusters, with an early start, or with both.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn start_with_attributes(
    stream: &StreamInner,
    kernel: &'static Kernel,
    function: sys::CUfunction,
    config: LaunchConfig,
    args: &Args<'_>,
) -> sys::CUresult {
    let early = groups::starts_early(&kernel.contract, stream.context().info());
    let early = early.then(groups::early_start);
    let attributes = kernel.contract.cluster.map(groups::clusters).into_iter().chain(early);
    let attributes: SmallVec<[LaunchAttribute; 2]> = attributes.collect();
    // SAFETY: the caller's promise.
    unsafe { start_raw(stream.handle(), function, config, args, &attributes) }
}

/// Checks a launch, and enqueues or records it in the order of its arguments' homes.
///
/// # Safety
/// As [`Launch::launch`].
#[cold]
unsafe fn launch_cold(
    stream: &Stream,
    kernel: &'static Kernel,
    config: LaunchConfig,
    args: &Args<'_>,
) -> GpuResult<()> {
    if let Some(graph) = recorder::current() {
        return graph.launch(stream, kernel, config, args);
    }
    let homes = homes(stream, kernel, args)?;
    let Some(prepared) = prepare(stream, kernel, config, args)? else { return Ok(()) };
    // SAFETY: the caller's promise.
    unsafe { queue(stream, kernel, &homes, &prepared, args) }
        .with_gpu_context(|| format!("launching `{}`", kernel.name))
}

impl Launch for Gpu {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        // SAFETY: the caller's promise.
        unsafe { self.as_stream().launch(kernel, config, args) }
    }
}

/// A launch that was checked against the kernel and the device.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) function: Function,
    pub(crate) config: LaunchConfig,
    pub(crate) attributes: Vec<LaunchAttribute>,
}

/// Checks a launch and prepares it for the driver; `None` for a grid without blocks.
pub(crate) fn prepare(
    stream: &Stream,
    kernel: &'static Kernel,
    config: LaunchConfig,
    args: &Args<'_>,
) -> GpuResult<Option<Prepared>> {
    let asked = config;
    let config = kernel
        .contract
        .apply(config)
        .map_err(|broken| GpuError::Contract { kernel: kernel.name, broken })?;
    if config.is_empty() {
        return Ok(None);
    }
    check_dims(kernel.name, &config, stream.inner().context().info())?;
    let prepared = prepare_function(stream, kernel, config, args)
        .with_gpu_context(|| format!("launching `{}`", kernel.name))?;
    if !kernel.contract.cooperative && config == asked {
        let (function, has_attributes) =
            (prepared.function.handle, !prepared.attributes.is_empty());
        stream.module().note_checked(kernel, config, function, has_attributes);
    }
    Ok(Some(prepared))
}

fn prepare_function(
    stream: &Stream,
    kernel: &'static Kernel,
    config: LaunchConfig,
    args: &Args<'_>,
) -> GpuResult<Prepared> {
    groups::check_device(&kernel.contract, stream.inner().context().info())?;
    let function = stream.module().function(kernel)?;
    check_args(kernel, args)?;
    check_function(kernel.name, &config, function, stream.inner().context().info())?;
    allow_shared(stream, kernel, &config, function)?;
    let attributes = groups::attributes(stream, kernel, &config, function)?;
    Ok(Prepared { function, config, attributes })
}

/// Enqueues the kernel in the order of its arguments' homes.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn queue(
    stream: &Stream,
    kernel: &'static Kernel,
    homes: &Homes<'_>,
    prepared: &Prepared,
    args: &Args<'_>,
) -> GpuResult<()> {
    #[cfg(feature = "nvtx")]
    let _range = crate::nvtx::range(kernel.name);
    let ends = match homes.shared.as_slice() {
        [] => Vec::new(),
        all => {
            let ends = all.iter().map(|_| Event::untimed(stream.inner().context()));
            ends.collect::<GpuResult<Vec<Event>>>()?
        }
    };
    let launch = || {
        stream.inner().note_launch(kernel.name, &prepared.config);
        // SAFETY: the caller's promise.
        let start = |handle| unsafe { start(stream.inner(), handle, prepared, args) };
        match declared_uses(kernel, args) {
            Some(uses) => stream.inner().ordered_uses(&uses, start),
            None => stream.inner().ordered(&homes.streams, || start(stream.inner().handle())),
        }
    };
    let queued = match homes.unordered {
        false => launch(),
        true => unordered::launch_and_wait(stream.inner(), launch),
    };
    homes.shared.iter().zip(ends).for_each(|(memory, end)| memory.used_by(stream.inner(), end));
    queued
}

/// What the launch uses of each home's memory, where this thread enqueues branches and the arguments say all of it; `None`
/// where the homes have to order the launch with everything else.
fn declared_uses(kernel: &'static Kernel, args: &Args<'_>) -> Option<SmallVec<[HomeUse; 4]>> {
    if !is_forked() {
        return None;
    }
    let is_length = |param: &Param| param.kind == ParamKind::Length;
    let declared = |value: usize| {
        // The memory behind one value may be more than that value: a tensor's description, say.
        let is_array = kernel.params.get(value + 1).is_some_and(is_length);
        is_array && args.memory().iter().any(|memory| memory.value == value)
    };
    let is_pointer = |&(_, param): &(usize, &Param)| param.kind == ParamKind::Pointer;
    let mut pointers = kernel.params.iter().enumerate().filter(is_pointer);
    if !pointers.all(|(value, _)| declared(value)) {
        return None;
    }
    args.memory().iter().map(HomeUse::of).collect()
}

/// The driver's launch.
///
/// # Safety
/// As [`Launch::launch`].
unsafe fn start(
    stream: &StreamInner,
    handle: sys::CUstream,
    prepared: &Prepared,
    args: &Args<'_>,
) -> GpuResult<()> {
    let &Prepared { function, config, ref attributes } = prepared;
    stream.context().call("cuLaunchKernelEx", || {
        // SAFETY: the caller's promise.
        unsafe { start_raw(handle, function.handle, config, args, attributes) }
    })
}

/// Like [`start`], with the stream's context current already. By `cuLaunchKernelEx` even without attributes: NVIDIA's
/// `cuLaunchKernel` takes 50 ns longer.
///
/// # Safety
/// As [`Launch::launch`].
#[inline]
pub(super) unsafe fn start_raw(
    stream: sys::CUstream,
    function: sys::CUfunction,
    config: LaunchConfig,
    args: &Args<'_>,
    attributes: &[LaunchAttribute],
) -> sys::CUresult {
    let config = groups::driver_config(stream, config, attributes);
    args.with_pointers(|values| {
        let (params, extra) = (values.as_ptr().cast(), ptr::null());
        // SAFETY: the function's module is loaded, the values are the kernel's parameters in order
        // (the caller's promise), and the driver copies them before it returns.
        match unsafe { sys::cuLaunchKernelEx(&config, function, params, extra) } {
            sys::CUresult::CUDA_ERROR_NOT_FOUND if attributes.is_empty() => {
                // SAFETY: as above.
                unsafe { start_on_old_driver(&config, function, values) }
            }
            result => result,
        }
    })
}

/// The launch on a driver before that of CUDA 11.8, which has no `cuLaunchKernelEx`.
///
/// # Safety
/// As [`Launch::launch`].
#[cold]
unsafe fn start_on_old_driver(
    config: &CUlaunchConfig,
    function: sys::CUfunction,
    values: &[*mut c_void],
) -> sys::CUresult {
    let CUlaunchConfig { grid: g, block: b, shared_mem_bytes: shared, stream: s, .. } = *config;
    let (f, values, extra) = (function, values.as_ptr().cast(), ptr::null());
    // SAFETY: the caller's promise.
    unsafe { sys::cuLaunchKernel(f, g[0], g[1], g[2], b[0], b[1], b[2], shared, s, values, extra) }
}

/// Checks that the arguments' memory is on this device and is ordered by streams of this crate.
pub(crate) fn check_homes(
    stream: &Stream,
    kernel: &'static Kernel,
    args: &Args<'_>,
) -> GpuResult<()> {
    if args.homes().any(|home| home.is::<PeerHome>()) {
        let what = "another device's memory in a graph: copy it with copy_from_peer before";
        return Err(GpuError::Unsupported { what });
    }
    if args.homes().any(|home| shared_of(home).is_some()) {
        let what = "a graph with memory that host and kernels use at once: launch the kernel";
        return Err(GpuError::Unsupported { what });
    }
    if homes(stream, kernel, args)?.unordered {
        let what = "a graph with memory of another library: launch the kernel";
        return Err(GpuError::Unsupported { what });
    }
    Ok(())
}

/// What orders the arguments; for up to four of each kind without an allocation.
#[derive(Default)]
pub(super) struct Homes<'a> {
    /// The streams that order arguments.
    pub(super) streams: SmallVec<[&'a StreamInner; 4]>,
    /// The memory of arguments that no stream orders.
    pub(super) shared: SmallVec<[&'a SharedMemory; 4]>,
    /// Whether an argument is memory of another library, for which the launch waits.
    pub(super) unordered: bool,
}

/// Finds what orders the arguments.
pub(super) fn homes<'a>(
    stream: &Stream,
    kernel: &'static Kernel,
    args: &'a Args<'_>,
) -> GpuResult<Homes<'a>> {
    let (here, mut homes) = (stream.inner().context(), Homes::default());
    for (memory, home) in args.memory().iter().filter_map(|own| Some((own, own.home?))) {
        if let Some(home) = home_of(home) {
            home.check_device(here, "an argument")?;
            homes.streams.push(home);
        } else if let Some(memory) = shared_of(home) {
            check_same(here, memory.context(), "an argument")?;
            homes.shared.push(memory);
        } else if home.is::<Unordered>() {
            check_memory(here, "an argument", memory.address, memory.bytes)?;
            homes.unordered = true;
        } else {
            let peer = home.downcast_ref::<PeerHome>();
            let peer = peer.ok_or(GpuError::ForeignStream { kernel: kernel.name })?;
            homes.streams.push(peer.home_for(here)?);
        }
    }
    if homes.unordered && !homes.shared.is_empty() {
        let what = "a launch that waits, for another library's memory, with memory that host and kernels use at once";
        return Err(GpuError::Unsupported { what });
    }
    Ok(homes)
}
