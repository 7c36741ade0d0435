//! MPI in this process: begun once, ended once, called by one thread at a time.

use std::ffi::c_int;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mpi::environment::Universe;
use mpi::{Threading, ffi};

use super::requests::Requests;
use crate::error::DistError;

/// How long a rank waits for rank 0's address.
const ADDRESS: Duration = Duration::from_secs(120);

static SESSION: Mutex<Session> = Mutex::new(Session::NotBegun);

/// Whether MPI can be called. Held as a lock while it is.
pub(super) enum Session {
    NotBegun,
    /// The value ends MPI when it is dropped, for which all ranks wait.
    Begun(Universe),
    Ended,
}

/// Locks MPI for calls.
pub(super) fn lock() -> MutexGuard<'static, Session> {
    SESSION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins MPI, unless it has begun.
fn begin() -> Result<MutexGuard<'static, Session>, DistError> {
    const VARIABLES: [&str; 4] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"];
    let wrong = |message: &str| DistError::Mpi { call: "MPI_Init", message: message.to_owned() };
    let mut session = lock();
    match *session {
        Session::Begun(_) => return Ok(session),
        Session::Ended => {
            return Err(wrong("it has ended, and cannot begin again in this process"));
        }
        Session::NotBegun => {}
    }
    if VARIABLES.iter().all(|name| std::env::var_os(name).is_none()) {
        return Err(wrong(
            "no launcher of MPI has started this process: start the ranks by mpirun, mpiexec or srun",
        ));
    }
    let begun = mpi::initialize_with_threading(Threading::Serialized);
    let (universe, threading) = begun.ok_or_else(|| wrong("the program has begun it by itself"))?;
    *session = Session::Begun(universe);
    if threading < Threading::Serialized {
        return Err(wrong("this MPI was built for one thread, and several use it here"));
    }
    // SAFETY: MPI has begun, and is called by this thread alone.
    let set =
        unsafe { ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_WORLD, ffi::RSMPI_ERRORS_RETURN) };
    check_code("MPI_Comm_set_errhandler", set)?;
    Ok(session)
}

/// Whether this process can take part: MPI has begun, and counts the ranks as the launcher does.
pub(crate) fn check(own_rank: u32, own_size: u32) -> Result<(), DistError> {
    let _session = begin()?;
    let (mut rank, mut size) = (0, 0);
    // SAFETY: MPI has begun, and is called by this thread alone; both are writable.
    let asked = unsafe {
        check_code("MPI_Comm_rank", ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank))
            .and(check_code("MPI_Comm_size", ffi::MPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut size)))
    };
    asked?;
    if (rank as u32, size as u32) == (own_rank, own_size) {
        return Ok(());
    }
    let message = format!(
        "this process is rank {rank} of {size} there, and rank {own_rank} of {own_size} by its variables: start the ranks by the mpirun of the MPI that the program \
         was built with"
    );
    Err(DistError::Mpi { call: "MPI_Comm_size", message })
}

/// Sends rank 0's address to all ranks: rank 0 gives it, the others get it.
pub(crate) fn share_address(address: Option<Vec<u8>>) -> Result<Vec<u8>, DistError> {
    const ROOM: usize = 4096;
    drop(begin()?);
    let mut text = address.unwrap_or_default();
    if text.len() > ROOM {
        let message = format!("rank 0's address is longer than {ROOM} bytes");
        return Err(DistError::Mpi { call: "MPI_Ibcast", message });
    }
    // JSON may be followed by blanks.
    text.resize(ROOM, b' ');
    let mut requests = Requests::default();
    // SAFETY: the text lives until the request is done, or for ever; MPI has begun.
    unsafe {
        let (at, comm) = (text.as_mut_ptr().cast(), ffi::RSMPI_COMM_WORLD);
        requests.start("MPI_Ibcast", |request| {
            ffi::MPI_Ibcast(at, ROOM as c_int, ffi::RSMPI_UINT8_T, 0, comm, request)
        })?;
    }
    let start = Instant::now();
    let in_time = || match start.elapsed() < ADDRESS {
        true => Ok(()),
        false => Err(DistError::MissingRanks {
            what: "the exchange of rank 0's address".to_owned(),
            ranks: vec![0],
            waited: ADDRESS,
        }),
    };
    match requests.wait(in_time) {
        Ok(()) => Ok(text),
        Err(error) => {
            std::mem::forget(text);
            Err(error)
        }
    }
}

/// Ends MPI, for which all ranks wait.
pub(crate) fn finish() {
    let mut session = lock();
    if let Session::Begun(universe) = std::mem::replace(&mut *session, Session::Ended) {
        drop(universe);
    } else {
        *session = Session::NotBegun;
    }
}

/// What the library says it is, in one line.
pub(super) fn library() -> String {
    let text = mpi::environment::library_version().unwrap_or_default();
    let line = text.trim_end_matches('\0').lines().next().unwrap_or_default();
    let name = line.split(',').next().unwrap_or_default().trim();
    if name.is_empty() { "an MPI without a name".to_owned() } else { name.to_owned() }
}

/// The error of a call, if it returned one.
pub(super) fn check_code(call: &'static str, code: c_int) -> Result<(), DistError> {
    if code == 0 {
        return Ok(());
    }
    let mut text = vec![0u8; 1024];
    let mut len = 0;
    // SAFETY: the text has more room than MPI_MAX_ERROR_STRING, and `len` is writable.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast(), &mut len) };
    text.truncate(len.max(0) as usize);
    Err(DistError::Mpi { call, message: String::from_utf8_lossy(&text).into_owned() })
}
