//! The words behind a failing call: a driver result is one number, this is the rest.

use std::cell::RefCell;
use std::env;
use std::sync::OnceLock;

use crate::codes::{self, CUDA_ERROR_INVALID_VALUE, CUresult};

/// The environment variable that has the details written to standard error: for programs that
/// cannot call [`take_detail`].
const VERBOSE: &str = "FERROWARP_VERBOSE";

/// What lies behind the last failing driver call on this thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detail {
    /// The true result code, also where the call returned 999 because `cust` lacks the code.
    pub code: u32,
    /// One or more sentences: the JIT log, the kernel's fault, the size that did not fit, …
    pub text: String,
}

thread_local! {
    static LAST: RefCell<Option<Detail>> = const { RefCell::new(None) };
}

/// Takes the detail of the last driver call that failed on this thread, if nobody took it yet.
///
/// `CUDA_ERROR_NOT_READY` is an answer and not a fault: it leaves no detail.
pub fn take_detail() -> Option<Detail> {
    LAST.take()
}

/// Whether details are written out; an error where the variable says neither.
pub(crate) fn verbose() -> Answer<bool> {
    static READ: OnceLock<Answer<bool>> = OnceLock::new();
    READ.get_or_init(|| wish(env::var_os(VERBOSE).map(|value| value.to_string_lossy().into())))
        .clone()
}

fn wish(value: Option<String>) -> Answer<bool> {
    match value.as_deref() {
        None | Some("" | "0") => Ok(false),
        Some("1") => Ok(true),
        Some(other) => {
            let text = format!("{VERBOSE} is `{other}`; it may be `0` or `1`");
            Err(Failure::new(CUDA_ERROR_INVALID_VALUE, text))
        }
    }
}

/// Keeps the detail; a thread that is ending has no place for it any more.
fn keep(detail: Option<Detail>) {
    let _ = LAST.try_with(|last| last.replace(detail));
}

/// A call's failure, on its way to the caller: the code, and the words where there are any.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Failure {
    pub(crate) code: CUresult,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(code: CUresult, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// A failure of which nothing is known but the code.
impl From<CUresult> for Failure {
    fn from(code: CUresult) -> Self {
        Self { code, text: String::new() }
    }
}

pub(crate) type Answer<T = ()> = Result<T, Failure>;

/// Turns the answer of driver function `name` into the returned code, keeps its detail, and writes
/// it out where that is wished.
pub(crate) fn settle(name: &str, answer: Answer) -> CUresult {
    let (code, detail) = keep_detail(name, answer);
    if let (Some(detail), Ok(true)) = (detail, verbose()) {
        eprintln!("ferrowarp: {}", detail.text);
    }
    code
}

/// The same for a function by which programs only look what there is: nothing is written.
pub(crate) fn settle_quietly(name: &str, answer: Answer) -> CUresult {
    keep_detail(name, answer).0
}

fn keep_detail(name: &str, answer: Answer) -> (CUresult, Option<Detail>) {
    match answer {
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

fn describe(name: &str, failure: Failure) -> Detail {
    let known = codes::error_name(failure.code).zip(codes::error_meaning(failure.code));
    let words = match (failure.text.is_empty(), known) {
        (false, _) => failure.text,
        (true, Some((code, meaning))) => {
            format!("{} ({})", meaning.to_string_lossy(), code.to_string_lossy())
        }
        (true, None) => format!("the driver returned {}", failure.code),
    };
    Detail { code: failure.code.unsigned_abs(), text: format!("{name}: {words}") }
}

/// The message of a caught panic, as the text of a failure.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    format!("internal error of the emulator: {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_leaves_its_true_code_and_words() {
        assert_eq!(settle("cuX", Err(Failure::new(912, "cluster of 32"))), 999);
        let detail = take_detail().unwrap();
        assert_eq!((detail.code, detail.text.as_str()), (912, "cuX: cluster of 32"));
        assert_eq!(take_detail(), None);
    }

    #[test]
    fn the_variable_is_read_strictly() {
        let said = |value: &str| wish(Some(value.to_owned()));
        assert!(!wish(None).unwrap() && !said("0").unwrap() && said("1").unwrap());
        let failure = said("yes").unwrap_err();
        assert!(failure.text.contains("FERROWARP_VERBOSE is `yes`"), "{}", failure.text);
    }

    #[test]
    fn not_ready_leaves_none() {
        settle("cuX", Err(Failure::from(1)));
        assert_eq!(settle("cuX", Err(Failure::from(600))), 600);
        assert_eq!(take_detail(), None);
    }
}
