//! The functions that answer before `cuInit` as well, whichever driver is chosen later.

use std::ffi::{c_char, c_uint};

use crate::abi::Out;
use crate::backend;
use crate::codes::{self, CUDA_ERROR_INVALID_VALUE, CUresult};
use crate::detail::{Answer, Failure};

#[allow(non_snake_case)]
pub(crate) fn cuInit(flags: c_uint) -> Answer {
    if flags != 0 {
        return Err(Failure::new(CUDA_ERROR_INVALID_VALUE, format!("flags is {flags}, not 0")));
    }
    backend::init()
}

#[allow(non_snake_case)]
pub(crate) fn cuGetErrorName(code: CUresult, name: Out<*const c_char>) -> Answer {
    describe(code, codes::error_name(code), name)
}

#[allow(non_snake_case)]
pub(crate) fn cuGetErrorString(code: CUresult, meaning: Out<*const c_char>) -> Answer {
    describe(code, codes::error_meaning(code), meaning)
}

fn describe(
    code: CUresult,
    text: Option<&'static std::ffi::CStr>,
    place: Out<*const c_char>,
) -> Answer {
    place.set(text.map_or(std::ptr::null(), |text| text.as_ptr()))?;
    match text {
        Some(_) => Ok(()),
        None => Err(Failure::new(CUDA_ERROR_INVALID_VALUE, format!("{code} is no result code"))),
    }
}
