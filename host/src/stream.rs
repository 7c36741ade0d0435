//! Streams: queues of work on a device.
//!
//! Work on one stream runs in order; work on different streams may overlap. Every buffer has a
//! *home*, the stream that it was made on. Whoever uses a buffer on another stream waits for its
//! home first, and its home waits for that use afterwards. So all uses of a buffer are in order,
//! whatever streams they run on, and safe code cannot race.

mod adopt;
mod marks;

use std::any::Any;
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use cuda_std::launch::LaunchConfig;
use cust::sys;

use crate::completion::{self, Completion, HostCall, in_host_func};
use crate::context::{Context, Handle};
use crate::error::{GpuError, GpuResult};
use crate::event::{Event, not_ready};
use crate::graph::capture;
use crate::module::KernelModule;
use crate::panic::Launches;
use marks::Marks;

/// A queue of work on a device. A clone is the same queue.
#[derive(Clone)]
pub struct Stream {
    inner: Arc<StreamInner>,
    module: Arc<KernelModule>,
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// What work can be queued on: a [`Stream`], or a [`Gpu`](crate::Gpu), which has one of its own.
pub trait AsStream {
    /// The stream.
    fn as_stream(&self) -> &Stream;
}

impl AsStream for Stream {
    fn as_stream(&self) -> &Stream {
        self
    }
}

impl Stream {
    pub(crate) fn new(context: &Arc<Context>, module: &Arc<KernelModule>) -> GpuResult<Self> {
        Self::with_priority(context, module, 0)
    }

    pub(crate) fn with_priority(
        context: &Arc<Context>,
        module: &Arc<KernelModule>,
        priority: i32,
    ) -> GpuResult<Self> {
        let inner = Arc::new(StreamInner::new(context, priority)?);
        module.used_on(&inner);
        Ok(Self { inner, module: module.clone() })
    }

    /// The same queue with the kernels of another module.
    pub(crate) fn with_module(&self, module: Arc<KernelModule>) -> Self {
        module.used_on(&self.inner);
        Self { inner: self.inner.clone(), module }
    }

    pub(crate) fn inner(&self) -> &Arc<StreamInner> {
        &self.inner
    }

    pub(crate) fn module(&self) -> &Arc<KernelModule> {
        &self.module
    }

    /// Waits until all work that was queued on this stream is done.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn synchronize(&self) -> GpuResult<()> {
        self.inner.synchronize()
    }

    /// Whether all work that was queued on this stream is done.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn is_idle(&self) -> GpuResult<bool> {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.inner.handle) };
        let moment = self.inner.launches.now();
        let idle = not_ready(self.inner.context.call("cuStreamQuery", query))?;
        if idle {
            self.inner.look_for_panics(moment)?;
        }
        Ok(idle)
    }

    /// Puts a mark behind the work that is queued now.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn record(&self) -> GpuResult<Event> {
        let mut event = Event::timed(&self.inner.context)?;
        let number = self.inner.mark(&event)?;
        event.follows(&self.inner.launches, &self.inner, number);
        Ok(event)
    }

    /// A future that is ready when all work that is queued now is done: see [`Completion`].
    pub fn completed(&self) -> Completion {
        self.inner.completed(None)
    }

    /// Lets the stream call `function` on the host when it comes to it; later work waits for it. If a
    /// fault comes before, `function` is dropped and not called, and the result says so.
    ///
    /// The function must not call the driver, so nothing of this crate that does: such calls are
    /// [`InHostFunc`](GpuError::InHostFunc) errors. A panic in it is the error of the next wait for
    /// this stream, or of the [`HostCall`].
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn launch_host_func<R: Send + 'static>(
        &self,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> GpuResult<HostCall<R>> {
        completion::launch(&self.inner, function)
    }

    /// `n` new streams whose work begins after what is queued here now.
    ///
    /// ```no_run
    /// # use ferrowarp::Gpu;
    /// let gpu = Gpu::new()?;
    /// let parts = gpu.stream().fork(3)?;
    /// // Work on each of the parts, side by side.
    /// gpu.stream().join(&parts)?;
    /// // What is queued on the Gpu's stream now comes after all of it.
    /// # Ok::<(), ferrowarp::GpuError>(())
    /// ```
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn fork(&self, n: usize) -> GpuResult<Vec<Stream>> {
        let priority = self.priority()?;
        let branch = |_| {
            let stream = Self::with_priority(self.inner.context(), &self.module, priority)?;
            stream.inner.wait_for_stream(&self.inner)?;
            Ok(stream)
        };
        (0..n).map(branch).collect()
    }

    /// Lets the work that is queued here from now on wait for what `branches` have now.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device; a driver's refusal.
    pub fn join(&self, branches: &[Stream]) -> GpuResult<()> {
        for branch in branches.iter().filter(|branch| branch.inner.handle != self.inner.handle) {
            branch.inner.check_device(self.inner.context(), "a stream to join")?;
            self.inner.wait_for_stream(&branch.inner)?;
        }
        Ok(())
    }

    /// The stream's priority: the lower the number, the sooner its blocks are taken.
    ///
    /// # Errors
    /// The fault of a kernel before.
    pub fn priority(&self) -> GpuResult<i32> {
        let mut priority = 0;
        // SAFETY: the stream lives, and `priority` is writable.
        let get = || unsafe { sys::cuStreamGetPriority(self.inner.handle, &mut priority) };
        self.inner.context.call("cuStreamGetPriority", get)?;
        Ok(priority)
    }

    /// Waits until all work that was queued on this stream is done, but not longer than `most`; returns
    /// whether it is. Nothing ends a kernel that hangs but the end of its process.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn synchronize_for(&self, most: Duration) -> GpuResult<bool> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(10);
        while !self.is_idle()? {
            let Some(left) = most.checked_sub(start.elapsed()) else { return Ok(false) };
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Lets the work that is queued from now on wait for `event`.
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn wait_for(&self, event: &Event) -> GpuResult<()> {
        self.inner.launches.absorb(event.launches());
        self.inner.wait_for(event)
    }

    /// Runs `work` and measures how long what it queued on this stream took on the device, in
    /// milliseconds. Waits for it. On the emulator that is wall time.
    ///
    /// # Errors
    /// The error of `work`, or the fault of a kernel.
    pub fn time<R>(&self, work: impl FnOnce() -> GpuResult<R>) -> GpuResult<(R, f64)> {
        let start = self.record()?;
        let value = work()?;
        let end = self.record()?;
        Ok((value, end.milliseconds_since(&start)?))
    }
}

/// The driver's stream. Buffers hold it, so it outlives them.
pub(crate) struct StreamInner {
    context: Arc<Context>,
    handle: sys::CUstream,
    /// Recorded whenever another stream has to wait for this one. One is enough: a wait takes the
    /// latest record at the moment that it is queued, and a later one only orders more.
    order: Event,
    /// What its next wait is for.
    launches: Arc<Launches>,
    /// Its events, and who rings for them.
    marks: Mutex<Marks>,
    /// Whether work on other streams, which this one should wait for, may be unfinished.
    strays: AtomicBool,
    /// Whether others than this crate know the handle, and may queue what it does not see.
    outside: AtomicBool,
}

// SAFETY: the driver's functions for streams may be called from any thread; each call binds the
// context.
unsafe impl Send for StreamInner {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for StreamInner {}

impl fmt::Debug for StreamInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Stream({:p} on GPU {})", self.handle, self.context.info().ordinal)
    }
}

impl StreamInner {
    fn new(context: &Arc<Context>, priority: i32) -> GpuResult<Self> {
        // cust 0.3.2 strips this flag, so all its streams wait for each other at every copy.
        const NON_BLOCKING: u32 = 1;
        let order = Event::untimed(context)?;
        let mut handle = ptr::null_mut();
        context.call("cuStreamCreateWithPriority", || {
            // SAFETY: `handle` is writable.
            unsafe { sys::cuStreamCreateWithPriority(&mut handle, NON_BLOCKING, priority) }
        })?;
        let launches = context.panics().new_launches();
        let (context, marks) = (context.clone(), Mutex::default());
        let (strays, outside) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { context, handle, order, launches, marks, strays, outside })
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    /// The handle for somebody else.
    pub(crate) fn give_handle(&self) -> sys::CUstream {
        self.outside.store(true, Ordering::Release);
        self.handle
    }

    fn is_known_outside(&self) -> bool {
        self.outside.load(Ordering::Acquire)
    }

    pub(crate) fn synchronize(&self) -> GpuResult<()> {
        let wait = || {
            // SAFETY: the stream lives.
            unsafe { sys::cuStreamSynchronize(self.handle) }
        };
        let moment = self.launches.now();
        self.catch_strays();
        self.context.call("cuStreamSynchronize", wait)?;
        self.look_for_panics(moment)
    }

    /// The panic of what was launched before `moment`, after a wait for it.
    fn look_for_panics(&self, moment: u64) -> GpuResult<()> {
        let result = self.context.panics().check(&self.launches);
        self.launches.done(moment);
        result.and_then(|()| self.context.host_panics().check(self.handle))
    }

    /// Notes a launch, whose panic is an error of the next wait.
    pub(crate) fn launches(&self, kernel: &'static str, config: &LaunchConfig) {
        self.launches.add(kernel, config, self.context.panics().serial());
    }

    /// A mark behind the work that is queued now; none while the stream is captured, since the
    /// mark would then become a part of the graph.
    pub(crate) fn end_unless_captured(&self) -> GpuResult<Option<Event>> {
        let mut status = sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE;
        // SAFETY: `status` is writable, and the stream lives.
        let ask = || unsafe { sys::cuStreamIsCapturing(self.handle, &mut status) };
        self.context.call("cuStreamIsCapturing", ask)?;
        if status != sys::CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE {
            return Ok(None);
        }
        let event = Event::untimed(&self.context)?;
        self.record(&event).map(|()| Some(event))
    }

    /// Whether it has work that is not done; not where a fault has ended it.
    pub(crate) fn is_busy(&self) -> bool {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.handle) };
        matches!(not_ready(self.context.look("cuStreamQuery", query)), Ok(false))
    }

    /// Waits for the stream where an error could not be handled: in `drop`. Whether it succeeded.
    pub(crate) fn settle(&self) -> bool {
        // SAFETY: the stream lives.
        self.context.release(|| unsafe { sys::cuStreamSynchronize(self.handle) })
    }

    /// The same, but whether nothing of the stream's work is under way: a lost device has stopped.
    pub(crate) fn is_over(&self) -> bool {
        self.settle() || (self.context.lost().is_some() && !in_host_func())
    }

    /// A mark behind the work that is queued now, for order alone.
    pub(crate) fn mark_end(self: &Arc<Self>) -> GpuResult<Event> {
        let mut event = Event::untimed(&self.context)?;
        let number = self.mark(&event)?;
        event.follows(&self.launches, self, number);
        Ok(event)
    }

    /// Lets `event` follow what is queued now.
    pub(crate) fn record_behind(&self, event: &Event) -> GpuResult<()> {
        event.launches().absorb(&self.launches);
        self.record(event)
    }

    fn record(&self, event: &Event) -> GpuResult<()> {
        let record = || {
            // SAFETY: event and stream live and belong to one context.
            unsafe { sys::cuEventRecord(event.handle(), self.handle) }
        };
        self.context.call("cuEventRecord", record)
    }

    fn wait_for(&self, event: &Event) -> GpuResult<()> {
        let wait = || {
            // SAFETY: event and stream live; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(self.handle, event.handle(), 0) }
        };
        self.context.call("cuStreamWaitEvent", wait)
    }

    /// Lets later work on this stream wait for the work that `other` has now.
    fn wait_for_stream(&self, other: &Self) -> GpuResult<()> {
        self.launches.absorb(&other.launches);
        self.order_after(other)
    }

    /// The same where the results of that work are nobody's business here, nor its panics.
    pub(crate) fn order_after(&self, other: &Self) -> GpuResult<()> {
        other.record(&other.order)?;
        self.wait_for(&other.order)
    }

    /// Queues `work` on this stream, ordered with all other uses of what lives on `homes`.
    pub(crate) fn ordered(
        &self,
        homes: &[&StreamInner],
        work: impl FnOnce() -> GpuResult<()>,
    ) -> GpuResult<()> {
        let foreign = self.foreign(homes);
        foreign.iter().try_for_each(|home| self.wait_for_stream(home))?;
        work()?;
        self.give_back(&foreign)
    }

    /// Lets `homes` wait for the work that is queued here now.
    fn give_back(&self, homes: &[&StreamInner]) -> GpuResult<()> {
        let joined = homes.iter().try_for_each(|home| home.wait_for_stream(self));
        // If the homes cannot be made to wait, this thread waits in their place.
        joined.inspect_err(|_| {
            if !self.settle() {
                homes.iter().for_each(|home| home.strays.store(true, Ordering::Release));
            }
        })
    }

    /// Waits for the whole device if work is on it that the stream should have waited for and could
    /// not be made to.
    pub(crate) fn catch_strays(&self) {
        if self.strays.load(Ordering::Acquire) {
            capture::device_wait(|| {
                // SAFETY: `release` made the context current.
                self.context.release(|| unsafe { sys::cuCtxSynchronize() })
            });
        }
    }

    /// The homes that are other streams than this one, each once.
    fn foreign<'a>(&self, homes: &[&'a StreamInner]) -> Vec<&'a StreamInner> {
        let mut foreign: Vec<&StreamInner> = Vec::new();
        for &home in homes {
            if home.handle != self.handle && foreign.iter().all(|f| f.handle != home.handle) {
                foreign.push(home);
            }
        }
        foreign
    }

    /// Checks that memory whose home this is can be used on a stream of `context`.
    pub(crate) fn check_device(&self, context: &Context, what: &'static str) -> GpuResult<()> {
        check_same(context, &self.context, what)
    }
}

impl Drop for StreamInner {
    fn drop(&mut self) {
        self.context.host_panics().forget(self.handle);
        let handle = Handle(self.handle);
        // SAFETY: the handle is this stream's own and is not used again; the driver lets the work
        // that is queued on it finish.
        self.context.end(move || unsafe { sys::cuStreamDestroy_v2(handle.get()) });
    }
}

/// Checks that what lives in the context `there` can be used in the context `here`.
pub(crate) fn check_same(here: &Context, there: &Context, what: &'static str) -> GpuResult<()> {
    if there.is(here) {
        return Ok(());
    }
    let (expected, found) = (here.info().ordinal, there.info().ordinal);
    Err(GpuError::WrongDevice { what, expected, found })
}

/// The stream behind an argument's home.
pub(crate) fn home_of(home: &Arc<dyn Any + Send + Sync>) -> Option<&StreamInner> {
    (**home).downcast_ref()
}
