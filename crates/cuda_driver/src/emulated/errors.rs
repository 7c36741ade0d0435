//! The errors that many driver functions return.

use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{DriverError, DriverResult};

/// The error for a driver function that the emulator does not implement.
pub(crate) fn unsupported(name: &str) -> DriverError {
    let text = format!("the emulator does not have {name}; it needs an NVIDIA GPU");
    DriverError::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

/// `CUDA_ERROR_NOT_SUPPORTED` with an explanation.
pub(super) fn not_supported(text: impl Into<String>) -> DriverError {
    DriverError::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

/// `CUDA_ERROR_INVALID_VALUE` with an explanation.
pub(super) fn invalid_value(text: impl Into<String>) -> DriverError {
    DriverError::new(CUDA_ERROR_INVALID_VALUE, text)
}

/// Fails unless `flags` has only bits of `known`.
pub(super) fn check_flags(flags: u32, known: u32) -> DriverResult {
    match flags & !known {
        0 => Ok(()),
        odd => Err(invalid_value(format!("flags {flags:#x} have the unknown bits {odd:#x}"))),
    }
}
