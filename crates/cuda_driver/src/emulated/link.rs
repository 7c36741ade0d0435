//! The linker. One PTX text goes in and comes out as an image that loads; more than one would need
//! a linker of PTX, which the emulator does not have.
#![allow(non_snake_case)]

use std::ffi::{CString, c_char, c_void};
use std::sync::Mutex;

use super::current::current;
use super::jit::Options;
use super::module::compile;
use super::registry::{Handle, Registry};
use super::{invalid, lock};
use crate::abi::{CUlinkState, HostPtr, In, Out};
use crate::codes::{CUDA_ERROR_INVALID_PTX, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};
use crate::real::module::PTX;

/// A link in the making. It owns the image that it hands out.
struct Link {
    context: Handle,
    text: Mutex<Option<CString>>,
}

static LINKS: Registry<Link> = Registry::new("linker");

/// Forgets a context's linkers.
pub(super) fn forget(context: Handle) {
    LINKS.remove_where(|link| link.context == context);
}

pub(crate) fn cuLinkCreate_v2(
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
    state: Out<CUlinkState>,
) -> Answer {
    let context = current()?;
    Options::read(n_options, options, values)?;
    state.check()?;
    let link = Link { context: context.handle, text: Mutex::default() };
    state.set(LINKS.add(link).as_ptr())
}

#[allow(clippy::too_many_arguments)]
pub(crate) fn cuLinkAddData_v2(
    state: CUlinkState,
    kind: i32,
    data: HostPtr,
    len: usize,
    _name: In<c_char>,
    n_options: u32,
    options: In<i32>,
    values: Out<*mut c_void>,
) -> Answer {
    let context = current()?;
    let link = LINKS.get(state)?;
    if kind != PTX {
        return Err(unsupported(format!("input of kind {kind}; it links PTX text, kind {PTX}")));
    }
    data.check()?;
    // SAFETY: the caller vouches for `len` bytes during the call.
    let text = unsafe { data.bytes(len) };
    let text = text.strip_suffix(b"\0").unwrap_or(text);
    Options::read(n_options, options, values)?.logged(|| compile(text, context.gpu))?;
    let mut place = lock(&link.text);
    if place.is_some() {
        return Err(unsupported("linking two texts"));
    }
    *place = Some(CString::new(text).map_err(|error| {
        Failure::new(CUDA_ERROR_INVALID_PTX, format!("the PTX is not text: {error}"))
    })?);
    Ok(())
}

fn unsupported(what: impl std::fmt::Display) -> Failure {
    let text = format!("the emulator's linker does not have {what}");
    Failure::new(CUDA_ERROR_NOT_SUPPORTED, text)
}

pub(crate) fn cuLinkComplete(
    state: CUlinkState,
    image: Out<*mut c_void>,
    len: Out<usize>,
) -> Answer {
    current()?;
    let link = LINKS.get(state)?;
    let place = lock(&link.text);
    let text = place.as_ref().ok_or_else(|| invalid("nothing was added to the linker"))?;
    image.set(text.as_ptr().cast_mut().cast())?;
    len.set_if_wanted(text.as_bytes_with_nul().len());
    Ok(())
}

pub(crate) fn cuLinkDestroy(state: CUlinkState) -> Answer {
    current()?;
    LINKS.remove(state).map(drop)
}
