//! MPI: between processes on the host's memory, and as the carrier of rank 0's address.
//!
//! Without the feature `mpi` there is none of it, and what needs it returns an error.
//!
//! All calls are the non-blocking ones, and a wait for them looks whether a rank was lost: MPI itself would wait without end.
//! Buffers of calls that are given up are never freed, since MPI may still use them. The functions are those of the crate `mpi`'s
//! `ffi`: its own requests must be waited for, and cannot be given up.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(feature = "mpi")]
mod communicator;
#[cfg(feature = "mpi")]
mod host_memory;
#[cfg(feature = "mpi")]
mod requests;
#[cfg(feature = "mpi")]
mod session;
#[cfg(feature = "mpi")]
mod types;

#[cfg(not(feature = "mpi"))]
pub(crate) use absent::{check, finish, join, share_address};
#[cfg(feature = "mpi")]
pub(crate) use communicator::join;
#[cfg(feature = "mpi")]
pub(crate) use session::{check, finish, share_address};
