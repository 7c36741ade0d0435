//! What is left of MPI in a build without it.

use crate::error::DistError;

/// Sends rank 0's address to all ranks.
pub(crate) fn share_address(_address: Option<Vec<u8>>) -> Result<Vec<u8>, DistError> {
    let message = "this program was built without it (feature `mpi` of ferrowarp-dist). Ranks on several hosts meet without it \
                   where MASTER_ADDR and MASTER_PORT are set, or FERROWARP_DIST_FILE names a file that all hosts see";
    Err(DistError::Mpi { call: "MPI_Init", message: message.to_owned() })
}

/// Ends MPI, which has not begun.
pub(crate) fn finish() {}
