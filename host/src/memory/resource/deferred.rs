//! Frees that are put off while a persistent kernel runs.
//!
//! `cuMemFree`, `cuMemFreeHost`, `cuModuleUnload` and `cuLibraryUnload` wait for the whole device, and beside a
//! kernel that stays such a wait would not end. So what is freed meanwhile is kept, and goes back to the driver as
//! soon as none runs: when the kernel is shut down, at a wait for the device, or at the next free. Where the device
//! has no more memory, what is kept serves the next allocation that it is large enough for.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cust::sys;

use super::driver::Kind;
use crate::completion::{in_host_func, keep};
use crate::context::{Context, Handle};
use crate::graph::capture;
use crate::module::Code;
use crate::stream::StreamInner;

/// Memory, or code, on its way back to the driver.
#[derive(Debug)]
pub(crate) enum Freed {
    /// Memory that counts as the device's, to be freed behind all work on `home`.
    Counted {
        /// Where it is.
        kind: Kind,
        /// Its first byte.
        address: u64,
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
pub(crate) struct Deferred {
    list: Mutex<Vec<(Freed, usize)>>,
    total: AtomicU64,
}

impl Deferred {
    pub(crate) fn count(&self) -> DeferredFrees {
        let list = self.lock();
        DeferredFrees {
            pending: list.len(),
            pending_bytes: list.iter().map(|(_, bytes)| bytes).sum(),
            total: self.total.load(Ordering::Relaxed),
        }
    }

    fn put_off(&self, memory: Freed, bytes: usize) {
        self.total.fetch_add(1, Ordering::Relaxed);
        self.lock().push((memory, bytes));
    }

    fn take(&self) -> Vec<(Freed, usize)> {
        std::mem::take(&mut self.lock())
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// The smallest memory of that kind that is large enough; rather one that no work uses any more. Of
    /// managed memory no other: the host writes to it at once, where no stream's order holds it back.
    fn reuse(&self, kind: Kind, bytes: usize) -> Option<(Freed, usize)> {
        // The driver is asked without the lock.
        let mut all = self.take();
        let fits = |&at: &usize| match &all[at] {
            (memory @ Freed::Counted { kind: own, .. }, size) => {
                *own == kind && *size >= bytes && (kind == Kind::Device || !memory.is_busy())
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
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Context {
    /// Gives memory back to the driver, now or as soon as no persistent kernel runs.
    pub(crate) fn free(&self, memory: Freed, bytes: usize) {
        if self.has_persistent() {
            return self.deferred().put_off(memory, bytes);
        }
        self.free_deferred();
        self.free_now(memory, bytes);
    }

    /// The same where a host function of a stream may be what drops.
    pub(crate) fn end_memory(self: &Arc<Self>, memory: Freed, bytes: usize) {
        if in_host_func() {
            keep(Box::new(Later { context: self.clone(), memory: Some((memory, bytes)) }));
        } else {
            self.free(memory, bytes);
        }
    }

    /// Frees what was put off, unless a persistent kernel runs still. Whether anything was.
    pub(crate) fn free_deferred(&self) -> bool {
        if self.deferred().is_empty() || self.has_persistent() {
            return false;
        }
        let all = self.deferred().take();
        let any = !all.is_empty();
        all.into_iter().for_each(|(memory, bytes)| self.free_now(memory, bytes));
        any
    }

    /// Leaves what is put off still to another `Gpu` of the device: a persistent kernel runs there.
    pub(crate) fn hand_over_deferred(&self) {
        let left = self.deferred().take();
        if let Some(other) = self.persistent().contexts().last() {
            other.deferred().lock().extend(left);
        }
    }

    /// Memory that was put off in place of new memory, which the driver does not have: `home` waits for
    /// what still uses it.
    pub(in crate::memory) fn reuse_deferred(
        &self,
        home: &Arc<StreamInner>,
        kind: Kind,
        bytes: usize,
    ) -> Option<u64> {
        let (freed, size) = self.deferred().reuse(kind, bytes)?;
        let Freed::Counted { address, home: before, .. } = &freed else { return None };
        if !Arc::ptr_eq(before, home) && home.order_after(before).is_err() {
            self.deferred().lock().push((freed, size));
            return None;
        }
        self.usage().remove(size);
        self.usage().add(bytes);
        Some(*address)
    }

    fn has_persistent(&self) -> bool {
        self.persistent_running() > 0
    }

    /// How many persistent kernels run, in a capture too.
    pub(crate) fn persistent_running(&self) -> usize {
        capture::outside(|| self.persistent().running())
    }

    fn free_now(&self, memory: Freed, bytes: usize) {
        match memory {
            Freed::Counted { address, home, .. } => {
                home.settle();
                // SAFETY: the memory is its owner's, who uses it no more, and all work on its home is over.
                self.release(|| unsafe { sys::cuMemFree_v2(address) });
                self.usage().remove(bytes);
            }
            Freed::Managed(address) => {
                // SAFETY: the memory is its owner's, and nothing uses it.
                self.release(|| unsafe { sys::cuMemFree_v2(address) });
            }
            Freed::Host(start) => {
                // SAFETY: as above.
                self.release(|| unsafe { sys::cuMemFreeHost(start.get()) });
            }
            Freed::Code(code) => {
                // SAFETY: as above; it is loaded, and `release` makes the context current.
                self.release(|| unsafe { code.unload() });
            }
        }
    }
}

/// A free on its way out of a host function.
struct Later {
    context: Arc<Context>,
    memory: Option<(Freed, usize)>,
}

impl Drop for Later {
    fn drop(&mut self) {
        if let Some((memory, bytes)) = self.memory.take() {
            self.context.free(memory, bytes);
        }
    }
}
