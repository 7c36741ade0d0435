//! Contexts: what they own, which one is current on a thread, and how they end.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::gpu::Gpu;
use super::preferences::Preferences;
use super::queue::{ContextStreams, StreamQueue, SyncPoint, Task};
use super::registry::{Handle, Registry};
use crate::codes::{CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT};
use crate::detail::{DriverError, DriverResult};

/// A context.
pub(super) struct Context {
    pub(super) handle: Handle,
    pub(super) gpu: &'static Gpu,
    pub(super) flags: AtomicU32,
    pub(super) preferences: Mutex<Preferences>,
    pub(super) streams: ContextStreams,
    primary: bool,
    destroyed: AtomicBool,
}

static CONTEXTS: Registry<Context> = Registry::new("context");

/// Releases what was made in the context of this handle.
pub(super) type DestroyHook = fn(Handle) -> DriverResult;

/// The hooks that run when a context is destroyed, in order.
static DESTROY_HOOKS: OnceLock<&'static [DestroyHook]> = OnceLock::new();

/// Sets the hooks that run when a context is destroyed. Only the first call has an effect.
pub(super) fn on_destroy(hooks: &'static [DestroyHook]) {
    let _ = DESTROY_HOOKS.set(hooks);
}

thread_local! {
    /// This thread's stack of contexts; the last one is current.
    static STACK: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

impl Context {
    /// Makes a context of a device.
    pub(super) fn create(gpu: &'static Gpu, flags: u32, primary: bool) -> Arc<Self> {
        let handle = Handle::fresh();
        let context = Arc::new(Self {
            handle,
            gpu,
            flags: AtomicU32::new(flags),
            preferences: Mutex::default(),
            streams: ContextStreams::new(gpu),
            primary,
            destroyed: AtomicBool::new(false),
        });
        CONTEXTS.put(handle, context.clone());
        context
    }

    /// Whether this is the device's primary context.
    pub(super) fn is_primary(&self) -> bool {
        self.primary
    }

    /// Fails if the context was destroyed.
    pub(super) fn check_alive(&self) -> DriverResult {
        if self.destroyed.load(Ordering::Acquire) { Err(destroyed()) } else { Ok(()) }
    }

    /// Fails if the context was destroyed or the device is lost.
    pub(super) fn check(&self) -> DriverResult {
        self.check_alive()?;
        self.gpu.check()
    }

    /// Waits for all tasks, then releases everything that was made in the context.
    pub(super) fn destroy(&self) -> DriverResult {
        self.destroyed.store(true, Ordering::Release);
        self.streams.wait_all();
        // Fails if another thread is destroying the context already, which does the rest.
        CONTEXTS.remove(self.handle)?;
        let hooks = DESTROY_HOOKS.get().into_iter().copied().flatten();
        hooks.into_iter().try_for_each(|hook| hook(self.handle))
    }

    /// Enqueues a task on one of the context's streams. The context lives at least as long as its
    /// tasks.
    pub(super) fn enqueue(
        self: &Arc<Self>,
        queue: &StreamQueue,
        task: Task,
    ) -> DriverResult<SyncPoint> {
        self.streams.enqueue(self.clone(), queue, task)
    }

    /// Blocks until all points are reached, then fails if the device was lost.
    pub(super) fn wait(&self, points: &[SyncPoint]) -> DriverResult {
        points.iter().for_each(SyncPoint::wait);
        self.check()
    }

    /// Blocks until a point is reached in a call that the API allows to return earlier, then fails
    /// if the device was lost.
    pub(super) fn wait_without_ordering(&self, point: &SyncPoint) -> DriverResult {
        point.wait_without_ordering();
        self.check()
    }
}

fn destroyed() -> DriverError {
    DriverError::new(CUDA_ERROR_CONTEXT_IS_DESTROYED, "this thread's current context was destroyed")
}

/// The live context of this handle, or `CUDA_ERROR_INVALID_CONTEXT`.
pub(super) fn from_handle(handle: impl Into<Handle>) -> DriverResult<Arc<Context>> {
    CONTEXTS.find(handle.into()).ok_or_else(|| {
        DriverError::new(CUDA_ERROR_INVALID_CONTEXT, "the handle is not that of a live context")
    })
}

/// This thread's current context, even if it was destroyed. A thread that is ending has none.
pub(super) fn top() -> Option<Arc<Context>> {
    STACK.try_with(|stack| stack.borrow().last().cloned()).ok().flatten()
}

/// This thread's current context, if it is not destroyed. Its device may be lost.
pub(super) fn attached() -> DriverResult<Arc<Context>> {
    let context = top().ok_or_else(none_current)?;
    context.check_alive()?;
    Ok(context)
}

/// This thread's current context, if neither it is destroyed nor its device lost.
pub(super) fn current() -> DriverResult<Arc<Context>> {
    let context = attached()?;
    context.gpu.check()?;
    Ok(context)
}

fn none_current() -> DriverError {
    let text = "no context is current on this thread; every thread must make one current itself";
    DriverError::new(CUDA_ERROR_INVALID_CONTEXT, text)
}

/// Pushes `context` on the thread's stack, which makes it current.
pub(super) fn push(context: Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Pops the current context; the one below becomes current.
pub(super) fn pop() -> DriverResult<Arc<Context>> {
    STACK.with_borrow_mut(Vec::pop).ok_or_else(none_current)
}

/// Replaces the current context by `context`; with `None`, only pops it.
pub(super) fn replace(context: Option<Arc<Context>>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}
