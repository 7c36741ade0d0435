//! The functions of the API for kernels.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::sync::Arc;

use super::current::current;
use super::kernel::{self, Kernel};
use super::library;
use super::preferences::{check_cache_config, check_shared_mem_config};
use crate::abi::{CUfunction, CUmodule, Out};
use crate::detail::DriverResult;

/// `CU_FUNCTION_LOADING_STATE_LOADED`
const LOADED: i32 = 1;

/// The kernel of a handle, which may be that of a library's kernel.
pub(super) fn from_handle(function: CUfunction) -> DriverResult<Arc<Kernel>> {
    match library::function_of(function)? {
        Some(handle) => kernel::get(handle),
        None => kernel::get(function.into()),
    }
}

pub(crate) fn cuFuncGetAttribute(
    value: Out<i32>,
    attribute: i32,
    function: CUfunction,
) -> DriverResult {
    current()?;
    value.set(from_handle(function)?.attribute(attribute)?)
}

pub(crate) fn cuFuncSetAttribute(function: CUfunction, attribute: i32, value: i32) -> DriverResult {
    current()?;
    from_handle(function)?.set_attribute(attribute, value)
}

/// A hint about a cache that the emulator does not have: it is checked and ignored.
pub(crate) fn cuFuncSetCacheConfig(function: CUfunction, config: i32) -> DriverResult {
    current()?;
    from_handle(function)?;
    check_cache_config(config)
}

/// A hint about shared memory banks, which has no effect on current devices either: it is checked
/// and ignored.
pub(crate) fn cuFuncSetSharedMemConfig(function: CUfunction, config: i32) -> DriverResult {
    current()?;
    from_handle(function)?;
    check_shared_mem_config(config)
}

pub(crate) fn cuFuncGetModule(module: Out<CUmodule>, function: CUfunction) -> DriverResult {
    current()?;
    module.set(from_handle(function)?.module.as_ptr())
}

pub(crate) fn cuFuncGetName(name: Out<*const c_char>, function: CUfunction) -> DriverResult {
    current()?;
    name.set(from_handle(function)?.name.as_ptr())
}

pub(crate) fn cuFuncGetParamInfo(
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> DriverResult {
    current()?;
    let param = from_handle(function)?.param(index)?;
    offset.set(param.0)?;
    bytes.set_if_wanted(param.1);
    Ok(())
}

/// A function is loaded with its module.
pub(crate) fn cuFuncIsLoaded(state: Out<i32>, function: CUfunction) -> DriverResult {
    current()?;
    from_handle(function)?;
    state.set(LOADED)
}

pub(crate) fn cuFuncLoad(function: CUfunction) -> DriverResult {
    current()?;
    from_handle(function).map(drop)
}
