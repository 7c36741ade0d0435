//! MPI's names for types and reductions.

use std::ffi::c_int;

use mpi::ffi;

use crate::element::{ElementKind, Reduction};
use crate::error::DistError;

/// The type that MPI reduces. Floats of 16 bits, which it does not know, are made `f32` before.
pub(super) fn datatype(kind: ElementKind) -> ffi::MPI_Datatype {
    // SAFETY: constants of MPI.
    unsafe {
        match kind {
            ElementKind::I8 => ffi::RSMPI_INT8_T,
            ElementKind::U8 => ffi::RSMPI_UINT8_T,
            ElementKind::I32 => ffi::RSMPI_INT32_T,
            ElementKind::U32 => ffi::RSMPI_UINT32_T,
            ElementKind::I64 => ffi::RSMPI_INT64_T,
            ElementKind::U64 => ffi::RSMPI_UINT64_T,
            ElementKind::F16 | ElementKind::BF16 | ElementKind::F32 => ffi::RSMPI_FLOAT,
            ElementKind::F64 => ffi::RSMPI_DOUBLE,
        }
    }
}

/// MPI's operation. An average is a sum that is divided afterwards.
pub(super) fn operation(reduction: Reduction) -> ffi::MPI_Op {
    // SAFETY: constants of MPI.
    unsafe {
        match reduction {
            Reduction::Sum | Reduction::Average => ffi::RSMPI_SUM,
            Reduction::Product => ffi::RSMPI_PROD,
            Reduction::Min => ffi::RSMPI_MIN,
            Reduction::Max => ffi::RSMPI_MAX,
        }
    }
}

/// Bytes as words, if they are whole ones: MPI counts in 32 bits.
pub(super) fn bytes(
    operation: &'static str,
    bytes: usize,
) -> Result<(ffi::MPI_Datatype, c_int), DistError> {
    // SAFETY: constants of MPI.
    let (datatype, size) = unsafe {
        if bytes.is_multiple_of(8) { (ffi::RSMPI_UINT64_T, 8) } else { (ffi::RSMPI_UINT8_T, 1) }
    };
    Ok((datatype, count(operation, bytes / size)?))
}

/// A count for MPI.
pub(super) fn count(operation: &'static str, found: usize) -> Result<c_int, DistError> {
    let limit = c_int::MAX as usize;
    let too_large = DistError::TooLarge { operation, backend: "MPI", found, limit };
    c_int::try_from(found).map_err(|_| too_large)
}
