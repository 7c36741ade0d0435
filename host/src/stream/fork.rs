//! Branches: work of one thread on several streams that is ordered only where it meets.
//!
//! Elsewhere a use of a buffer makes its home wait, so that two uses of memory of one home run one after the other even
//! if they share nothing. While a thread enqueues branches (a [`ForkScope`]), its launches and copies say which memory
//! they use. They wait for what the home had when the first of them came, the home's wait for them is postponed, and a
//! use that meets a postponed one of another stream, where either writes, puts everything in order first.
//!
//! Nothing else sees the difference: whoever enqueues on a home, or waits for it, asks for its handle, and with that the
//! home waits for all that was postponed ([`StreamInner::handle`]). So does the end of the scope.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use cuda_driver::sys;
use cuda_std::launch::{Access, MemoryArg};
use smallvec::SmallVec;

use super::StreamInner;
use crate::error::GpuResult;
use crate::host_callback::in_host_callback;
use crate::lock::lock;
use crate::thread_state::THREAD;

thread_local! {
    /// The homes that have postponed waits of this thread.
    static HOMES: RefCell<Vec<Arc<StreamInner>>> = const { RefCell::new(Vec::new()) };
}

/// Whether this thread enqueues branches.
#[inline]
pub(crate) fn is_forked() -> bool {
    THREAD.with(|thread| thread.forks.get() > 0)
}

/// While it lives, this thread enqueues branches. Its end makes all homes wait for them.
pub(crate) struct ForkScope {
    /// It counts for its thread.
    not_send: PhantomData<*const ()>,
}

impl ForkScope {
    pub(crate) fn enter() -> Self {
        THREAD.with(|thread| thread.forks.set(thread.forks.get() + 1));
        Self { not_send: PhantomData }
    }
}

impl Drop for ForkScope {
    fn drop(&mut self) {
        THREAD.with(|thread| thread.forks.set(thread.forks.get() - 1));
        if !is_forked() {
            HOMES.take().iter().for_each(|home| home.join_postponed());
        }
    }
}

/// A use of memory of one home.
pub(crate) struct HomeUse {
    home: Arc<StreamInner>,
    /// The addresses.
    range: Range<u64>,
    writes: bool,
}

impl HomeUse {
    pub(crate) fn new(home: &Arc<StreamInner>, address: u64, bytes: usize, access: Access) -> Self {
        let range = address..address.saturating_add(bytes as u64);
        Self { home: home.clone(), range, writes: access == Access::Write }
    }

    /// That of an argument; `None` if no stream is its home.
    pub(crate) fn of(memory: &MemoryArg<'_>) -> Option<Self> {
        let home = memory.home?.keep().downcast().ok()?;
        Some(Self::new(&home, memory.address, memory.bytes, memory.access))
    }

    fn meets(&self, range: &Range<u64>, writes: bool) -> bool {
        (self.writes || writes) && self.range.start < range.end && range.start < self.range.end
    }
}

/// The uses that a home has not been made to wait for.
#[derive(Debug, Default)]
pub(super) struct Postponed {
    /// Whether the list has anything.
    any: AtomicBool,
    list: Mutex<List>,
}

#[derive(Debug, Default)]
struct List {
    /// Whether the home's own event stands for all of its work that postponed uses may depend on.
    is_recorded: bool,
    uses: Vec<PostponedUse>,
}

/// A use on another stream than its home, or on the home itself, past its event.
#[derive(Debug)]
struct PostponedUse {
    stream: Arc<StreamInner>,
    range: Range<u64>,
    writes: bool,
}

impl StreamInner {
    /// Calls `work` with this stream's handle, to enqueue what `uses` says, in order with what it meets. Only for
    /// a thread in a [`ForkScope`] is it less than [`ordered`](Self::ordered).
    pub(crate) fn ordered_uses(
        self: &Arc<Self>,
        uses: &[HomeUse],
        work: impl FnOnce(sys::CUstream) -> GpuResult<()>,
    ) -> GpuResult<()> {
        // Code that has a home's handle enqueues there without asking for it again.
        if !is_forked() || uses.iter().any(|own| own.home.is_exported()) {
            let homes: SmallVec<[&StreamInner; 4]> = uses.iter().map(|own| &*own.home).collect();
            return self.ordered(&homes, || work(self.handle()));
        }
        uses.iter().try_for_each(|own| self.come_after(own))?;
        let enqueued = work(self.handle);
        // Also after an error: some of it may have been enqueued.
        uses.iter().for_each(|own| own.home.postpone(self, own));
        enqueued
    }

    /// Makes later work here wait for the work that `main` has now, and lets uses of memory whose home `main` is wait for
    /// no more than that.
    pub(crate) fn branch_from(self: &Arc<Self>, main: &Arc<Self>) -> GpuResult<()> {
        self.come_after(&HomeUse::new(main, 0, 0, Access::Read))
    }

    /// Makes later work here wait for the home's work, as of the first postponed use, and for what the use meets.
    fn come_after(self: &Arc<Self>, own: &HomeUse) -> GpuResult<()> {
        let home = &own.home;
        let meets = |other: &PostponedUse| {
            !Arc::ptr_eq(&other.stream, self) && own.meets(&other.range, other.writes)
        };
        if lock(&home.postponed.list).uses.iter().any(meets) {
            home.join_postponed();
        }
        if Arc::ptr_eq(home, self) {
            return Ok(());
        }
        if !home.record_for_branches() {
            return self.wait_stream(home);
        }
        self.launches.absorb(&home.launches);
        self.context.call("cuStreamWaitEvent", || {
            // SAFETY: stream and event live; no flags are defined.
            unsafe { sys::cuStreamWaitEvent(self.handle, home.order.handle(), 0) }
        })
    }

    /// Lets the home's event stand for its work until now, unless it does so for its work before postponed uses. Whether
    /// that succeeded.
    fn record_for_branches(self: &Arc<Self>) -> bool {
        self.note_home();
        let mut list = lock(&self.postponed.list);
        if !list.is_recorded {
            // Not by `call`, which may run other code, and that must not happen under the lock.
            list.is_recorded = self.context.release(|| {
                // SAFETY: event and stream live and belong to one context.
                unsafe { sys::cuEventRecord(self.order.handle(), self.handle) }
            });
            self.postponed.any.store(true, Ordering::Release);
        }
        list.is_recorded
    }

    /// Notes a use on `stream`, which later work of this home has to wait for.
    fn postpone(self: &Arc<Self>, stream: &Arc<Self>, own: &HomeUse) {
        let HomeUse { range, writes, .. } = own;
        let (stream, range, writes) = (stream.clone(), range.clone(), *writes);
        lock(&self.postponed.list).uses.push(PostponedUse { stream, range, writes });
        self.postponed.any.store(true, Ordering::Release);
        self.note_home();
    }

    /// Lets the end of this thread's scope put the home in order.
    fn note_home(self: &Arc<Self>) {
        HOMES.with_borrow_mut(|homes| {
            if homes.iter().all(|known| !Arc::ptr_eq(known, self)) {
                homes.push(self.clone());
            }
        });
    }

    /// Makes this stream wait for all uses that were postponed.
    #[inline]
    pub(super) fn join_postponed(&self) {
        if self.postponed.any.load(Ordering::Acquire) {
            self.join_all_postponed();
        }
    }

    #[cold]
    fn join_all_postponed(&self) {
        // There nothing is enqueued, and the driver must not be called.
        if in_host_callback() {
            return;
        }
        // The lock is held until the stream waits: what another thread enqueues meanwhile comes after that.
        let mut list = lock(&self.postponed.list);
        let List { uses, .. } = std::mem::take(&mut *list);
        for (at, own) in uses.iter().enumerate() {
            let is_first = !uses[..at].iter().any(|other| Arc::ptr_eq(&other.stream, &own.stream));
            if is_first && !ptr::eq(&*own.stream, self) {
                self.wait_stream_surely(&own.stream);
            }
        }
        self.postponed.any.store(false, Ordering::Release);
        drop(list);
    }

    /// Makes later work here wait for the work that `other` has now, or waits itself.
    fn wait_stream_surely(&self, other: &Self) {
        self.launches.absorb(&other.launches);
        let joined = self.context.release(|| {
            // SAFETY: event and streams live and belong to one context.
            match unsafe { sys::cuEventRecord(other.order.handle(), other.handle) } {
                // SAFETY: as above; no flags are defined.
                sys::CUresult::CUDA_SUCCESS => unsafe {
                    sys::cuStreamWaitEvent(self.handle, other.order.handle(), 0)
                },
                refused => refused,
            }
        });
        // SAFETY: the stream lives.
        let wait = || unsafe { sys::cuStreamSynchronize(other.handle) };
        if !joined && !self.context.release(wait) {
            self.has_unordered_work.store(true, Ordering::Release);
        }
    }
}
