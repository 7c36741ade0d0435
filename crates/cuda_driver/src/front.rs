//! What every exported function does: dispatch the call to the chosen driver, and keep the details
//! of an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{self, Driver};
use crate::codes::{CUDA_ERROR_UNKNOWN, ResultCode};
use crate::detail::{DriverError, DriverResult, finish_call, finish_call_quietly, panicked};
use crate::emulated::serve;
use crate::symbols::Symbols;

/// Dispatches a call to the chosen driver.
pub(crate) fn call(
    name: &'static str,
    real: impl FnOnce(&'static Symbols) -> DriverResult,
    emulated: impl FnOnce() -> DriverResult,
) -> ResultCode {
    respond(name, || match backend::driver()? {
        Driver::Cuda(symbols) => real(symbols),
        Driver::Emulator => serve::call(name, emulated),
    })
}

/// A call that the front itself implements by `function`.
pub(crate) fn respond(name: &str, function: impl FnOnce() -> DriverResult) -> ResultCode {
    finish_call(name, catch_panic(function))
}

/// A call by which a program probes for features: it often fails, and its details are not printed.
pub(crate) fn respond_quietly(name: &str, function: impl FnOnce() -> DriverResult) -> ResultCode {
    finish_call_quietly(name, catch_panic(function))
}

/// Turns a panic into an error, since it must not cross the C interface. A panic is a bug of this
/// crate or of the emulator.
fn catch_panic(function: impl FnOnce() -> DriverResult) -> DriverResult {
    catch_unwind(AssertUnwindSafe(function))
        .unwrap_or_else(|panic| Err(DriverError::new(CUDA_ERROR_UNKNOWN, panicked(&*panic))))
}
