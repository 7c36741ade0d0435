//! What is left of MPI in a build without it.

use std::sync::Arc;

use crate::error::DistError;
use crate::fate::Fate;
use crate::transport::Transport;

fn absent(message: &str) -> DistError {
    let message =
        format!("this program was built without it (feature `mpi` of ferrowarp-dist){message}");
    DistError::Mpi { call: "MPI_Init", message }
}

/// Sends rank 0's address to all ranks.
pub(crate) fn share_address(_address: Option<Vec<u8>>) -> Result<Vec<u8>, DistError> {
    Err(absent(
        ". Ranks on several hosts meet without it where MASTER_ADDR and MASTER_PORT are set, or FERROWARP_DIST_FILE names a file \
         that all hosts see",
    ))
}

/// Whether this process can take part.
pub(crate) fn check(_rank: u32, _size: u32) -> Result<(), DistError> {
    Err(absent(
        ": install Debian's packages openmpi-bin, libopenmpi-dev and libclang-dev, and build with `--features mpi`",
    ))
}

pub(crate) fn join(
    _rank: u32,
    _size: u32,
    _fate: Arc<Fate>,
) -> Result<Box<dyn Transport>, DistError> {
    Err(absent(""))
}

/// Ends MPI, which has not begun.
pub(crate) fn finish() {}
