//! The library's errors as Python's.

use ferrowarp::GpuError;
use pyo3::exceptions::{PyMemoryError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};

create_exception!(
    ferrowarp,
    Error,
    PyRuntimeError,
    "What the driver or a kernel reports: a fault, a panic, a launch that the device refuses. The text says what to do where that is known."
);

/// The exception for an error of the library.
pub fn to_python(error: GpuError) -> PyErr {
    let text = error.to_string();
    match error.root() {
        GpuError::OutOfMemory { .. } | GpuError::OutOfPinnedMemory { .. } => {
            PyMemoryError::new_err(text)
        }
        GpuError::InvalidArgument { .. }
        | GpuError::SizeMismatch { .. }
        | GpuError::InvalidCast { .. }
        | GpuError::WrongDevice { .. }
        | GpuError::WrongParameters { .. }
        | GpuError::LaunchTooLarge { .. }
        | GpuError::Contract { .. } => PyValueError::new_err(text),
        _ => Error::new_err(text),
    }
}
