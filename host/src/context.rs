//! A context of a device, and the one way in which this crate calls the driver.

use std::any::Any;
use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use cuda_driver::sys;

use crate::capture;
use crate::device::{self, DeviceInfo, check, check_process};
use crate::error::{DriverError, GpuContext, GpuError, GpuResult, KernelPanic, is_sticky};
use crate::foreign::ForeignOwner;
use crate::host_callback::{defer_drop, drop_deferred, in_host_callback};
use crate::thread_state;

/// A context of a device: its primary one, or one that other code has made. Whatever lives on the device holds an `Arc` of
/// it, so it ends after the last of them.
pub(crate) struct Context {
    info: DeviceInfo,
    lost: OnceLock<Arc<GpuError>>,
    /// See [`submissions`](Self::submissions).
    submissions: AtomicU64,
    /// What other modules keep for each context, by [`Slot`].
    states: [OnceLock<Box<dyn ContextState>>; Slot::COUNT],
    this: Weak<Self>,
    /// The last field, so that it is dropped last.
    driver: DriverContext,
}

/// What another module keeps for each context: made at its first use, dropped with the context.
pub(crate) trait ContextState: Any + Send + Sync + UnwindSafe + RefUnwindSafe {
    /// The first kernel panic that no caller was told of; all panics then count as reported.
    fn take_panic(&self) -> Option<KernelPanic> {
        None
    }

    /// A fault has ended the context. May be called more than once.
    fn device_lost(&self, _context: &Context) {}

    /// The context is about to be dropped: the driver can be called for the last time.
    fn close(&self, _context: &Context) {}
}

/// Where a [`ContextState`] is kept. Each type has a slot of its own; they close in this order.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Slot {
    DeferredFrees,
    StagedCopies,
    StreamOrderedPool,
    PinnedCache,
    KernelPanics,
    CallbackPanics,
    Signals,
    MemoryUsage,
    PersistentKernels,
}

impl Slot {
    const COUNT: usize = Self::PersistentKernels as usize + 1;
}

/// Short: everything on the device holds the context, and would print all of it.
impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Context(GPU {})", self.info.ordinal)
    }
}

impl Context {
    /// The primary context of the device with this ordinal.
    pub(crate) fn primary(ordinal: u32) -> GpuResult<Arc<Self>> {
        device::init()?;
        let device = device::get(ordinal)?;
        let info = DeviceInfo::read(ordinal, device)?;
        let driver = DriverContext::retain_primary(device)
            .with_gpu_context(|| format!("opening a context on GPU {ordinal}"))?;
        Ok(Self::of_driver(driver, info))
    }

    /// A context that other code has made, which `owner` ends where it is dropped.
    ///
    /// # Safety
    /// `handle` is a context that lives as long as `owner`.
    pub(crate) unsafe fn of_owner(
        handle: sys::CUcontext,
        owner: Box<dyn ForeignOwner>,
    ) -> GpuResult<Arc<Self>> {
        // Made first, so that an error drops the owner as the last use does.
        let driver = DriverContext { handle, end: End::Owner(Some(owner)) };
        device::init()?;
        // SAFETY: the caller's promise.
        let device = unsafe { device::of_context(handle)? };
        let info = DeviceInfo::read(device::ordinal_of(device)?, device)?;
        Ok(Self::of_driver(driver, info))
    }

    fn of_driver(driver: DriverContext, info: DeviceInfo) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            info,
            lost: OnceLock::new(),
            submissions: AtomicU64::new(0),
            states: [const { OnceLock::new() }; Slot::COUNT],
            this: this.clone(),
            driver,
        })
    }

    pub(crate) fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// The driver's handle.
    pub(crate) fn raw(&self) -> sys::CUcontext {
        self.driver.handle
    }

    /// The handle that others hold. Dead while the context is dropped.
    pub(crate) fn weak(&self) -> &Weak<Self> {
        &self.this
    }

    /// The state in `slot`, made by `new` at the first call. Takes no lock after that.
    #[inline]
    pub(crate) fn state<T: ContextState>(&self, slot: Slot, new: impl FnOnce() -> T) -> &T {
        let state: &dyn Any = &**self.states[slot as usize].get_or_init(|| Box::new(new()));
        state.downcast_ref().expect("one type alone uses a slot")
    }

    /// The fault that ended the context, if one did.
    pub(crate) fn lost(&self) -> Option<GpuError> {
        self.lost.get().map(|cause| GpuError::DeviceLost { cause: cause.clone() })
    }

    /// Whether both are the same context of the same device.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.raw() == other.raw()
    }

    /// Calls the driver with this context current on this thread, and counts the call as one that may have
    /// enqueued work. After a fault that ended the context it returns that fault and calls nothing.
    pub(crate) fn call(
        &self,
        operation: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> GpuResult<()> {
        let called = self.call_uncounted(operation, function);
        self.count_submission();
        called
    }

    /// Like [`call`](Self::call), for a driver call that enqueues nothing that others could wait for.
    pub(crate) fn call_uncounted(
        &self,
        operation: &'static str,
        function: impl FnOnce() -> sys::CUresult,
    ) -> GpuResult<()> {
        self.prepare_call(operation)?;
        self.check_call(operation, function())
    }

    /// Like [`call`](Self::call), for a call that the driver refuses where another context than that of its stream is
    /// current. That it mostly is, so it is not asked for before; `function` is called again after a refusal. What it
    /// enqueues is to be counted by the caller.
    #[inline]
    pub(crate) fn call_on_stream(
        &self,
        operation: &'static str,
        mut function: impl FnMut() -> sys::CUresult,
    ) -> GpuResult<()> {
        self.check_may_call(operation)?;
        let mut is_bound = false;
        // A loop, so that `function` is compiled into this one place.
        let result = loop {
            let result = function();
            if is_bound || !is_of_other_context(result) {
                break result;
            }
            self.bind().map_err(|error| self.remember_if_lost(error))?;
            is_bound = true;
        };
        self.check_call(operation, result)
    }

    /// Makes this context the thread's current one for calls that other code makes, after the checks that come before each
    /// driver call.
    pub(crate) fn enter(&self, operation: &'static str) -> GpuResult<()> {
        self.prepare_call(operation)
    }

    /// What comes before each driver call. Not generic, like [`Self::failed`]: there are hundreds of calls.
    fn prepare_call(&self, operation: &'static str) -> GpuResult<()> {
        self.check_may_call(operation)?;
        self.bind().map_err(|error| self.remember_if_lost(error))
    }

    /// Whether this thread may call the driver, and there is a device to call it for.
    #[inline]
    fn check_may_call(&self, operation: &'static str) -> GpuResult<()> {
        let may_call = thread_state::may_call_driver() && !cuda_driver::forked();
        if !may_call || self.lost.get().is_some() {
            // A capture takes some calls, but not all that a deferred drop may make.
            return self.explain_refusal(operation);
        }
        drop_deferred();
        Ok(())
    }

    /// The first reason for which this thread may not make this call of the driver.
    #[cold]
    fn explain_refusal(&self, operation: &'static str) -> GpuResult<()> {
        capture::check(operation)?;
        if in_host_callback() {
            return Err(GpuError::InHostCallback { operation });
        }
        check_process()?;
        self.lost().map_or(Ok(()), Err)
    }

    /// The error of a driver call, if it returned one.
    #[inline]
    fn check_call(&self, operation: &'static str, result: sys::CUresult) -> GpuResult<()> {
        if result == sys::CUresult::CUDA_SUCCESS { Ok(()) } else { self.failed(operation, result) }
    }

    #[cold]
    fn failed(&self, operation: &'static str, result: sys::CUresult) -> GpuResult<()> {
        check(operation, result).map_err(|error| self.remember_if_lost(error))
    }

    /// Counts a call that may have enqueued work on a stream.
    #[inline]
    pub(crate) fn count_submission(&self) {
        self.submissions.fetch_add(1, Ordering::Release);
    }

    /// Two equal numbers mean that no work was enqueued on a stream through this crate in between, if an epoch of the stream's
    /// launches begins behind each of them: of the launches of a thread in one epoch the first one is counted.
    pub(crate) fn submissions(&self) -> u64 {
        self.submissions.load(Ordering::Acquire)
    }

    /// Calls the driver where an error could not be handled: in `drop`. In a host callback, and in a forked
    /// child, it calls nothing, and what was to be released leaks. Returns whether the call succeeded.
    pub(crate) fn release(&self, function: impl FnOnce() -> sys::CUresult) -> bool {
        if in_host_callback() || check_process().is_err() || self.is_destroyed() {
            return false;
        }
        // Releasing cannot be tried twice, but making the context current can.
        let bound = self.bind().or_else(|_| self.bind()).is_ok();
        let done = bound && function() == sys::CUresult::CUDA_SUCCESS;
        self.count_submission();
        if !done {
            cuda_driver::take_detail();
        }
        done
    }

    /// Whether other code has reset the device or destroyed the context: everything of the context went with it, and an NVIDIA
    /// driver may crash if it is given a handle of what is gone.
    fn is_destroyed(&self) -> bool {
        let cause = self.lost.get().and_then(|cause| cause.driver());
        cause.is_some_and(|driver| self.means_destroyed(driver))
    }

    /// Whether the error is that of a context that does not exist any more.
    fn means_destroyed(&self, error: &DriverError) -> bool {
        const INVALID_CONTEXT: u32 = 201;
        const CONTEXT_IS_DESTROYED: u32 = 709;
        match error.code() {
            CONTEXT_IS_DESTROYED => true,
            // Other functions return it where no context is current, and a primary context is retained.
            INVALID_CONTEXT => {
                error.operation() == SET_CURRENT && matches!(self.driver.end, End::Owner(_))
            }
            _ => false,
        }
    }

    /// Like [`release`](Self::release), for a drop that may happen in a host callback: the call is then made later.
    pub(crate) fn release_or_defer(
        self: &Arc<Self>,
        function: impl FnOnce() -> sys::CUresult + Send + 'static,
    ) {
        if in_host_callback() {
            defer_drop(Box::new(DeferredCall { context: self.clone(), function: Some(function) }));
        } else {
            self.release(function);
        }
    }

    /// (free, total) bytes of the device's memory.
    pub(crate) fn memory_info(&self) -> GpuResult<(usize, usize)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both are writable.
        self.call("cuMemGetInfo", || unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok((free, total))
    }

    /// Raises the stack limit of each thread to `bytes`, unless it is higher.
    pub(crate) fn raise_stack_limit(&self, bytes: usize) -> GpuResult<()> {
        const STACK: i32 = sys::limit::STACK_SIZE;
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

    /// Makes this context the thread's current one. It mostly is: `cuCtxGetCurrent` costs less than
    /// `cuCtxSetCurrent`, and a remembered answer would be wrong once other code had set another context.
    #[inline]
    fn bind(&self) -> GpuResult<()> {
        let mut current = ptr::null_mut();
        // SAFETY: `current` is writable.
        let asked = unsafe { sys::cuCtxGetCurrent(&mut current) };
        if asked == sys::CUresult::CUDA_SUCCESS && current == self.raw() {
            return Ok(());
        }
        self.bind_anew(asked)
    }

    #[cold]
    fn bind_anew(&self, asked: sys::CUresult) -> GpuResult<()> {
        check("cuCtxGetCurrent", asked)?;
        // SAFETY: the context lives until `self` is dropped.
        check(SET_CURRENT, unsafe { sys::cuCtxSetCurrent(self.raw()) })
    }

    /// Remembers the first error that ended the context, and returns that one from then on.
    fn remember_if_lost(&self, error: GpuError) -> GpuError {
        match error.driver() {
            Some(driver) if is_sticky(driver.code()) || self.means_destroyed(driver) => {
                let panic = self.states().find_map(ContextState::take_panic).map(Box::new);
                let error = match panic {
                    Some(panic) => GpuError::FaultAfterPanic { panic, fault: Box::new(error) },
                    None => error,
                };
                let cause = self.lost.get_or_init(|| Arc::new(error)).clone();
                self.states().for_each(|state| state.device_lost(self));
                GpuError::DeviceLost { cause }
            }
            _ => error,
        }
    }

    fn states(&self) -> impl Iterator<Item = &dyn ContextState> {
        self.states.iter().filter_map(|state| state.get().map(|state| &**state))
    }
}

/// Whether the driver may have refused a call because another context, or none, is current.
#[inline]
fn is_of_other_context(result: sys::CUresult) -> bool {
    use sys::CUresult;
    matches!(result, CUresult::CUDA_ERROR_INVALID_CONTEXT | CUresult::CUDA_ERROR_INVALID_HANDLE)
}

impl Drop for Context {
    fn drop(&mut self) {
        self.states().for_each(|state| state.close(self));
    }
}

/// The name of the driver function that makes a context current.
const SET_CURRENT: &str = "cuCtxSetCurrent";

/// The driver's context, and how it ends.
struct DriverContext {
    handle: sys::CUcontext,
    end: End,
}

/// How a context ends, or what ends it.
enum End {
    /// A primary context lasts until all references, which the driver counts, are released.
    Release(sys::CUdevice),
    /// Other code's lasts until its owner is dropped. `None` after that.
    Owner(Option<Box<dyn ForeignOwner>>),
}

// SAFETY: the driver's functions for contexts may be called from any thread.
unsafe impl Send for DriverContext {}
// SAFETY: as above; nothing behind the handle is touched without the driver.
unsafe impl Sync for DriverContext {}

impl DriverContext {
    fn retain_primary(device: sys::CUdevice) -> GpuResult<Self> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is writable, and `device` came from the driver.
        let retained = unsafe { sys::cuDevicePrimaryCtxRetain(&mut handle, device) };
        check("cuDevicePrimaryCtxRetain", retained)?;
        Ok(Self { handle, end: End::Release(device) })
    }
}

impl Drop for DriverContext {
    fn drop(&mut self) {
        match &mut self.end {
            End::Release(device) => {
                // SAFETY: it was retained once, and is not used again.
                let released = unsafe { sys::cuDevicePrimaryCtxRelease_v2(*device) };
                if released != sys::CUresult::CUDA_SUCCESS {
                    cuda_driver::take_detail();
                }
            }
            // A host callback must not call the driver, as the owner may.
            End::Owner(owner) if in_host_callback() => defer_drop(Box::new(owner.take())),
            End::Owner(owner) => drop(owner.take()),
        }
    }
}

/// A driver call that is made when this is dropped.
struct DeferredCall<F: FnOnce() -> sys::CUresult> {
    context: Arc<Context>,
    function: Option<F>,
}

impl<F: FnOnce() -> sys::CUresult> Drop for DeferredCall<F> {
    fn drop(&mut self) {
        if let Some(function) = self.function.take() {
            self.context.release(function);
        }
    }
}

/// A handle of the driver on its way to another thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Handle<T>(pub(crate) *mut T);

// SAFETY: only the driver dereferences it, and the driver may be called from any thread.
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above, and from several threads at once.
unsafe impl<T> Sync for Handle<T> {}

impl<T> Handle<T> {
    pub(crate) fn get(self) -> *mut T {
        self.0
    }
}
