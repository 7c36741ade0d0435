//! What every exported function does: dispatch the call to the chosen driver, and keep the details
//! of an error.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{self, Driver};
use crate::codes::{CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_UNKNOWN, CUDA_SUCCESS, ResultCode};
use crate::detail::{DriverError, DriverResult, finish_call, finish_call_quietly, panicked};
use crate::emulated::serve;
use crate::real;
use crate::symbols::Symbols;

/// Dispatches a call that the real driver's function of the same name serves as it is; `real` calls that, or returns
/// `None` where the installed driver lacks it.
///
/// Launches take this path, and it costs few nanoseconds: nothing of this crate that could panic runs around a call
/// that the real driver serves.
#[inline]
pub(crate) fn forward(
    name: &'static str,
    real: impl FnOnce(&'static Symbols) -> Option<ResultCode>,
    emulated: impl FnOnce() -> DriverResult,
) -> ResultCode {
    match backend::cuda().map(real) {
        Some(Some(CUDA_SUCCESS)) => CUDA_SUCCESS,
        Some(Some(code)) => finish_call(name, Err(code.into())),
        Some(None) => finish_call(name, Err(real::missing(name))),
        None => respond(name, || match backend::driver()? {
            // Another thread has chosen it in between.
            Driver::Cuda(_) => Err(CUDA_ERROR_NOT_INITIALIZED.into()),
            Driver::Emulator => serve::call(name, emulated),
        }),
    }
}

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
