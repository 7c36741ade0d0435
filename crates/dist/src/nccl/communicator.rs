//! A communicator of NCCL.
//!
//! It is not blocking: a call that would wait for other ranks returns [`IN_PROGRESS`], and this thread then asks again until it
//! is done, looking meanwhile whether a rank was lost. What runs on the device ends when the communicator is aborted, which may
//! happen on another thread at any time.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::graph::ForeignMemory;
use ferrowarp::memory::resource::StreamRef;
use ferrowarp::{Gpu, GpuError};

use super::functions::{
    Comm, Config, IDENTITY_BYTES, IN_PROGRESS, Identity, NO_COLOUR, SUCCESS, Status, Stream,
};
use super::library::Library;
use crate::driver::is_captured;
use crate::element::{ElementKind, Reduction};
use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::{Backend, Primitive, Transport};

/// How long a communicator may take to end in `drop` before it is aborted.
const END: Duration = Duration::from_secs(10);

pub(super) struct Nccl {
    handle: Arc<Handle>,
    fate: Arc<Fate>,
    /// Whether a graph has operations of it.
    is_captured: AtomicBool,
}

/// NCCL's communicator, until it is destroyed or aborted.
struct Handle {
    library: &'static Library,
    /// Null from then on.
    comm: AtomicPtr<std::ffi::c_void>,
    /// Held while NCCL is called with it.
    using: Mutex<()>,
}

impl Nccl {
    pub(super) fn join(
        rank: u32,
        size: u32,
        identity: &[u8],
        gpu: &Gpu,
        fate: Arc<Fate>,
    ) -> Result<Self, DistError> {
        let library = Library::get()?;
        let mut bytes = [0; IDENTITY_BYTES];
        let wrong =
            DistError::Unable { rank: 0, reason: "its identity of NCCL is damaged".to_owned() };
        bytes.copy_from_slice(identity.get(..IDENTITY_BYTES).ok_or(wrong)?);
        // NCCL may write it after a wait for it was given up.
        let comm: &AtomicPtr<_> = Box::leak(Box::default());
        in_context(gpu, || {
            let mut config = Config::non_blocking();
            let (ranks, own) = (size as c_int, rank as c_int);
            // SAFETY: `comm` is writable for ever, and NCCL copies the configuration before it returns.
            let begun = unsafe {
                let start = library.functions.ncclCommInitRankConfig;
                start(comm.as_ptr(), ranks, Identity(bytes), own, &mut config)
            };
            let handle = Handle::begun(library, "ncclCommInitRankConfig", begun, comm, &fate)?;
            Ok(Self { handle, fate: fate.clone(), is_captured: AtomicBool::new(false) })
        })
    }

    /// Waits until NCCL has done what `status` says is in progress.
    fn settle(&self, call: &'static str, status: Status) -> Result<(), DistError> {
        match status {
            SUCCESS => Ok(()),
            IN_PROGRESS => self.handle.settle(call, &self.fate),
            code => Err(self.handle.library.error(call, code, self.handle.get())),
        }
    }
}

/// Runs `work` with the device's context current.
fn in_context<R>(gpu: &Gpu, work: impl FnOnce() -> Result<R, DistError>) -> Result<R, DistError> {
    let mut result = None;
    // SAFETY: nothing is enqueued that others could see: NCCL uses streams and memory of its own.
    let ran = unsafe {
        gpu.stream().foreign("joining a communicator", ForeignMemory::new(), |_| {
            result = Some(work());
            Ok(())
        })
    };
    match result {
        Some(result) => result,
        None => Err(ran.err().unwrap_or(GpuError::Unsupported { what: "a communicator" }).into()),
    }
}

impl Handle {
    /// The communicator that NCCL writes to `comm`, when it is ready.
    fn begun(
        library: &'static Library,
        call: &'static str,
        status: Status,
        comm: &'static AtomicPtr<std::ffi::c_void>,
        fate: &Fate,
    ) -> Result<Arc<Self>, DistError> {
        if status != SUCCESS && status != IN_PROGRESS {
            return Err(library.error(call, status, ptr::null_mut()));
        }
        let start = Instant::now();
        while comm.load(Ordering::Acquire).is_null() {
            fate.check_wait(call, start)?;
            thread::sleep(Duration::from_millis(1));
        }
        let comm = AtomicPtr::new(comm.load(Ordering::Acquire));
        let own = Arc::new(Self { library, comm, using: Mutex::new(()) });
        own.settle(call, fate).inspect_err(|_| own.abort())?;
        Ok(own)
    }

    fn get(&self) -> Comm {
        self.comm.load(Ordering::Acquire)
    }

    /// Locks it for calls of NCCL; the communicator is null if it has ended.
    fn lock(&self) -> (MutexGuard<'_, ()>, Comm) {
        let guard = self.using.lock().unwrap_or_else(PoisonError::into_inner);
        (guard, self.get())
    }

    /// How what NCCL does for it goes on.
    fn status(&self) -> Result<Status, DistError> {
        let (_using, comm) = self.lock();
        if comm.is_null() {
            return Err(DistError::Aborted);
        }
        let mut status = SUCCESS;
        // SAFETY: the communicator has not ended, and `status` is writable.
        let asked = unsafe { (self.library.functions.ncclCommGetAsyncError)(comm, &mut status) };
        if asked == SUCCESS { Ok(status) } else { Ok(asked) }
    }

    fn settle(&self, call: &'static str, fate: &Fate) -> Result<(), DistError> {
        let start = Instant::now();
        let mut pause = Duration::from_micros(20);
        loop {
            match self.status() {
                Ok(SUCCESS) => return Ok(()),
                Ok(IN_PROGRESS) => fate.check_wait(call, start)?,
                // An abort's reason is the better one.
                Ok(code) => {
                    fate.check()?;
                    return Err(self.library.error(call, code, self.get()));
                }
                Err(ended) => return fate.check().and(Err(ended)),
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(2));
        }
    }

    /// Ends what it does on the device, and itself. Does not wait: NCCL may, for graphs that have operations of it.
    ///
    /// A thread that is in a call of NCCL, and does not come back since the device waits for a lost rank and takes no more work,
    /// comes back when the abort has begun; so that is made beside the call after a while, as PyTorch's watchdog does.
    fn abort(self: &Arc<Self>) {
        let own = self.clone();
        let thread = thread::Builder::new().name("ferrowarp-abort".to_owned());
        // Without a thread, nothing can be done but to go on.
        let _ = thread.spawn(move || own.abort_now());
    }

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

    /// Ends it when all that was enqueued is done, for which it waits at most that long before it aborts.
    fn finish(&self, fate: &Fate, at_most: Duration) {
        let (using, comm) = self.lock();
        if comm.is_null() {
            return;
        }
        // SAFETY: the communicator has not ended.
        let begun = unsafe { (self.library.functions.ncclCommFinalize)(comm) };
        drop(using);
        let start = Instant::now();
        let mut status = Ok(begun);
        while matches!(status, Ok(IN_PROGRESS)) && start.elapsed() < at_most && fate.check().is_ok()
        {
            thread::sleep(Duration::from_micros(200));
            status = self.status();
        }
        if !matches!(status, Ok(SUCCESS)) {
            return self.abort_now();
        }
        let (_using, comm) = (self.lock(), self.comm.swap(ptr::null_mut(), Ordering::AcqRel));
        if !comm.is_null() {
            // SAFETY: the communicator has done all, and is not used again.
            unsafe { (self.library.functions.ncclCommDestroy)(comm) };
        }
    }
}

impl Transport for Nccl {
    fn backend(&self) -> Backend {
        let library = self.handle.library;
        Backend::Nccl { version: library.version, library: library.name.clone() }
    }

    unsafe fn run(&self, stream: StreamRef<'_>, primitives: &[Primitive]) -> Result<(), DistError> {
        if is_captured(stream)? {
            self.is_captured.store(true, Ordering::Relaxed);
        }
        let functions = &self.handle.library.functions;
        let (using, comm) = self.handle.lock();
        if comm.is_null() {
            return self.fate.check().and(Err(DistError::Aborted));
        }
        let stream = stream.as_raw();
        if let [one] = primitives {
            // SAFETY: the caller's promise, and the communicator has not ended.
            let (call, status) = unsafe { self.start(one, comm, stream) };
            drop(using);
            return self.settle(call, status);
        }
        // SAFETY: the group ends below, on this thread.
        let mut first = ("ncclGroupStart", unsafe { (functions.ncclGroupStart)() });
        for primitive in primitives {
            if first.1 != SUCCESS && first.1 != IN_PROGRESS {
                break;
            }
            // SAFETY: as above.
            first = unsafe { self.start(primitive, comm, stream) };
        }
        // SAFETY: the group was begun on this thread.
        let end = unsafe { (functions.ncclGroupEnd)() };
        drop(using);
        match first.1 {
            SUCCESS | IN_PROGRESS => self.settle("ncclGroupEnd", end),
            status => self.settle(first.0, status),
        }
    }

    fn split(
        &self,
        colour: Option<u32>,
        position: u32,
        fate: Arc<Fate>,
    ) -> Result<Option<Box<dyn Transport>>, DistError> {
        const CALL: &str = "ncclCommSplit";
        let library = self.handle.library;
        let new: &AtomicPtr<_> = Box::leak(Box::default());
        let number = colour.map_or(NO_COLOUR, |colour| colour as c_int);
        let (using, comm) = self.handle.lock();
        if comm.is_null() {
            return self.fate.check().and(Err(DistError::Aborted));
        }
        // SAFETY: the communicator has not ended, `new` is writable for ever, and the configuration is the old one's.
        let status = unsafe {
            let split = library.functions.ncclCommSplit;
            split(comm, number, position as c_int, new.as_ptr(), ptr::null_mut())
        };
        drop(using);
        self.settle(CALL, status)?;
        if colour.is_none() {
            return Ok(None);
        }
        let handle = Handle::begun(library, CALL, SUCCESS, new, &fate)?;
        Ok(Some(Box::new(Self { handle, fate, is_captured: AtomicBool::new(false) })))
    }

    fn check(&self) -> Result<(), DistError> {
        match self.handle.using.try_lock() {
            // Another thread is in a call, and will see it.
            Err(TryLockError::WouldBlock) => return Ok(()),
            other => drop(other),
        }
        match self.handle.status() {
            Ok(SUCCESS | IN_PROGRESS) => Ok(()),
            Ok(code) => Err(self.handle.library.error("an earlier call", code, self.handle.get())),
            Err(ended) => self.fate.check().and(Err(ended)),
        }
    }

    fn abort(&self) {
        self.handle.abort();
    }
}

impl Nccl {
    /// The call of one primitive.
    ///
    /// # Safety
    /// As [`Transport::run`]; the communicator has not ended.
    unsafe fn start(
        &self,
        primitive: &Primitive,
        comm: Comm,
        stream: Stream,
    ) -> (&'static str, Status) {
        const BYTES: c_int = 1; // ncclUint8
        let f = &self.handle.library.functions;
        let from = |address: u64| address as *const std::ffi::c_void;
        let to = |address: u64| address as *mut std::ffi::c_void;
        // SAFETY: the caller's promise.
        unsafe {
            match *primitive {
                Primitive::AllReduce { from: a, to: b, len, kind, reduction } => {
                    let (kind, how) = (number_of(kind), number_of_reduction(reduction));
                    (
                        "ncclAllReduce",
                        (f.ncclAllReduce)(from(a), to(b), len, kind, how, comm, stream),
                    )
                }
                Primitive::Reduce { from: a, to: b, len, kind, reduction, root } => {
                    let (kind, how) = (number_of(kind), number_of_reduction(reduction));
                    let root = root as c_int;
                    let called = (f.ncclReduce)(from(a), to(b), len, kind, how, root, comm, stream);
                    ("ncclReduce", called)
                }
                Primitive::ReduceScatter { from: a, to: b, len, kind, reduction } => {
                    let (kind, how) = (number_of(kind), number_of_reduction(reduction));
                    let called =
                        (f.ncclReduceScatter)(from(a), to(b), len, kind, how, comm, stream);
                    ("ncclReduceScatter", called)
                }
                Primitive::Broadcast { from: a, to: b, bytes, root } => {
                    let root = root as c_int;
                    let called =
                        (f.ncclBroadcast)(from(a), to(b), bytes, BYTES, root, comm, stream);
                    ("ncclBroadcast", called)
                }
                Primitive::AllGather { from: a, to: b, bytes } => {
                    ("ncclAllGather", (f.ncclAllGather)(from(a), to(b), bytes, BYTES, comm, stream))
                }
                Primitive::Send { from: a, bytes, to } => {
                    ("ncclSend", (f.ncclSend)(from(a), bytes, BYTES, to as c_int, comm, stream))
                }
                Primitive::Receive { to: b, bytes, from } => {
                    ("ncclRecv", (f.ncclRecv)(to(b), bytes, BYTES, from as c_int, comm, stream))
                }
            }
        }
    }
}

/// `ncclDataType_t`.
fn number_of(kind: ElementKind) -> c_int {
    match kind {
        ElementKind::I8 => 0,
        ElementKind::U8 => 1,
        ElementKind::I32 => 2,
        ElementKind::U32 => 3,
        ElementKind::I64 => 4,
        ElementKind::U64 => 5,
        ElementKind::F16 => 6,
        ElementKind::F32 => 7,
        ElementKind::F64 => 8,
        ElementKind::BF16 => 9,
    }
}

/// `ncclRedOp_t`.
fn number_of_reduction(reduction: Reduction) -> c_int {
    match reduction {
        Reduction::Sum => 0,
        Reduction::Product => 1,
        Reduction::Max => 2,
        Reduction::Min => 3,
        Reduction::Average => 4,
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        if self.fate.has_ended() {
            return self.handle.abort();
        }
        if !self.is_captured.load(Ordering::Relaxed) {
            return self.handle.finish(&self.fate, END);
        }
        // Graphs that have operations of it may be launched yet: NCCL ends it when they are gone, on a thread that waits for
        // that. Without a thread it lasts as long as the process.
        let (handle, fate) = (self.handle.clone(), self.fate.clone());
        let thread = thread::Builder::new().name("ferrowarp-finish".to_owned());
        let _ = thread.spawn(move || handle.finish(&fate, Duration::MAX));
    }
}
