//! A device's primary context, and the one way in which this crate calls the driver.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use cust::context::Context as PrimaryContext;
use cust::sys;

use crate::completion::{HostPanics, Waiting, in_host_func, keep, sweep};
use crate::device::{self, DeviceInfo, check, check_process};
use crate::error::{GpuContext, GpuError, GpuResult, is_sticky};
use crate::graph::{GraphError, capture};
use crate::memory::{ContextPool, Deferred, PageableRing, StagingCache, Usage};
use crate::panic::Panics;
use crate::ring::Persistent;

/// A device's primary context. Whatever lives on the device holds an `Arc` of it, so it ends after
/// the last of them.
pub(crate) struct Context {
    primary: PrimaryContext,
    info: DeviceInfo,
    lost: OnceLock<Arc<GpuError>>,
    panics: Panics,
    usage: Usage,
    ordered: ContextPool,
    host_panics: HostPanics,
    waiting: Waiting,
    staging: StagingCache,
    pageable: PageableRing,
    persistent: Arc<Persistent>,
    deferred: Deferred,
    /// Counts the calls that may have given a stream something to do.
    work: AtomicU64,
}

/// Whatever lives on the device holds it, so it is short: with all that it keeps, a buffer would be pages.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(GPU {})", self.info.ordinal)
    }
}

impl Context {
    pub(crate) fn new(ordinal: u32) -> GpuResult<Arc<Self>> {
        device::init()?;
        let device = device::get(ordinal)?;
        let info = DeviceInfo::read(ordinal, device)?;
        let primary = PrimaryContext::new(device)
            .with_gpu_context(|| format!("opening a context on GPU {ordinal}"))?;
        let persistent = Persistent::of(primary.as_raw());
        let context = Arc::new(Self {
            primary,
            info,
            lost: OnceLock::new(),
            panics: Panics::default(),
            usage: Usage::default(),
            ordered: ContextPool::default(),
            host_panics: HostPanics::default(),
            waiting: Waiting::default(),
            staging: StagingCache::default(),
            pageable: PageableRing::default(),
            persistent,
            deferred: Deferred::default(),
            work: AtomicU64::new(0),
        });
        context.persistent.join(&context);
        Ok(context)
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// What its kernels said when they panicked.
    pub(crate) fn panics(&self) -> &Panics {
        &self.panics
    }

    /// How much memory of the device its owners have.
    pub(crate) fn usage(&self) -> &Usage {
        &self.usage
    }

    /// The pool of what is allocated in a stream's order.
    pub(crate) fn ordered(&self) -> &ContextPool {
        &self.ordered
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> sys::CUcontext {
        self.primary.as_raw()
    }

    /// What host functions of its streams, and wakers of its futures, said when they panicked.
    pub(crate) fn host_panics(&self) -> &HostPanics {
        &self.host_panics
    }

    /// What waits for its streams.
    pub(crate) fn waiting(&self) -> &Waiting {
        &self.waiting
    }

    /// The ring for copies of pageable memory.
    pub(crate) fn pageable(&self) -> &PageableRing {
        &self.pageable
    }

    /// Page-locked memory that nobody uses.
    pub(crate) fn staging(&self) -> &StagingCache {
        &self.staging
    }

    /// The persistent kernels of its device.
    pub(crate) fn persistent(&self) -> &Persistent {
        &self.persistent
    }

    /// The frees that persistent kernels put off.
    pub(crate) fn deferred(&self) -> &Deferred {
        &self.deferred
    }

    /// The fault that ended the context, if one did.
    pub(crate) fn lost(&self) -> Option<GpuError> {
        self.lost.get().map(|cause| GpuError::DeviceLost { cause: cause.clone() })
    }

    /// Whether both are the same context of the same device.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }

    /// Calls the driver with this context current on this thread. After a fault that ended the
    /// context it does not call, and answers with that fault.
    pub(crate) fn call(
        &self,
        operation: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> GpuResult<()> {
        let called = self.look(operation, function);
        self.note_work();
        called
    }

    /// The same for a call that gives no stream anything to do that others could wait for.
    pub(crate) fn look(
        &self,
        operation: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> GpuResult<()> {
        capture::check(operation)?;
        if in_host_func() {
            return Err(GpuError::InHostFunc { operation });
        }
        check_process()?;
        if let Some(lost) = self.lost() {
            return Err(lost);
        }
        sweep();
        self.bind().and_then(|()| check(operation, function())).map_err(|error| self.note(error))
    }

    /// Notes that a stream may have been given something to do.
    pub(crate) fn note_work(&self) {
        self.work.fetch_add(1, Ordering::Release);
    }

    /// A number that is another one whenever a stream has been given something to do in between.
    pub(crate) fn work(&self) -> u64 {
        self.work.load(Ordering::Acquire)
    }

    /// Calls the driver where an error could not be handled: in `drop`. Not in a host function of a
    /// stream, and not in a forked child: what is released there is left alone. Whether it succeeded.
    pub(crate) fn release(&self, function: impl FnOnce() -> sys::CUresult) -> bool {
        if in_host_func() || check_process().is_err() {
            return false;
        }
        // There is no second chance to release, but one to make the context current.
        let bound = self.bind().or_else(|_| self.bind()).is_ok();
        let done = bound && function() == sys::CUresult::CUDA_SUCCESS;
        self.note_work();
        if !done {
            cuda_driver::take_detail();
        }
        done
    }

    /// The same where a host function of a stream may be what drops: then it is called later.
    pub(crate) fn end(self: &Arc<Self>, function: impl FnOnce() -> sys::CUresult + Send + 'static) {
        if in_host_func() {
            keep(Box::new(End { context: self.clone(), function: Some(function) }));
        } else {
            self.release(function);
        }
    }

    /// Drops what kernels may still use, after all of them have run; never where one does not end.
    pub(crate) fn drop_after_all<T: Send + 'static>(self: &Arc<Self>, held: T) {
        if self.persistent.running() > 0 {
            std::mem::forget(held);
            return;
        }
        self.end(move || {
            // SAFETY: `end` made the context current.
            let Some(code) = capture::device_wait(|| unsafe { sys::cuCtxSynchronize() }) else {
                std::mem::forget(held);
                return sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
            };
            drop(held);
            code
        });
    }

    pub(crate) fn synchronize(&self) -> GpuResult<()> {
        self.wait_for_all()?;
        self.host_panics.check_all()?;
        self.panics.take_all().map_or(Ok(()), |panic| Err(panic.into()))
    }

    /// Waits until all work on the device is done. Whoever waits for a stream is told of its panics as before.
    pub(crate) fn wait_for_all(&self) -> GpuResult<()> {
        let running = self.persistent.running();
        if running > 0 {
            return Err(GpuError::PersistentKernels { running });
        }
        const WAIT: &str = "cuCtxSynchronize";
        // SAFETY: `call` made the context current.
        let wait = || self.call(WAIT, || unsafe { sys::cuCtxSynchronize() });
        capture::device_wait(wait).ok_or(GraphError::NotCapturable { operation: WAIT })??;
        self.free_deferred();
        Ok(())
    }

    /// (free, total) bytes of the device's memory.
    pub(crate) fn memory_info(&self) -> GpuResult<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are writable.
        self.call("cuMemGetInfo", || unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Lets each thread have so much stack, unless it has more.
    pub(crate) fn at_least_stack(&self, bytes: usize) -> GpuResult<()> {
        const STACK: sys::CUlimit = sys::CUlimit_enum::CU_LIMIT_STACK_SIZE;
        if bytes == 0 {
            return Ok(());
        }
        let mut now = 0;
        // SAFETY: `now` is writable.
        self.call("cuCtxGetLimit", || unsafe { sys::cuCtxGetLimit(&mut now, STACK) })?;
        if now >= bytes {
            return Ok(());
        }
        // SAFETY: the call has no precondition.
        self.call("cuCtxSetLimit", || unsafe { sys::cuCtxSetLimit(STACK, bytes) })
    }

    /// Makes this context the thread's current one. It mostly is: asking costs less than telling, and an
    /// answer that was remembered would be wrong once other code had told the driver another one.
    fn bind(&self) -> GpuResult<()> {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is writable.
        check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
        if current == self.raw() {
            return Ok(());
        }
        // SAFETY: the primary context is retained until `self` is dropped.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.raw()) })
    }

    /// Remembers the first error that ended the context, and answers with it ever after.
    fn note(&self, error: GpuError) -> GpuError {
        match error.driver() {
            Some(driver) if is_sticky(driver.code()) => {
                let error = match self.panics.take_all().map(Box::new) {
                    Some(panic) => GpuError::FaultAfterPanic { panic, fault: Box::new(error) },
                    None => error,
                };
                let cause = self.lost.get_or_init(|| Arc::new(error)).clone();
                self.waiting.lose(&self.host_panics);
                GpuError::DeviceLost { cause }
            }
            _ => error,
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        self.free_deferred();
        self.hand_over_deferred();
        std::mem::take(&mut self.pageable).close(self);
        if let Some(pool) = self.ordered.take() {
            pool.destroy(self);
        }
        self.staging.clear(self);
    }
}

/// A driver's call that was put off.
struct End<F: FnOnce() -> sys::CUresult> {
    context: Arc<Context>,
    function: Option<F>,
}

impl<F: FnOnce() -> sys::CUresult> Drop for End<F> {
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            self.context.release(function);
        }
    }
}

/// A handle of the driver on its way to another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

// SAFETY: nobody follows it but the driver, which may be called from any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above, and from several threads at once.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}
