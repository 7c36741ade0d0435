//! The stream that programs hold.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cuda_driver::sys;

use super::StreamInner;
use crate::completion::{Completion, HostCall, launch as launch_host_callback};
use crate::context::Context;
#[cfg(doc)]
use crate::error::GpuError;
use crate::error::GpuResult;
use crate::event::{Event, not_ready};
use crate::module::KernelModule;

/// A CUDA stream: an in-order queue of work on a device. A clone is the same stream.
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

/// What work can be enqueued on: a [`Stream`], or a [`Gpu`](crate::Gpu), which has a stream of its
/// own.
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
        Ok(Self::of_inner(StreamInner::new(context, priority)?, module))
    }

    pub(crate) fn of_inner(inner: StreamInner, module: &Arc<KernelModule>) -> Self {
        let inner = inner.into_shared();
        module.used_on(&inner);
        Self { inner, module: module.clone() }
    }

    /// This stream with the kernels of another module.
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

    /// Waits until all work that was enqueued on this stream is done.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn synchronize(&self) -> GpuResult<()> {
        self.inner.synchronize()
    }

    /// Whether all work that was enqueued on this stream is done.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn is_idle(&self) -> GpuResult<bool> {
        // SAFETY: the stream lives.
        let query = || unsafe { sys::cuStreamQuery(self.inner.handle()) };
        let moment = self.inner.launches.clock();
        let idle = not_ready(self.inner.context.call("cuStreamQuery", query))?;
        if idle {
            self.inner.check_panics(moment)?;
        }
        Ok(idle)
    }

    /// Records an event after the work enqueued so far (`cuEventRecord`).
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn record_event(&self) -> GpuResult<Event> {
        let mut event = Event::timed(&self.inner.context)?;
        let number = self.inner.record_numbered(&event)?;
        event.set_recorded(&self.inner.launches, &self.inner, number);
        Ok(event)
    }

    /// A future that is ready when all work enqueued so far is done: see [`Completion`].
    pub fn completed(&self) -> Completion {
        self.inner.completed(None)
    }

    /// Enqueues a host callback: the stream calls `function` after the work enqueued so far, and
    /// later work waits for it. After a fault of the device `function` is dropped without a call,
    /// and the result is that fault.
    ///
    /// The function must not call the driver, directly or through this crate: such calls return
    /// [`InHostCallback`](GpuError::InHostCallback) errors. A panic in it is the error of the next
    /// wait for this stream, or of the [`HostCall`].
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn launch_host_func<R: Send + 'static>(
        &self,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> GpuResult<HostCall<R>> {
        launch_host_callback(&self.inner, function)
    }

    /// Creates `n` streams whose work begins after the work enqueued here so far.
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
            stream.inner.wait_stream(&self.inner)?;
            Ok(stream)
        };
        (0..n).map(branch).collect()
    }

    /// Makes the work that is enqueued here from now on wait for the work that `branches` have now.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a stream of another device; a driver's refusal.
    pub fn join(&self, branches: &[Stream]) -> GpuResult<()> {
        for branch in branches.iter().filter(|branch| branch.inner.handle != self.inner.handle) {
            branch.inner.check_device(self.inner.context(), "a stream to join")?;
            self.inner.wait_stream(&branch.inner)?;
        }
        Ok(())
    }

    /// The stream's priority: blocks of streams with lower numbers are scheduled first.
    ///
    /// # Errors
    /// The fault of an earlier kernel.
    pub fn priority(&self) -> GpuResult<i32> {
        let mut priority = 0;
        // SAFETY: the stream lives, and `priority` is writable.
        let get = || unsafe { sys::cuStreamGetPriority(self.inner.handle, &mut priority) };
        self.inner.context.call("cuStreamGetPriority", get)?;
        Ok(priority)
    }

    /// Waits until all work that was enqueued on this stream is done, or until `timeout` has
    /// passed; returns whether it is done. A kernel that hangs ends only with its process.
    ///
    /// # Errors
    /// The fault of any kernel that ran on the device.
    pub fn synchronize_timeout(&self, timeout: Duration) -> GpuResult<bool> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(10);
        while !self.is_idle()? {
            let Some(left) = timeout.checked_sub(start.elapsed()) else { return Ok(false) };
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(Duration::from_millis(1));
        }
        Ok(true)
    }

    /// Makes the work that is enqueued from now on wait for `event` (`cuStreamWaitEvent`).
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn wait_event(&self, event: &Event) -> GpuResult<()> {
        self.inner.launches.absorb(event.launches());
        self.inner.wait_event(event)
    }

    /// Runs `work` and returns how long the work that it enqueued on this stream took on the
    /// device, in milliseconds, measured with events. Waits for that work. On the emulator it is
    /// wall time.
    ///
    /// # Errors
    /// The error of `work`, or the fault of a kernel.
    pub fn time<R>(&self, work: impl FnOnce() -> GpuResult<R>) -> GpuResult<(R, f64)> {
        let start = self.record_event()?;
        let value = work()?;
        let end = self.record_event()?;
        Ok((value, end.milliseconds_since(&start)?))
    }
}
