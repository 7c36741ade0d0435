//! A communicator of MPI.
//!
//! Data moves in the stream's order and at once: what is sent is copied to the host, MPI moves it, what is received is
//! copied to the device, and then the call returns.

use std::ffi::c_int;
use std::sync::Arc;
use std::time::Instant;

use cuda_driver::sys;
use ferrowarp::memory::resource::StreamRef;
use mpi::ffi;

use super::host_memory::HostMemory;
use super::requests::Requests;
use super::session::{Session, check_code, library, lock};
use super::types;
use crate::driver::{check, is_captured};
use crate::element::{ElementKind, Reduction};
use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::{Backend, Primitive, Transport};

/// Sends and receives of a communicator come in one order, so one tag is enough.
const TAG: c_int = 0;

struct Mpi {
    comm: ffi::MPI_Comm,
    rank: u32,
    size: u32,
    fate: Arc<Fate>,
}

// SAFETY: MPI's handles may be used by any thread, one at a time, for which there is a lock.
unsafe impl Send for Mpi {}
// SAFETY: as above.
unsafe impl Sync for Mpi {}

/// A communicator of all ranks. MPI has begun; all ranks call it.
pub(crate) fn join(rank: u32, size: u32, fate: Arc<Fate>) -> Result<Box<dyn Transport>, DistError> {
    // MPI writes it, perhaps after a wait for it was given up.
    // SAFETY: a constant of MPI.
    let comm: &mut ffi::MPI_Comm = Box::leak(Box::new(unsafe { ffi::RSMPI_COMM_NULL }));
    let mut requests = Requests::default();
    let at: *mut ffi::MPI_Comm = comm;
    // SAFETY: MPI has begun, and the new communicator's place is never freed.
    unsafe {
        requests.start("MPI_Comm_idup", |request| {
            ffi::MPI_Comm_idup(ffi::RSMPI_COMM_WORLD, at, request)
        })?;
    }
    let start = Instant::now();
    requests.wait(|| fate.check_wait("MPI_Comm_idup", start))?;
    // SAFETY: the request is done, so the communicator is written.
    let comm = unsafe { *at };
    Mpi::of(comm, rank, size, fate)
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let session = lock();
        // One that was given up is MPI's to use; after MPI's end there is none.
        if !self.fate.has_ended() && matches!(*session, Session::Begun(_)) {
            // SAFETY: MPI has begun and is called by this thread alone; all that was started with it is done.
            unsafe { ffi::MPI_Comm_free(&mut self.comm) };
        }
    }
}

impl Mpi {
    fn of(
        comm: ffi::MPI_Comm,
        rank: u32,
        size: u32,
        fate: Arc<Fate>,
    ) -> Result<Box<dyn Transport>, DistError> {
        let _session = lock();
        // SAFETY: the communicator is MPI's own, and MPI is called by this thread alone.
        let set = unsafe { ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN) };
        check_code("MPI_Comm_set_errhandler", set)?;
        Ok(Box::new(Self { comm, rank, size, fate }))
    }
}

impl Transport for Mpi {
    fn backend(&self) -> Backend {
        Backend::Mpi { library: library() }
    }

    fn check_call(&self, stream: StreamRef<'_>, primitives: &[Primitive]) -> Result<(), DistError> {
        if is_captured(stream)? {
            return Err(DistError::NotInGraphs { backend: "MPI" });
        }
        primitives.iter().try_for_each(check_count)
    }

    unsafe fn run(&self, stream: StreamRef<'_>, primitives: &[Primitive]) -> Result<(), DistError> {
        let mut moves = primitives.iter().map(|own| Move::new(self, own)).collect::<Vec<_>>();
        for own in &mut moves {
            // SAFETY: the caller's promise; the memory lives until the stream is done, below.
            unsafe { own.load(stream) }.inspect_err(|_| drop(wait(stream)))?;
        }
        wait(stream)?;
        moves.iter_mut().for_each(Move::widen);
        let mut requests = Requests::default();
        let start = Instant::now();
        let started = moves.iter_mut().try_for_each(|own| {
            // SAFETY: what is moved lives until the requests are done, or for ever.
            unsafe { own.start(self, &mut requests) }
        });
        let done = started.and_then(|()| requests.wait(|| self.fate.check_wait("MPI", start)));
        if let Err(error) = done {
            // MPI may still read and write it.
            std::mem::forget(moves);
            return Err(error);
        }
        for own in &mut moves {
            own.narrow(self.size);
            // SAFETY: as above.
            unsafe { own.store(stream) }.inspect_err(|_| drop(wait(stream)))?;
        }
        wait(stream)
    }

    fn split(
        &self,
        colour: Option<u32>,
        position: u32,
        fate: Arc<Fate>,
    ) -> Result<Option<Box<dyn Transport>>, DistError> {
        let size = fate.members().len() as u32;
        // SAFETY: constants of MPI.
        let (none, mut comm) = unsafe { (ffi::RSMPI_UNDEFINED, ffi::RSMPI_COMM_NULL) };
        let number = colour.map_or(none, |colour| colour as c_int);
        let session = lock();
        // All ranks have just said what they choose, so all are here or about to be. A rank that dies within this call hangs it.
        // SAFETY: MPI has begun, and is called by this thread alone; the new communicator's place is writable.
        let split = unsafe { ffi::MPI_Comm_split(self.comm, number, position as c_int, &mut comm) };
        check_code("MPI_Comm_split", split)?;
        drop(session);
        colour.map(|_| Self::of(comm, position, size, fate)).transpose()
    }
}

/// That MPI counts so many.
fn check_count(primitive: &Primitive) -> Result<(), DistError> {
    match *primitive {
        Primitive::AllReduce { len, .. } => types::count("all-reduce", len).map(drop),
        Primitive::Reduce { len, .. } => types::count("reduce", len).map(drop),
        Primitive::ReduceScatter { len, .. } => types::count("reduce-scatter", len).map(drop),
        Primitive::Broadcast { bytes, .. } => types::bytes("broadcast", bytes).map(drop),
        Primitive::AllGather { bytes, .. } => types::bytes("all-gather", bytes).map(drop),
        Primitive::Send { bytes, .. } => types::bytes("send", bytes).map(drop),
        Primitive::Receive { bytes, .. } => types::bytes("receive", bytes).map(drop),
    }
}

/// Waits for the stream.
fn wait(stream: StreamRef<'_>) -> Result<(), DistError> {
    // SAFETY: the stream lives as long as the reference.
    check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(stream.as_raw().cast()) })
}

/// A primitive, with the host's memory that stands for the device's.
struct Move {
    primitive: Primitive,
    /// What is read, where this rank reads, with its address.
    input: Option<(HostMemory, u64)>,
    /// What is written, where this rank writes.
    output: Option<(HostMemory, u64)>,
}

impl Move {
    fn new(mpi: &Mpi, primitive: &Primitive) -> Self {
        let memory = |address: u64, bytes: usize| Some((HostMemory::zeroed(bytes), address));
        let (input, output) = match *primitive {
            Primitive::AllReduce { from, to, len, kind, .. } => {
                let bytes = len * kind.size_bytes();
                (memory(from, bytes), memory(to, bytes))
            }
            Primitive::Reduce { from, to, len, kind, root, .. } => {
                let bytes = len * kind.size_bytes();
                (memory(from, bytes), memory(to, bytes).filter(|_| root == mpi.rank))
            }
            Primitive::ReduceScatter { from, to, len, kind, .. } => {
                let bytes = len * kind.size_bytes();
                (memory(from, bytes * mpi.size as usize), memory(to, bytes))
            }
            // MPI has one buffer: the root's is read, and written to its own place, which may be another.
            Primitive::Broadcast { from, to, bytes, root } => {
                (memory(from, bytes).filter(|_| root == mpi.rank), memory(to, bytes))
            }
            Primitive::AllGather { from, to, bytes } => {
                (memory(from, bytes), memory(to, bytes * mpi.size as usize))
            }
            Primitive::Send { from, bytes, .. } => (memory(from, bytes), None),
            Primitive::Receive { to, bytes, .. } => (None, memory(to, bytes)),
        };
        Self { primitive: *primitive, input, output }
    }

    /// The kind and the reduction, if it reduces.
    fn reduces(&self) -> Option<(ElementKind, Reduction)> {
        match self.primitive {
            Primitive::AllReduce { kind, reduction, .. }
            | Primitive::Reduce { kind, reduction, .. }
            | Primitive::ReduceScatter { kind, reduction, .. } => Some((kind, reduction)),
            _ => None,
        }
    }

    /// # Safety
    /// As [`HostMemory::load`].
    unsafe fn load(&mut self, stream: StreamRef<'_>) -> Result<(), DistError> {
        match &mut self.input {
            // SAFETY: the caller's promise.
            Some((memory, from)) => unsafe { memory.load(stream, *from) },
            None => Ok(()),
        }
    }

    /// # Safety
    /// As [`HostMemory::store`].
    unsafe fn store(&mut self, stream: StreamRef<'_>) -> Result<(), DistError> {
        match &mut self.output {
            // SAFETY: the caller's promise.
            Some((memory, to)) => unsafe { memory.store(stream, *to) },
            None => Ok(()),
        }
    }

    /// Makes floats of 16 bits such as MPI reduces.
    fn widen(&mut self) {
        let Some((kind, _)) = self.reduces() else { return };
        for side in [&mut self.input, &mut self.output] {
            *side = side.take().map(|(memory, address)| (memory.widened(kind), address));
        }
    }

    fn narrow(&mut self, ranks: u32) {
        let Some((kind, reduction)) = self.reduces() else { return };
        self.output = self.output.take().map(|(mut memory, address)| {
            memory.finish(kind, reduction, ranks);
            (memory.narrowed(kind), address)
        });
    }

    fn input(&mut self) -> *mut std::ffi::c_void {
        self.input.as_mut().map_or(std::ptr::null_mut(), |(memory, _)| memory.as_mut_ptr())
    }

    fn output(&mut self) -> *mut std::ffi::c_void {
        self.output.as_mut().map_or(std::ptr::null_mut(), |(memory, _)| memory.as_mut_ptr())
    }

    /// Starts MPI's call.
    ///
    /// # Safety
    /// The memory lives until the request is done.
    unsafe fn start(&mut self, mpi: &Mpi, requests: &mut Requests) -> Result<(), DistError> {
        let comm = mpi.comm;
        if let Primitive::Broadcast { .. } = self.primitive
            && let (Some((input, _)), Some((output, _))) = (&mut self.input, &mut self.output)
        {
            std::mem::swap(input, output);
        }
        let (from, to) = (self.input(), self.output());
        // SAFETY: the caller's promise: the memory is as long as the primitive says.
        unsafe {
            match self.primitive {
                Primitive::AllReduce { len, kind, reduction, .. } => {
                    let (count, kind) = (types::count("all-reduce", len)?, types::datatype(kind));
                    let how = types::operation(reduction);
                    requests.start("MPI_Iallreduce", |request| {
                        ffi::MPI_Iallreduce(from, to, count, kind, how, comm, request)
                    })
                }
                Primitive::Reduce { len, kind, reduction, root, .. } => {
                    let (count, kind) = (types::count("reduce", len)?, types::datatype(kind));
                    let (how, root) = (types::operation(reduction), root as c_int);
                    requests.start("MPI_Ireduce", |request| {
                        ffi::MPI_Ireduce(from, to, count, kind, how, root, comm, request)
                    })
                }
                Primitive::ReduceScatter { len, kind, reduction, .. } => {
                    let (count, kind) =
                        (types::count("reduce-scatter", len)?, types::datatype(kind));
                    let how = types::operation(reduction);
                    requests.start("MPI_Ireduce_scatter_block", |request| {
                        ffi::MPI_Ireduce_scatter_block(from, to, count, kind, how, comm, request)
                    })
                }
                Primitive::Broadcast { bytes, root, .. } => {
                    let (kind, count) = types::bytes("broadcast", bytes)?;
                    requests.start("MPI_Ibcast", |request| {
                        ffi::MPI_Ibcast(to, count, kind, root as c_int, comm, request)
                    })
                }
                Primitive::AllGather { bytes, .. } => {
                    let (kind, count) = types::bytes("all-gather", bytes)?;
                    requests.start("MPI_Iallgather", |request| {
                        ffi::MPI_Iallgather(from, count, kind, to, count, kind, comm, request)
                    })
                }
                Primitive::Send { bytes, to: rank, .. } => {
                    let (kind, count) = types::bytes("send", bytes)?;
                    requests.start("MPI_Isend", |request| {
                        ffi::MPI_Isend(from, count, kind, rank as c_int, TAG, comm, request)
                    })
                }
                Primitive::Receive { bytes, from: rank, .. } => {
                    let (kind, count) = types::bytes("receive", bytes)?;
                    requests.start("MPI_Irecv", |request| {
                        ffi::MPI_Irecv(to, count, kind, rank as c_int, TAG, comm, request)
                    })
                }
            }
        }
    }
}
