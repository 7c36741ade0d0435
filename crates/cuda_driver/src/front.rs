//! What every exported function does: find who answers, ask, and keep the detail of a failure.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::backend::{self, Served};
use crate::codes::{CUDA_ERROR_UNKNOWN, CUresult};
use crate::detail::{Answer, Failure, panicked, settle, settle_quietly};
use crate::emulated::serve;
use crate::table::Symbols;

/// A call that the chosen driver answers.
pub(crate) fn call(
    name: &'static str,
    real: impl FnOnce(&'static Symbols) -> Answer,
    emulated: impl FnOnce() -> Answer,
) -> CUresult {
    answer(name, || match backend::served()? {
        Served::Cuda(symbols) => real(symbols),
        Served::Emulator => serve::call(name, emulated),
    })
}

/// A call that `respond` answers.
pub(crate) fn answer(name: &str, respond: impl FnOnce() -> Answer) -> CUresult {
    settle(name, unpanicked(respond))
}

/// A call by which a program looks what there is: that something is not there is no news.
pub(crate) fn look(name: &str, respond: impl FnOnce() -> Answer) -> CUresult {
    settle_quietly(name, unpanicked(respond))
}

/// A panic in there is a fault of this crate or of the emulator; it becomes an error and never
/// crosses the C interface.
fn unpanicked(respond: impl FnOnce() -> Answer) -> Answer {
    catch_unwind(AssertUnwindSafe(respond))
        .unwrap_or_else(|panic| Err(Failure::new(CUDA_ERROR_UNKNOWN, panicked(&*panic))))
}
