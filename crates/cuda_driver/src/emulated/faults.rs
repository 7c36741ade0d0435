//! Which result code a fault of a kernel, or of a load, has in NVIDIA's driver.

use ::emulator::fault::{CopyFault, LoadError, Space, Trap, TrapKind};
use ::emulator::memory::{AllocError, FreeError, OutOfBounds, RegisterError};

use crate::codes::*;
use crate::detail::Failure;

impl From<&Trap> for Failure {
    fn from(trap: &Trap) -> Self {
        let code = match &trap.kind {
            TrapKind::OutOfBounds { .. }
            | TrapKind::OutOfVariable { .. }
            | TrapKind::StackOverflow { .. }
            | TrapKind::ConstantWritten { .. } => CUDA_ERROR_ILLEGAL_ADDRESS,
            TrapKind::Misaligned { .. } => CUDA_ERROR_MISALIGNED_ADDRESS,
            TrapKind::WrongSpace { space: Space::Generic, .. } => CUDA_ERROR_ILLEGAL_ADDRESS,
            TrapKind::WrongSpace { .. } | TrapKind::ForeignLocal { .. } => {
                CUDA_ERROR_INVALID_ADDRESS_SPACE
            }
            TrapKind::Assertion { .. } => CUDA_ERROR_ASSERT,
            TrapKind::InvalidBarrier { .. }
            | TrapKind::InvalidMask { .. }
            | TrapKind::Copy(CopyFault::Align { .. } | CopyFault::Before { .. }) => {
                CUDA_ERROR_ILLEGAL_INSTRUCTION
            }
            TrapKind::InvalidCall { .. } | TrapKind::InvalidBranch { .. } => CUDA_ERROR_INVALID_PC,
            TrapKind::Race(_) | TrapKind::StreamRace(_) => CUDA_ERROR_LAUNCH_FAILED,
            TrapKind::Fuel { .. } => CUDA_ERROR_LAUNCH_TIMEOUT,
            _ => CUDA_ERROR_LAUNCH_FAILED,
        };
        Self::new(code, trap.to_string())
    }
}

/// Writes a failed assertion of a kernel to the error output, as NVIDIA's driver does.
pub(super) fn tell_assertion(trap: &Trap) {
    if let TrapKind::Assertion { condition, place } = &trap.kind {
        let (block, thread) = (trap.block, trap.thread);
        eprintln!("{place}: block: {block:?}, thread: {thread:?} Assertion `{condition}` failed.");
    }
}

/// Memory that was live when an operation was enqueued, and is not when the stream comes to it.
pub(super) fn gone(failure: Failure) -> Failure {
    Failure::new(CUDA_ERROR_ILLEGAL_ADDRESS, failure.text)
}

impl From<LoadError> for Failure {
    fn from(error: LoadError) -> Self {
        let code = match &error {
            LoadError::Empty => CUDA_ERROR_INVALID_IMAGE,
            LoadError::UnsupportedVersion { .. } => CUDA_ERROR_UNSUPPORTED_PTX_VERSION,
            _ => CUDA_ERROR_INVALID_PTX,
        };
        Self::new(code, error.to_string())
    }
}

impl From<AllocError> for Failure {
    fn from(error: AllocError) -> Self {
        let code =
            if error.requested == 0 { CUDA_ERROR_INVALID_VALUE } else { CUDA_ERROR_OUT_OF_MEMORY };
        Self::new(code, error.to_string())
    }
}

impl From<FreeError> for Failure {
    fn from(error: FreeError) -> Self {
        Self::new(CUDA_ERROR_INVALID_VALUE, error.to_string())
    }
}

impl From<OutOfBounds> for Failure {
    fn from(error: OutOfBounds) -> Self {
        Self::new(CUDA_ERROR_INVALID_VALUE, error.to_string())
    }
}

impl From<RegisterError> for Failure {
    fn from(error: RegisterError) -> Self {
        let code = match error {
            RegisterError::Range { .. } => CUDA_ERROR_INVALID_VALUE,
            RegisterError::Overlap { .. } => CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
        };
        Self::new(code, error.to_string())
    }
}
