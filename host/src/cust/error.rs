//! Errors of `cust`.

use cust::error::CudaError;

use crate::error::{DriverError, GpuError};

impl From<CudaError> for GpuError {
    /// Takes over what the driver said on this thread, so convert where the call was made.
    fn from(error: CudaError) -> Self {
        DriverError::from_cust(error).into()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;

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
}
