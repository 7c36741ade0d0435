//! Fault injection for tests, within the process: records which driver calls a function makes, and
//! makes one of them fail. It works on the emulator only; calls to a GPU's driver are neither
//! recorded nor changed.
//!
//! ```
//! use cuda_driver::injection;
//!
//! let work = || { /* driver calls */ };
//! let ((), calls) = injection::watch(work);
//! for nth in 0..calls.len() {
//!     let before = injection::live();
//!     let (_, _) = injection::fail(nth, 700, work);
//!     assert_eq!(injection::live(), before);
//! }
//! ```

use crate::codes::ResultCode;
use crate::emulated::injected::{self, WatchedCalls};

pub use crate::emulated::injected::{Call, Live};

/// Runs `work` and records the driver calls that it makes on this thread, in order. Calls on other
/// threads are not recorded.
pub fn watch<R>(work: impl FnOnce() -> R) -> (R, Vec<Call>) {
    let (result, watched_calls) = injected::while_watching(WatchedCalls::default(), work);
    (result, watched_calls.calls)
}

/// Runs `work` and records its driver calls as [`watch`] does, but instead of making call `nth`
/// (counted from 0) returns `code`.
pub fn fail<R>(nth: usize, code: ResultCode, work: impl FnOnce() -> R) -> (R, Vec<Call>) {
    let watched_calls = WatchedCalls { fail: Some((nth, code)), ..WatchedCalls::default() };
    let (result, watched_calls) = injected::while_watching(watched_calls, work);
    (result, watched_calls.calls)
}

/// Counts the live objects of the process, whichever thread made them.
pub fn live() -> Live {
    injected::live()
}
