//! Collectives over NCCL.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use ferrowarp::Gpu;
use ferrowarp::memory::resource::StreamRef;

use super::functions::{
    Comm, Config, IDENTITY_BYTES, Identity, NO_COLOUR, SUCCESS, Status, Stream,
};
use super::handle::Handle;
use super::library::Library;
use crate::driver::{in_context, is_captured};
use crate::element::{ElementKind, Reduction};
use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::{Backend, Primitive, Transport};

/// How long a communicator may take to end in `drop` before it is aborted.
const END: Duration = Duration::from_secs(10);

pub(super) struct Nccl {
    handle: Arc<Handle>,
    gpu: Gpu,
    fate: Arc<Fate>,
    /// Whether a graph has operations of it.
    is_captured: AtomicBool,
}

/// NCCL's communicator on its way to another thread.
struct Made(Comm);

// SAFETY: NCCL's communicators may be used by any thread, one at a time.
unsafe impl Send for Made {}

impl Nccl {
    pub(super) fn join(
        rank: u32,
        size: u32,
        identity: &[u8],
        gpu: &Gpu,
        fate: Arc<Fate>,
    ) -> Result<Self, DistError> {
        const CALL: &str = "ncclCommInitRankConfig";
        let library = Library::get()?;
        let mut bytes = [0; IDENTITY_BYTES];
        let damaged =
            || DistError::Unable { rank: 0, reason: "its identity of NCCL is damaged".to_owned() };
        bytes.copy_from_slice(identity.get(..IDENTITY_BYTES).ok_or_else(damaged)?);
        let made = made_aside(library, CALL, gpu, &fate, move || {
            let (mut comm, mut config) = (ptr::null_mut(), Config::blocking());
            let (ranks, own) = (size as c_int, rank as c_int);
            // SAFETY: both are writable, and NCCL keeps neither.
            let status = unsafe {
                let start = library.functions.ncclCommInitRankConfig;
                start(&mut comm, ranks, Identity(bytes), own, &mut config)
            };
            (status, Made(comm))
        })?;
        Ok(Self::of(library, made, gpu, fate))
    }

    fn of(library: &'static Library, Made(comm): Made, gpu: &Gpu, fate: Arc<Fate>) -> Self {
        // SAFETY: the communicator was made just now.
        let handle = unsafe { Handle::new(library, comm, &fate) };
        Self { handle, gpu: gpu.clone(), fate, is_captured: AtomicBool::new(false) }
    }

    /// The error of a call, if it returned one. What has ended the communicator is the better reason.
    fn result(&self, call: &'static str, status: Status) -> Result<(), DistError> {
        match status {
            SUCCESS => Ok(()),
            code => {
                self.fate.check()?;
                Err(self.handle.library.error(call, code, self.handle.get()))
            }
        }
    }

    /// The reason why it has ended.
    fn ended(&self, error: DistError) -> DistError {
        self.fate.check().err().unwrap_or(error)
    }
}

/// Lets NCCL make a communicator on a thread of its own, since it may wait for a rank that is lost: then that thread is left behind,
/// and what it makes yet is aborted.
fn made_aside(
    library: &'static Library,
    call: &'static str,
    gpu: &Gpu,
    fate: &Arc<Fate>,
    make: impl FnOnce() -> (Status, Made) + Send + 'static,
) -> Result<Made, DistError> {
    let (sender, receiver) = channel();
    let gpu = gpu.clone();
    let thread = thread::Builder::new().name("ferrowarp-join".to_owned());
    let started = thread.spawn(move || {
        let made = in_context(&gpu, || match make() {
            (SUCCESS, made) => Ok(made),
            (code, _) => Err(library.error(call, code, ptr::null_mut())),
        });
        if let Err(given_up) = sender.send(made)
            && let Ok(Made(comm)) = given_up.0
            && !comm.is_null()
        {
            // SAFETY: the communicator was made just now, and no other code has it.
            unsafe { (library.functions.ncclCommAbort)(comm) };
        }
    });
    started.map_err(|error| DistError::Nccl {
        call,
        code: 2,
        message: "there is no thread for it".to_owned(),
        detail_text: error.to_string(),
    })?;
    let start = Instant::now();
    loop {
        match receiver.recv_timeout(Duration::from_millis(20)) {
            Ok(Ok(made)) => return Ok(made),
            // That of a rank which is lost says more.
            Ok(Err(error)) => return Err(fate.check().err().unwrap_or(error)),
            Err(RecvTimeoutError::Timeout) => fate.check_wait(call, start)?,
            Err(RecvTimeoutError::Disconnected) => return Err(DistError::Aborted),
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
        let using = self.handle.begin("a collective").map_err(|error| self.ended(error))?;
        let (comm, stream) = (using.comm, stream.as_raw());
        if let [one] = primitives {
            // SAFETY: the caller's promise, and the communicator has not ended.
            let (call, status) = unsafe { self.start(one, comm, stream) };
            drop(using);
            return self.result(call, status);
        }
        // SAFETY: the group ends below, on this thread.
        let mut last = ("ncclGroupStart", unsafe { (functions.ncclGroupStart)() });
        for primitive in primitives {
            if last.1 != SUCCESS {
                break;
            }
            // SAFETY: as above.
            last = unsafe { self.start(primitive, comm, stream) };
        }
        // SAFETY: the group was begun on this thread.
        let end = unsafe { (functions.ncclGroupEnd)() };
        drop(using);
        self.result(last.0, last.1)?;
        self.result("ncclGroupEnd", end)
    }

    fn split(
        &self,
        colour: Option<u32>,
        position: u32,
        fate: Arc<Fate>,
    ) -> Result<Option<Box<dyn Transport>>, DistError> {
        const CALL: &str = "ncclCommSplit";
        let (library, handle) = (self.handle.library, self.handle.clone());
        let number = colour.map_or(NO_COLOUR, |colour| colour as c_int);
        let made = made_aside(library, CALL, &self.gpu, &self.fate, move || {
            let mut comm = ptr::null_mut();
            // 5 is `ncclInvalidUsage`; the caller's fate says why it has ended.
            let Ok(using) = handle.begin(CALL) else { return (5, Made(comm)) };
            // SAFETY: the communicator has not ended, `comm` is writable, and the configuration is the old one's.
            let status = unsafe {
                let split = library.functions.ncclCommSplit;
                split(using.comm, number, position as c_int, &mut comm, ptr::null_mut())
            };
            (status, Made(comm))
        })?;
        Ok(colour.map(|_| Box::new(Self::of(library, made, &self.gpu, fate)) as Box<dyn Transport>))
    }

    fn check(&self) -> Result<(), DistError> {
        match self.handle.status() {
            Ok(status) => self.result("an earlier call", status),
            Err(ended) => Err(self.ended(ended)),
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
        let from = |address: u64| address as *const c_void;
        let to = |address: u64| address as *mut c_void;
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
        match (self.fate.has_ended(), self.is_captured.load(Ordering::Relaxed)) {
            (true, _) => self.handle.abort(),
            (false, false) => self.handle.finish(Some(END)),
            // Graphs that have operations of it may be launched yet: NCCL ends it when they are gone.
            (false, true) => self.handle.finish(None),
        }
    }
}
