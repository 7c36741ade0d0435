//! NCCL's communicator, and its end.
//!
//! It is a blocking one: a call returns when its work is enqueued, and takes as long as NCCL itself. (Of one that is not
//! blocking, recent versions start a thread for every call.) A call can wait for other ranks, though: when they connect at its first
//! use, or when the device takes no more work. What ends such a wait is an abort from another thread: the one that notices the loss
//! of a rank, or the one that [watches](watch) for calls that take too long.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use super::functions::{Comm, SUCCESS, Status};
use super::library::Library;
use crate::error::DistError;
use crate::fate::{End, Fate};

/// NCCL's communicator, until it is destroyed or aborted.
pub(super) struct Handle {
    pub(super) library: &'static Library,
    /// Null from then on.
    comm: AtomicPtr<c_void>,
    /// Held while NCCL is called with it.
    using: Mutex<()>,
    /// What the call under way is, and since when.
    call: Mutex<Option<(&'static str, Instant)>>,
}

/// The right to call NCCL with a communicator, as the only thread.
pub(super) struct Using<'a> {
    handle: &'a Handle,
    pub(super) comm: Comm,
    _guard: MutexGuard<'a, ()>,
}

impl Drop for Using<'_> {
    fn drop(&mut self) {
        *lock(&self.handle.call) = None;
    }
}

/// How many threads are ending a communicator.
static ENDING: Mutex<usize> = Mutex::new(0);
/// Notified when one of them is done.
static ENDED: Condvar = Condvar::new();

/// Counts a thread that ends a communicator, until it is dropped.
struct Ending;

impl Ending {
    fn begin() -> Self {
        *lock(&ENDING) += 1;
        Self
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        *lock(&ENDING) -= 1;
        ENDED.notify_all();
    }
}

/// Lets the exit of the process wait until all communicators that were dropped have ended. The exit would take from under NCCL's
/// threads what they still use, and the process would die of that (seen with NCCL 2.28).
pub(super) fn end_before_exit() {
    /// A graph that lives keeps its communicator, and is not waited for any longer.
    const PATIENCE: Duration = Duration::from_secs(10);
    extern "C" fn wait() {
        let waited = ENDED.wait_timeout_while(lock(&ENDING), PATIENCE, |ending| *ending > 0);
        drop(waited);
    }
    unsafe extern "C" {
        fn atexit(function: extern "C" fn()) -> c_int;
    }
    // SAFETY: the function does not unwind and uses nothing that an exit destroys. Without room for it the exit does not wait.
    let _ = unsafe { atexit(wait) };
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Handle {
    /// # Safety
    /// The communicator is the library's, and no other code has it.
    pub(super) unsafe fn new(library: &'static Library, comm: Comm, fate: &Arc<Fate>) -> Arc<Self> {
        let (comm, using, call) = (AtomicPtr::new(comm), Mutex::new(()), Mutex::new(None));
        let own = Arc::new(Self { library, comm, using, call });
        watch(&own, fate);
        own
    }

    pub(super) fn get(&self) -> Comm {
        self.comm.load(Ordering::Acquire)
    }

    /// Locks it for a call; an error if it has ended.
    pub(super) fn begin(&self, call: &'static str) -> Result<Using<'_>, DistError> {
        let guard = lock(&self.using);
        *lock(&self.call) = Some((call, Instant::now()));
        let own = Using { handle: self, comm: self.get(), _guard: guard };
        if own.comm.is_null() { Err(DistError::Aborted) } else { Ok(own) }
    }

    /// What NCCL has noticed since.
    pub(super) fn status(&self) -> Result<Status, DistError> {
        let _using = match self.using.try_lock() {
            Ok(using) => using,
            Err(TryLockError::Poisoned(using)) => using.into_inner(),
            // Another thread is in a call, which returns it.
            Err(TryLockError::WouldBlock) => return Ok(SUCCESS),
        };
        let comm = self.get();
        if comm.is_null() {
            return Err(DistError::Aborted);
        }
        let mut status = SUCCESS;
        // SAFETY: the communicator has not ended, and `status` is writable.
        let asked = unsafe { (self.library.functions.ncclCommGetAsyncError)(comm, &mut status) };
        if asked == SUCCESS { Ok(status) } else { Ok(asked) }
    }

    /// Ends what it does on the device, and itself. Does not wait: NCCL may, for graphs that have operations of it.
    pub(super) fn abort(self: &Arc<Self>) {
        let (own, ending) = (self.clone(), Ending::begin());
        let thread = thread::Builder::new().name("ferrowarp-abort".to_owned());
        // Without a thread, nothing can be done but to go on.
        let _ = thread.spawn(move || {
            own.abort_now();
            drop(ending);
        });
    }

    /// Aborts it. A thread that is in a call, and does not come back since it waits for a rank that is lost, comes back when the
    /// abort has begun; so after a while that is made beside the call, as PyTorch's watchdog does.
    fn abort_now(&self) {
        const PATIENCE: Duration = Duration::from_secs(2);
        let start = Instant::now();
        let using = loop {
            match self.using.try_lock() {
                Ok(using) => break Some(using),
                Err(TryLockError::Poisoned(using)) => break Some(using.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() >= PATIENCE => break None,
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(5)),
            }
        };
        let comm = self.comm.swap(ptr::null_mut(), Ordering::AcqRel);
        drop(using);
        if !comm.is_null() {
            // SAFETY: the communicator was not ended before, and no call begins with it any more.
            unsafe { (self.library.functions.ncclCommAbort)(comm) };
        }
    }

    /// Ends it on a thread of its own when all that was enqueued is done, and no graph has operations of it. Waits for that as long
    /// as `at_most`; if it takes longer, it is aborted. Without `at_most` this does not wait.
    pub(super) fn finish(self: &Arc<Self>, at_most: Option<Duration>) {
        let (own, ending, (done, is_done)) = (self.clone(), Ending::begin(), channel());
        let thread = thread::Builder::new().name("ferrowarp-finish".to_owned());
        let started = thread.spawn(move || {
            own.finish_now();
            drop(ending);
            // The other thread may have given up.
            let _ = done.send(());
        });
        if let (Ok(_), Some(at_most)) = (started, at_most)
            && is_done.recv_timeout(at_most) == Err(RecvTimeoutError::Timeout)
        {
            self.abort_now();
        }
    }

    fn finish_now(&self) {
        // Not as a call that is watched: it may wait for graphs, as long as they live.
        let using = lock(&self.using);
        let comm = self.get();
        if comm.is_null() {
            return;
        }
        // SAFETY: the communicator has not ended.
        unsafe { (self.library.functions.ncclCommFinalize)(comm) };
        let comm = self.comm.swap(ptr::null_mut(), Ordering::AcqRel);
        drop(using);
        if !comm.is_null() {
            // SAFETY: the communicator has done all it had to, was not ended before, and no call begins with it any more.
            unsafe { (self.library.functions.ncclCommDestroy)(comm) };
        }
    }
}

/// Aborts the communicator when a member is lost, or a call takes longer than its deadline or waits for a rank that has ended. The
/// loss of a member is mostly acted on before; here too for graphs that outlive what the program has of the communicator.
fn watch(handle: &Arc<Handle>, fate: &Arc<Fate>) {
    const PAUSE: Duration = Duration::from_millis(500);
    let (handle, fate): (Weak<Handle>, _) = (Arc::downgrade(handle), fate.clone());
    let thread = thread::Builder::new().name("ferrowarp-watch".to_owned());
    // Without a thread, such a call waits as long as NCCL does.
    let _ = thread.spawn(move || {
        loop {
            thread::sleep(PAUSE);
            let Some(handle) = handle.upgrade() else { return };
            if handle.get().is_null() {
                return;
            }
            let call = *lock(&handle.call);
            let checked = match call {
                Some((what, since)) => fate.check_wait(what, since),
                None => fate.check(),
            };
            let end = match checked {
                Ok(()) => continue,
                Err(DistError::RankLost { rank, how }) => End::Lost { rank, how },
                Err(DistError::Deadline { what, waited }) => End::Deadline { what, waited },
                Err(_) => End::Aborted,
            };
            fate.end(end);
            return handle.abort_now();
        }
    });
}
