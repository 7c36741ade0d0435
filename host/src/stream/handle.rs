//! The stream that programs hold.

use std::fmt;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use cust::sys;

use super::StreamInner;
use crate::completion::{Completion, HostCall, launch as launch_host_callback};
use crate::context::Context;
#[cfg(doc)]
use crate::error::GpuError;
use crate::error::GpuResult;
use crate::event::{Event, not_ready};
use crate::module::KernelModule;

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
    /// [`InHostCallback`](GpuError::InHostCallback) errors. A panic in it is the error of the next wait for
    /// this stream, or of the [`HostCall`].
    ///
    /// # Errors
    /// A driver's refusal.
    pub fn launch_host_func<R: Send + 'static>(
        &self,
        function: impl FnOnce() -> R + Send + 'static,
    ) -> GpuResult<HostCall<R>> {
        launch_host_callback(&self.inner, function)
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
