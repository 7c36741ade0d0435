//! What the driver answers.

use std::error::Error;
use std::fmt;

use cust::error::CudaError;

use super::words::one_line;
use super::{GpuError, codes};

/// A call that the driver answered with an error.
pub struct DriverError {
    operation: &'static str,
    code: u32,
    detail: Option<String>,
    hint: Option<&'static str>,
    source: Option<CudaError>,
}

impl DriverError {
    /// The driver function.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.operation
    }

    /// The driver's code, also one that is newer than this crate.
    #[must_use]
    pub fn code(&self) -> u32 {
        self.code
    }

    /// The code's name in CUDA's headers, for example `CUDA_ERROR_OUT_OF_MEMORY`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        codes::name(self.code)
    }

    /// All that the driver or the emulator said: the assembler's log, the faulting thread and line.
    #[must_use]
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What to do about it, where that is known.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        self.hint
    }

    /// Describes `code`, which `operation` returned on this thread just now.
    pub(crate) fn new(operation: &'static str, code: u32) -> Self {
        let detail = cuda_driver::take_detail();
        let true_code = detail.as_ref().map_or(code, |detail| detail.code);
        Self {
            operation,
            code: true_code,
            hint: codes::hint(true_code, cuda_driver::backend()),
            detail: detail.map(|detail| detail.text).filter(|text| !text.trim().is_empty()),
            source: None,
        }
    }
}

impl fmt::Display for DriverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.detail {
            Some(detail) => f.write_str(&one_line(detail))?,
            None => write!(f, "{}: {}", self.operation, codes::meaning(self.code))?,
        }
        if self.detail.as_ref().is_none_or(|detail| !detail.contains(self.name())) {
            write!(f, " ({} {})", self.name(), self.code)?;
        }
        self.hint.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl Error for DriverError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as _)
    }
}

impl From<DriverError> for GpuError {
    fn from(error: DriverError) -> Self {
        Self::Driver(Box::new(error))
    }
}

impl From<CudaError> for GpuError {
    /// Takes over what the driver said on this thread, so convert where the call was made.
    fn from(error: CudaError) -> Self {
        DriverError { source: Some(error), ..DriverError::new("a driver call", error as u32) }
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::GpuContext;

    #[test]
    fn a_cust_error_keeps_its_code_and_is_the_source() {
        let error = Err::<(), _>(CudaError::InvalidPtx).gpu_context("loading").unwrap_err();
        let driver = error.driver().expect("a driver error");
        assert_eq!((driver.code(), driver.name()), (218, "CUDA_ERROR_INVALID_PTX"));
        let source = error.source().expect("a source").downcast_ref::<CudaError>();
        assert_eq!(source, Some(&CudaError::InvalidPtx));
    }

    #[test]
    fn a_code_that_nobody_knows_is_kept() {
        let error = GpuError::from(DriverError::new("cuFutureCall", 4321));
        let line = error.to_string();
        assert!(line.starts_with("cuFutureCall: "), "{line}");
        assert!(line.ends_with("(an unknown code 4321)"), "{line}");
    }
}
