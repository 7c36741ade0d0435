//! Functions: the kernels of modules, as the API sees them.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::sync::Arc;

use super::current::current;
use super::kernel::{self, Kernel};
use super::library;
use super::preferences::{check_cache_config, check_shared_mem_config};
use crate::abi::{CUfunction, CUmodule, Out};
use crate::detail::Answer;

/// The state of a function that can run at once.
const LOADED: i32 = 1;

/// The kernel of this handle, which may be that of a library's kernel as well.
pub(super) fn named(function: CUfunction) -> Answer<Arc<Kernel>> {
    match library::function_of(function)? {
        Some(handle) => kernel::get(handle),
        None => kernel::get(function.into()),
    }
}

pub(crate) fn cuFuncGetAttribute(value: Out<i32>, attribute: i32, function: CUfunction) -> Answer {
    current()?;
    value.set(named(function)?.attribute(attribute)?)
}

pub(crate) fn cuFuncSetAttribute(function: CUfunction, attribute: i32, value: i32) -> Answer {
    current()?;
    named(function)?.set_attribute(attribute, value)
}

/// A hint about a cache that the emulator does not have: it is checked, and that is all.
pub(crate) fn cuFuncSetCacheConfig(function: CUfunction, config: i32) -> Answer {
    current()?;
    named(function)?;
    check_cache_config(config)
}

/// A hint about banks, without effect on devices since 2014 as well: it is checked.
pub(crate) fn cuFuncSetSharedMemConfig(function: CUfunction, config: i32) -> Answer {
    current()?;
    named(function)?;
    check_shared_mem_config(config)
}

pub(crate) fn cuFuncGetModule(module: Out<CUmodule>, function: CUfunction) -> Answer {
    current()?;
    module.set(named(function)?.module.as_ptr())
}

pub(crate) fn cuFuncGetName(name: Out<*const c_char>, function: CUfunction) -> Answer {
    current()?;
    name.set(named(function)?.name.as_ptr())
}

pub(crate) fn cuFuncGetParamInfo(
    function: CUfunction,
    index: usize,
    offset: Out<usize>,
    bytes: Out<usize>,
) -> Answer {
    current()?;
    let param = named(function)?.param(index)?;
    offset.set(param.0)?;
    bytes.set_if_wanted(param.1);
    Ok(())
}

/// A function is loaded with its module.
pub(crate) fn cuFuncIsLoaded(state: Out<i32>, function: CUfunction) -> Answer {
    current()?;
    named(function)?;
    state.set(LOADED)
}

pub(crate) fn cuFuncLoad(function: CUfunction) -> Answer {
    current()?;
    named(function).map(drop)
}
