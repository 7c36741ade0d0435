//! Contexts: what they hold, which one a thread uses, and how all are lost.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use super::gpu::Gpu;
use super::preferences::Preferences;
use super::queue::{Line, Point, Queue, Work};
use super::registry::{Handle, Registry};
use crate::codes::{CUDA_ERROR_CONTEXT_IS_DESTROYED, CUDA_ERROR_INVALID_CONTEXT};
use crate::detail::{Answer, Failure};

/// A context.
pub(super) struct Context {
    pub(super) handle: Handle,
    pub(super) gpu: &'static Gpu,
    pub(super) flags: AtomicU32,
    pub(super) preferences: Mutex<Preferences>,
    pub(super) queue: Queue,
    primary: bool,
    destroyed: AtomicBool,
}

static CONTEXTS: Registry<Context> = Registry::new("context");

/// Forgets or frees what was made in the context of this handle.
pub(super) type DestroyHook = fn(Handle) -> Answer;

/// What is done when a context is destroyed, in this order.
static DESTROY_HOOKS: OnceLock<&'static [DestroyHook]> = OnceLock::new();

/// Sets what is done when a context is destroyed; only the first call has an effect.
pub(super) fn on_destroy(hooks: &'static [DestroyHook]) {
    let _ = DESTROY_HOOKS.set(hooks);
}

thread_local! {
    /// The contexts of this thread; the last one is current.
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
            queue: Queue::new(gpu),
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

    /// Fails where the context was destroyed.
    pub(super) fn check_alive(&self) -> Answer {
        if self.destroyed.load(Ordering::Acquire) { Err(destroyed()) } else { Ok(()) }
    }

    /// Fails where the context was destroyed, or the device is lost.
    pub(super) fn check(&self) -> Answer {
        self.check_alive()?;
        self.gpu.check()
    }

    /// Waits for all work, then forgets everything that was made in the context.
    pub(super) fn destroy(&self) -> Answer {
        self.destroyed.store(true, Ordering::Release);
        self.queue.wait_all();
        // Not there when two threads destroy it at once: the other one did the rest.
        CONTEXTS.remove(self.handle)?;
        let hooks = DESTROY_HOOKS.get().into_iter().copied().flatten();
        hooks.into_iter().try_for_each(|hook| hook(self.handle))
    }

    /// Enqueues work on one of the context's streams. The context lives at least as long as its
    /// work.
    pub(super) fn submit(self: &Arc<Self>, line: &Line, work: Work) -> Answer<Point> {
        self.queue.submit(self.clone(), line, work)
    }

    /// Blocks until all points are reached, then fails where the device was lost.
    pub(super) fn wait(&self, points: &[Point]) -> Answer {
        points.iter().for_each(Point::wait);
        self.check()
    }

    /// Blocks until a point is reached where the API does not promise that it is, then fails where
    /// the device was lost.
    pub(super) fn wait_unseen(&self, point: &Point) -> Answer {
        point.wait_unseen();
        self.check()
    }
}

fn destroyed() -> Failure {
    Failure::new(CUDA_ERROR_CONTEXT_IS_DESTROYED, "this thread's current context was destroyed")
}

/// The live context of this handle, or `CUDA_ERROR_INVALID_CONTEXT`.
pub(super) fn named(handle: impl Into<Handle>) -> Answer<Arc<Context>> {
    CONTEXTS.find(handle.into()).ok_or_else(|| {
        Failure::new(CUDA_ERROR_INVALID_CONTEXT, "the handle is that of no live context")
    })
}

/// This thread's current context, whatever state it is in. A thread that is ending has none.
pub(super) fn top() -> Option<Arc<Context>> {
    STACK.try_with(|stack| stack.borrow().last().cloned()).ok().flatten()
}

/// This thread's current context, which may have lost the device.
pub(super) fn attached() -> Answer<Arc<Context>> {
    let context = top().ok_or_else(none_current)?;
    context.check_alive()?;
    Ok(context)
}

/// This thread's current context, where it can be used.
pub(super) fn current() -> Answer<Arc<Context>> {
    let context = attached()?;
    context.gpu.check()?;
    Ok(context)
}

fn none_current() -> Failure {
    let text = "no context is current on this thread; each thread makes one current for itself";
    Failure::new(CUDA_ERROR_INVALID_CONTEXT, text)
}

/// Makes `context` current above those that the thread has.
pub(super) fn push(context: Arc<Context>) {
    STACK.with_borrow_mut(|stack| stack.push(context));
}

/// Takes the current context off; the one below becomes current.
pub(super) fn pop() -> Answer<Arc<Context>> {
    STACK.with_borrow_mut(Vec::pop).ok_or_else(none_current)
}

/// Puts `context` in the place of the current one; `None` only takes that one off.
pub(super) fn replace(context: Option<Arc<Context>>) {
    STACK.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}
