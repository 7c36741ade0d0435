//! Frees of memory and code, which are put off while a persistent kernel runs.
//!
//! `cuMemFree`, `cuMemFreeHost`, `cuModuleUnload` and `cuLibraryUnload` wait for the whole device, and while a
//! persistent kernel runs such a wait would not end. So what is freed meanwhile is kept, and is returned to the driver
//! as soon as none runs: when the kernel is shut down, at a wait for the device, or at the next free. Where the device
//! has no more memory, what is kept serves the next allocation that it is large enough for.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use cuda_driver::sys;

use crate::capture;
use crate::context::{Context, ContextState, Handle, Slot};
use crate::host_callback::{defer_drop, in_host_callback};
use crate::lock::lock;
use crate::module::Code;
use crate::persistent::PersistentKernels;
use crate::stream::StreamInner;
use crate::virtual_memory::Reservation;

/// How much memory of a device is in use through one context, and was at most.
#[derive(Debug, Default)]
pub(crate) struct Usage {
    current: AtomicUsize,
    peak: AtomicUsize,
}

impl Usage {
    /// That of `context`.
    pub(crate) fn of(context: &Context) -> &Self {
        context.state(Slot::MemoryUsage, Self::default)
    }

    pub(crate) fn add(&self, bytes: usize) {
        let now = self.current.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.peak.fetch_max(now, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.current.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The most bytes at one time.
    pub(crate) fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }
}

impl ContextState for Usage {}

/// Where memory lies that is allocated at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// On the device.
    Device,
    /// Where it is used: the driver moves it.
    Managed,
}

/// Memory, or code, to be returned to the driver.
#[derive(Debug)]
pub(crate) enum Freed {
    /// Memory that [`Usage`] counts, to be freed after all work on `home`.
    Counted {
        /// Where it is.
        kind: MemoryKind,
        /// Its first byte.
        address: u64,
        /// The stream that orders its uses.
        home: Arc<StreamInner>,
    },
    /// Memory that [`Usage`] counts, mapped at the front of reserved addresses, to be freed after all work on `home`.
    Mapped {
        /// The addresses.
        range: Reservation,
        /// The stream that orders its uses.
        home: Arc<StreamInner>,
    },
    /// Managed memory that nothing uses any more.
    Managed(u64),
    /// Page-locked memory of the host that nothing uses any more.
    Host(Handle<c_void>),
    /// Code whose kernels nothing launches any more.
    Code(Code),
}

impl Freed {
    fn is_busy(&self) -> bool {
        matches!(self, Self::Counted { home, .. } if home.is_busy())
    }
}

/// What a context's persistent kernels have put off: see [`Gpu::deferred_frees`](crate::Gpu::deferred_frees).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeferredFrees {
    /// Frees that are put off now.
    pub pending: usize,
    /// Their bytes.
    pub pending_bytes: usize,
    /// All that were ever put off.
    pub total: u64,
}

/// The frees of a context that are put off, each with its bytes.
#[derive(Debug, Default)]
struct Queue {
    list: Mutex<Vec<(Freed, usize)>>,
    total: AtomicU64,
}

impl Queue {
    fn of(context: &Context) -> &Self {
        context.state(Slot::DeferredFrees, Self::default)
    }

    fn push(&self, memory: Freed, bytes: usize) {
        self.total.fetch_add(1, Ordering::Relaxed);
        self.lock().push((memory, bytes));
    }

    fn take(&self) -> Vec<(Freed, usize)> {
        std::mem::take(&mut self.lock())
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Removes the smallest memory of that kind that is large enough, preferably memory that no work uses. Managed
    /// memory in use is never taken: the host writes to it at once, and no stream's order holds it back.
    fn take_fitting(&self, kind: MemoryKind, bytes: usize) -> Option<(Freed, usize)> {
        // The driver is asked without the lock.
        let mut all = self.take();
        let fits = |&at: &usize| match &all[at] {
            (memory @ Freed::Counted { kind: own, .. }, size) => {
                *own == kind && *size >= bytes && (kind == MemoryKind::Device || !memory.is_busy())
            }
            _ => false,
        };
        let cost = |&at: &usize| (all[at].0.is_busy(), all[at].1);
        let best = (0..all.len()).filter(fits).min_by_key(cost);
        let found = best.map(|at| all.remove(at));
        self.lock().append(&mut all);
        found
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Freed, usize)>> {
        lock(&self.list)
    }
}

impl ContextState for Queue {
    /// Frees what is put off; while a persistent kernel runs, hands it to another `Gpu` of the device instead.
    fn close(&self, context: &Context) {
        free_pending(context);
        if let Some(other) = PersistentKernels::of(context).contexts().last() {
            Queue::of(other).lock().extend(self.take());
        }
    }
}

/// The frees of a context that are put off, and were.
pub(crate) fn count(context: &Context) -> DeferredFrees {
    let queue = Queue::of(context);
    let list = queue.lock();
    DeferredFrees {
        pending: list.len(),
        pending_bytes: list.iter().map(|(_, bytes)| bytes).sum(),
        total: queue.total.load(Ordering::Relaxed),
    }
}

/// Returns memory to the driver, now or as soon as no persistent kernel runs.
pub(crate) fn free(context: &Context, memory: Freed, bytes: usize) {
    if running_kernels(context) > 0 {
        return Queue::of(context).push(memory, bytes);
    }
    free_pending(context);
    free_now(context, memory, bytes);
}

/// Like [`free`], for a drop that may happen in a host callback.
pub(crate) fn free_or_defer(context: &Arc<Context>, memory: Freed, bytes: usize) {
    if in_host_callback() {
        let memory = Some((memory, bytes));
        defer_drop(Box::new(FreedOnDrop { context: context.clone(), memory }));
    } else {
        free(context, memory, bytes);
    }
}

/// Frees what was put off, unless a persistent kernel still runs. Returns whether anything was freed.
pub(crate) fn free_pending(context: &Context) -> bool {
    if Queue::of(context).is_empty() || running_kernels(context) > 0 {
        return false;
    }
    let all = Queue::of(context).take();
    let any = !all.is_empty();
    all.into_iter().for_each(|(memory, bytes)| free_now(context, memory, bytes));
    any
}

/// Memory whose free was put off, in place of new memory that the driver does not have: `home` waits for
/// what still uses it.
pub(crate) fn reuse(home: &Arc<StreamInner>, kind: MemoryKind, bytes: usize) -> Option<u64> {
    let context = home.context();
    let (freed, size) = Queue::of(context).take_fitting(kind, bytes)?;
    let Freed::Counted { address, home: before, .. } = &freed else { return None };
    if !Arc::ptr_eq(before, home) && home.wait_stream_for_order(before).is_err() {
        Queue::of(context).lock().push((freed, size));
        return None;
    }
    Usage::of(context).remove(size);
    Usage::of(context).add(bytes);
    Some(*address)
}

/// How many persistent kernels run on the device, in a capture too.
pub(crate) fn running_kernels(context: &Context) -> usize {
    capture::outside(|| PersistentKernels::of(context).running())
}

fn free_now(context: &Context, memory: Freed, bytes: usize) {
    match memory {
        Freed::Counted { address, home, .. } => {
            home.try_synchronize();
            // SAFETY: the memory is its owner's, who uses it no more, and all work on its home is over.
            context.release(|| unsafe { sys::cuMemFree_v2(address) });
            Usage::of(context).remove(bytes);
        }
        Freed::Mapped { range, home } => {
            // Unlike `cuMemFree`, the driver waits for no work before it takes mapped memory away. So it stays where
            // the wait fails and the work may go on.
            if home.drain() {
                // SAFETY: as above.
                unsafe { range.free(context, bytes) };
                Usage::of(context).remove(bytes);
            }
        }
        Freed::Managed(address) => {
            // SAFETY: the memory is its owner's, and nothing uses it.
            context.release(|| unsafe { sys::cuMemFree_v2(address) });
        }
        Freed::Host(start) => {
            // SAFETY: as above.
            context.release(|| unsafe { sys::cuMemFreeHost(start.get()) });
        }
        Freed::Code(code) => {
            // SAFETY: as above; it is loaded, and `release` makes the context current.
            context.release(|| unsafe { code.unload() });
        }
    }
}

/// Memory that was dropped in a host callback.
struct FreedOnDrop {
    context: Arc<Context>,
    memory: Option<(Freed, usize)>,
}

impl Drop for FreedOnDrop {
    fn drop(&mut self) {
        if let Some((memory, bytes)) = self.memory.take() {
            free(&self.context, memory, bytes);
        }
    }
}
