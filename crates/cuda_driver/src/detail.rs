//! Details of failed calls. A driver function returns only a number; this module keeps the
//! explanation.

use std::cell::RefCell;
use std::env;
use std::sync::OnceLock;

use crate::codes::{self, CUDA_ERROR_INVALID_VALUE, ResultCode};

/// The environment variable that makes the details appear on standard error, for programs that
/// cannot call [`take_detail`].
const VERBOSE: &str = "FERROWARP_VERBOSE";

/// The details of the last driver call that failed on this thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The true result code, also if the call returned 999 because `cust` lacks the code.
    pub code: u32,
    /// The explanation in one or more sentences: the JIT log, the kernel's fault, the size that did
    /// not fit, …
    pub text: String,
}

thread_local! {
    static LAST: RefCell<Option<Detail>> = const { RefCell::new(None) };
}

/// Takes the details of the last driver call that failed on this thread, unless they were taken
/// already.
///
/// `CUDA_ERROR_NOT_READY` is not a failure and leaves no details.
pub fn take_detail() -> Option<Detail> {
    LAST.take()
}

/// The true code of the last driver call that failed on this thread, unless its details were taken.
pub(crate) fn true_code() -> Option<ResultCode> {
    LAST.try_with(|last| last.borrow().as_ref().map(|detail| detail.code.cast_signed())).ok()?
}

/// Whether details are written to standard error; an error if the variable has an invalid value.
pub(crate) fn verbose() -> DriverResult<bool> {
    static READ: OnceLock<DriverResult<bool>> = OnceLock::new();
    READ.get_or_init(|| {
        parse_verbose(env::var_os(VERBOSE).map(|value| value.to_string_lossy().into()))
    })
    .clone()
}

fn parse_verbose(value: Option<String>) -> DriverResult<bool> {
    match value.as_deref() {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => {
            let text = format!("{VERBOSE} is `{other}`; it may be `0` or `1`");
            Err(DriverError::new(CUDA_ERROR_INVALID_VALUE, text))
        }
    }
}

/// Keeps the details. In a thread that is ending, whose thread-local variables are gone, they are
/// dropped.
fn keep(detail: Option<Detail>) {
    let _ = LAST.try_with(|last| last.replace(detail));
}

/// The error of a call: the result code and an explanation, which may be empty.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct DriverError {
    pub(crate) code: ResultCode,
    pub(crate) text: String,
}

impl DriverError {
    pub(crate) fn new(code: ResultCode, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// An error without an explanation.
impl From<ResultCode> for DriverError {
    fn from(code: ResultCode) -> Self {
        Self { code, text: String::new() }
    }
}

pub(crate) type DriverResult<T = ()> = Result<T, DriverError>;

/// Turns the result of driver function `name` into the code to return, keeps its details, and
/// prints them if the user asked for that.
pub(crate) fn finish_call(name: &str, result: DriverResult) -> ResultCode {
    let (code, detail) = keep_detail(name, result);
    if let (Some(detail), Ok(true)) = (detail, verbose()) {
        eprintln!("ferrowarp: {}", detail.text);
    }
    code
}

/// Finishes the call of a function by which programs probe for features: details are kept, but not
/// printed.
pub(crate) fn finish_call_quietly(name: &str, result: DriverResult) -> ResultCode {
    keep_detail(name, result).0
}

fn keep_detail(name: &str, result: DriverResult) -> (ResultCode, Option<Detail>) {
    match result {
        Ok(()) => (codes::CUDA_SUCCESS, None),
        Err(failure) if failure.code == codes::CUDA_ERROR_NOT_READY => {
            keep(None);
            (failure.code, None)
        }
        Err(failure) => {
            let returned = codes::returned_as(failure.code);
            let detail = describe(name, failure);
            keep(Some(detail.clone()));
            (returned, Some(detail))
        }
    }
}

fn describe(name: &str, failure: DriverError) -> Detail {
    let row = codes::error_name(failure.code).zip(codes::error_meaning(failure.code));
    let explanation = match (failure.text.is_empty(), row) {
        (false, _) => failure.text,
        (true, Some((code, meaning))) => {
            format!("{} ({})", meaning.to_string_lossy(), code.to_string_lossy())
        }
        (true, None) => format!("the driver returned {}", failure.code),
    };
    Detail { code: failure.code.unsigned_abs(), text: format!("{name}: {explanation}") }
}

/// The message of a caught panic, as the explanation of an error.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("internal error of the emulator: {message}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_its_true_code_and_words() {
        assert_eq!(finish_call("cuX", Err(DriverError::new(912, "cluster of 32"))), 999);
        let detail = take_detail().unwrap();
        assert_eq!((detail.code, detail.text.as_str()), (912, "cuX: cluster of 32"));
        assert_eq!(take_detail(), None);
    }

    #[test]
    fn the_variable_is_read_strictly() {
        let parse = |value: &str| parse_verbose(Some(value.to_owned()));
        assert!(!parse_verbose(None).unwrap() && !parse("0").unwrap() && parse("1").unwrap());
        let failure = parse("yes").unwrap_err();
        assert!(failure.text.contains("FERROWARP_VERBOSE is `yes`"), "{}", failure.text);
    }

    #[test]
    fn not_ready_leaves_none() {
        finish_call("cuX", Err(DriverError::from(1)));
        assert_eq!(finish_call("cuX", Err(DriverError::from(600))), 600);
        assert_eq!(take_detail(), None);
    }
}
