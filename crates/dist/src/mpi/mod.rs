//! MPI: between processes on the host's memory, and as the carrier of rank 0's address.
//!
//! Without the feature `mpi` there is none of it, and what needs it returns an error.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(not(feature = "mpi"))]
pub(crate) use absent::{finish, share_address};
