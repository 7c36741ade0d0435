//! Module loads and links on the real driver. The compiler's log is kept for the error's details,
//! and PTX text is NUL-terminated.

use std::ffi::{c_char, c_int, c_uint, c_void};

use crate::abi::{
    CUlinkState, CUmodule, ERROR_LOG, ERROR_LOG_BYTES, HostPtr, INFO_LOG, INFO_LOG_BYTES, In, Out,
    PTX, TARGET_FROM_CONTEXT,
};
use crate::codes::{CUDA_SUCCESS, ResultCode};
use crate::detail::{DriverError, DriverResult};
use crate::real;
use crate::symbols::Symbols;

const LOG_BYTES: usize = 16 * 1024;

/// `cuModuleLoadData`, as a load without options.
pub(crate) fn load_data(symbols: &Symbols, module: Out<CUmodule>, image: HostPtr) -> DriverResult {
    load_data_ex(symbols, module, image, 0, In::NULL, Out::NULL)
}

/// `cuModuleLoadDataEx`, with log buffers added unless the caller passed some.
pub(crate) fn load_data_ex(
    symbols: &Symbols,
    module: Out<CUmodule>,
    image: HostPtr,
    n_options: c_uint,
    options: In<c_int>,
    values: Out<*mut c_void>,
) -> DriverResult {
    let load = symbols.cuModuleLoadDataEx.ok_or_else(|| real::missing("cuModuleLoadDataEx"))?;
    let theirs: Vec<c_int> = (0..n_options as usize).map(|at| options.at(at)).collect();
    if theirs.iter().any(|option| (INFO_LOG..=ERROR_LOG_BYTES).contains(option)) {
        // SAFETY: the caller's own arguments for the function that the caller meant.
        return real::checked(unsafe { load(module, image, n_options, options, values) });
    }
    let mut log = Log::new();
    let (all_options, mut all_values) = with_log(theirs, values, &mut log);
    let count = all_options.len() as c_uint;
    let (options, all) = (In::from(&all_options[..]), Out::from(&mut all_values[..]));
    // SAFETY: the caller's image and place for the module; both arrays have `count` elements,
    // and the log's buffers outlive the call.
    let code = unsafe { load(module, image, count, options, all) };
    give_back(&all_values, values_of(n_options, &all_options), values);
    loaded(code, &log)
}

/// `cuLinkAddData`, with a NUL appended to PTX text, which the driver needs and `cust` 0.3.2 omits.
#[allow(clippy::too_many_arguments)]
pub(crate) fn link_add_data(
    symbols: &Symbols,
    state: CUlinkState,
    kind: c_int,
    data: HostPtr,
    len: usize,
    name: In<c_char>,
    n_options: c_uint,
    options: In<c_int>,
    values: Out<*mut c_void>,
) -> DriverResult {
    let add = symbols.cuLinkAddData_v2.ok_or_else(|| real::missing("cuLinkAddData_v2"))?;
    let mut text = Vec::new();
    let (mut data, mut len) = (data, len);
    if kind == PTX && len > 0 && data.check().is_ok() {
        // SAFETY: the caller guarantees that `len` bytes are valid during the call.
        text.extend_from_slice(unsafe { data.bytes(len) });
        if text.last() != Some(&0) {
            text.push(0);
        }
        (data, len) = (HostPtr(text.as_mut_ptr().cast()), text.len());
    }
    // SAFETY: the caller's own arguments, or in their place a copy of the text that outlives the
    // call; the driver keeps no reference to it.
    real::checked(unsafe { add(state, kind, data, len, name, n_options, options, values) })
}

/// The caller's options, followed by those for the logs.
fn with_log(
    theirs: Vec<c_int>,
    values: Out<*mut c_void>,
    log: &mut Log,
) -> (Vec<c_int>, Vec<*mut c_void>) {
    let value = |(at, &option): (usize, &c_int)| match option {
        // `cust` 0.3.2 passes no value for this one, so there may be none to read.
        TARGET_FROM_CONTEXT => std::ptr::null_mut(),
        _ => values.get_at(at),
    };
    let mut all_values: Vec<_> = theirs.iter().enumerate().map(value).collect();
    let mut all_options = theirs;
    let size = LOG_BYTES as *mut c_void;
    all_options.extend([ERROR_LOG, ERROR_LOG_BYTES, INFO_LOG, INFO_LOG_BYTES]);
    all_values.extend([log.error.as_mut_ptr().cast(), size, log.info.as_mut_ptr().cast(), size]);
    (all_options, all_values)
}

/// The indices of the caller's options that have a value.
fn values_of(n_options: c_uint, options: &[c_int]) -> impl Iterator<Item = usize> + '_ {
    (0..n_options as usize).filter(|&at| options[at] != TARGET_FROM_CONTEXT)
}

/// Copies option values back to the caller, since the driver returns results in some of them, such
/// as the compile time.
fn give_back(
    all: &[*mut c_void],
    positions: impl Iterator<Item = usize>,
    theirs: Out<*mut c_void>,
) {
    for at in positions {
        theirs.set_at(at, all[at]);
    }
}

fn loaded(code: ResultCode, log: &Log) -> DriverResult {
    if code == CUDA_SUCCESS { Ok(()) } else { Err(DriverError::new(code, log.text())) }
}

struct Log {
    error: Vec<u8>,
    info: Vec<u8>,
}

impl Log {
    fn new() -> Self {
        Self { error: vec![0; LOG_BYTES], info: vec![0; LOG_BYTES] }
    }

    fn text(&self) -> String {
        let [error, info] = [&self.error, &self.info].map(|buffer| {
            let end = buffer.iter().position(|&byte| byte == 0).unwrap_or(buffer.len());
            String::from_utf8_lossy(&buffer[..end]).trim().to_owned()
        });
        if info.is_empty() || error.is_empty() { error + &info } else { error + "\n" + &info }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_follow_the_callers_options() {
        let mut values = [7 as *mut c_void, std::ptr::null_mut()];
        let mut log = Log::new();
        let theirs = vec![0, TARGET_FROM_CONTEXT];
        let (options, all) = with_log(theirs, Out::from(&mut values[..]), &mut log);
        assert_eq!(options, [0, 8, ERROR_LOG, ERROR_LOG_BYTES, INFO_LOG, INFO_LOG_BYTES]);
        assert_eq!((all[0] as usize, all[1] as usize, all[3] as usize), (7, 0, LOG_BYTES));
        assert_eq!(values_of(2, &options).collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn the_text_ends_at_the_first_nul() {
        let mut log = Log::new();
        log.error[..5].copy_from_slice(b"bad \n");
        assert_eq!(log.text(), "bad");
        log.info[..4].copy_from_slice(b"info");
        assert_eq!(log.text(), "bad\ninfo");
    }
}
