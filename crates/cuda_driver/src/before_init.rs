//! The functions that also work before `cuInit`, independently of the backend that it chooses.

use std::ffi::{c_char, c_uint};

use crate::abi::Out;
use crate::backend;
use crate::codes::{self, CUDA_ERROR_INVALID_VALUE, ResultCode};
use crate::detail::{DriverError, DriverResult};

#[allow(non_snake_case)]
pub(crate) fn cuInit(flags: c_uint) -> DriverResult {
    if flags != 0 {
        return Err(DriverError::new(CUDA_ERROR_INVALID_VALUE, format!("flags is {flags}, not 0")));
    }
    backend::init()
}

#[allow(non_snake_case)]
pub(crate) fn cuGetErrorName(code: ResultCode, name: Out<*const c_char>) -> DriverResult {
    describe(code, codes::error_name(code), name)
}

#[allow(non_snake_case)]
pub(crate) fn cuGetErrorString(code: ResultCode, meaning: Out<*const c_char>) -> DriverResult {
    describe(code, codes::error_meaning(code), meaning)
}

fn describe(
    code: ResultCode,
    text: Option<&'static std::ffi::CStr>,
    out: Out<*const c_char>,
) -> DriverResult {
    out.set(text.map_or(std::ptr::null(), |text| text.as_ptr()))?;
    match text {
        Some(_) => Ok(()),
        None => {
            Err(DriverError::new(CUDA_ERROR_INVALID_VALUE, format!("{code} is not a result code")))
        }
    }
}
