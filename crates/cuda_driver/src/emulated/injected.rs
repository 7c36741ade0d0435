//! Injected faults: errors that a test or an environment variable asks for, since nothing else
//! provokes them.

use std::cell::RefCell;
use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{allocations, event, graph, graph_exec, invalid_value, library, module, pool, stream};
use crate::codes::ResultCode;
use crate::detail::{DriverError, DriverResult};

/// The environment variable that names functions and the error codes that they return.
const FAIL: &str = "FERROWARP_EMULATOR_FAIL";

/// A failure that the environment variable asks for.
#[derive(Debug)]
struct PlannedFailure {
    name: String,
    /// The number of the call that fails, counted from 1; `None` for every call.
    nth: Option<u64>,
    code: ResultCode,
    calls: AtomicU64,
}

static PLANNED: OnceLock<Vec<PlannedFailure>> = OnceLock::new();

thread_local! {
    /// The calls that are recorded on this thread; see `crate::injection`.
    static WATCHED: RefCell<Option<WatchedCalls>> = const { RefCell::new(None) };
}

/// A driver call and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name of the function.
    pub function: &'static str,
    /// Its result code. This is the true code, also if the caller got 999 in its place.
    pub code: ResultCode,
}

/// The numbers of driver objects that exist in this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Allocations, of all kinds of memory.
    pub allocations: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, including those of libraries.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Memory pools, without the devices' default pools.
    pub pools: usize,
    /// Graphs and executable graphs.
    pub graphs: usize,
}

/// The recorded calls of a thread, and which of them is made to fail, if any.
#[derive(Debug, Default)]
pub(crate) struct WatchedCalls {
    pub(crate) calls: Vec<Call>,
    pub(crate) fail: Option<(usize, ResultCode)>,
}

/// Reads the environment variable.
pub(super) fn start(functions: &[&str]) -> DriverResult {
    let text = env::var_os(FAIL).map(|text| text.to_string_lossy().into_owned());
    let planned = read(text.as_deref().unwrap_or_default(), functions)?;
    PLANNED.get_or_init(|| planned);
    Ok(())
}

/// Parses a list such as `cuMemAlloc_v2:46,cuLaunchKernel#2:912`.
fn read(text: &str, functions: &[&str]) -> DriverResult<Vec<PlannedFailure>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| one(part, functions).ok_or_else(|| unreadable(part))).collect()
}

fn one(part: &str, functions: &[&str]) -> Option<PlannedFailure> {
    let (name, code) = part.split_once(':')?;
    let code = code.trim().parse().ok().filter(|code| *code > 0)?;
    let (name, nth) = match name.split_once('#') {
        Some((name, nth)) => (name, Some(nth.trim().parse().ok().filter(|nth| *nth > 0)?)),
        None => (name, None),
    };
    let name = name.trim().to_owned();
    let calls = AtomicU64::new(0);
    functions.contains(&name.as_str()).then_some(PlannedFailure { name, nth, code, calls })
}

fn unreadable(part: &str) -> DriverError {
    invalid_value(format!(
        "{FAIL} has `{part}`; each entry is a driver function, an optional call number, and an error \
         code above 0, such as `cuMemAlloc_v2:2` or `cuMemAlloc_v2#3:2`"
    ))
}

/// Makes a call, unless it is one that must fail, and records it if the thread records its calls.
pub(crate) fn watched(name: &'static str, call: impl FnOnce() -> DriverResult) -> DriverResult {
    let failure = planned_by_watcher().or_else(|| planned_by_variable(name));
    let answer = match failure {
        Some(code) => Err(DriverError::new(code, format!("{name} was made to return {code}"))),
        None => call(),
    };
    let code = answer.as_ref().err().map_or(0, |failure| failure.code);
    WATCHED.with_borrow_mut(|watched_calls| {
        watched_calls
            .iter_mut()
            .for_each(|watched_calls| watched_calls.calls.push(Call { function: name, code }));
    });
    answer
}

/// Runs `work` on this thread while its calls are recorded.
pub(crate) fn while_watching<R>(
    watched_calls: WatchedCalls,
    work: impl FnOnce() -> R,
) -> (R, WatchedCalls) {
    WATCHED.set(Some(watched_calls));
    let result = work();
    (result, WATCHED.take().unwrap_or_default())
}

fn planned_by_watcher() -> Option<ResultCode> {
    WATCHED.with_borrow(|watched_calls| {
        let watched_calls = watched_calls.as_ref()?;
        let (nth, code) = watched_calls.fail?;
        (watched_calls.calls.len() == nth).then_some(code)
    })
}

fn planned_by_variable(name: &str) -> Option<ResultCode> {
    let plan = PLANNED.get()?.iter().find(|plan| plan.name == name)?;
    let call = plan.calls.fetch_add(1, Ordering::Relaxed) + 1;
    plan.nth.is_none_or(|nth| nth == call).then_some(plan.code)
}

/// The numbers of live objects.
pub(crate) fn live() -> Live {
    Live {
        allocations: allocations::live(),
        streams: stream::live(),
        events: event::live(),
        modules: module::live(),
        libraries: library::live(),
        pools: pool::live(),
        graphs: graph::live() + graph_exec::live(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::FUNCTIONS;

    fn read(text: &str) -> DriverResult<Vec<PlannedFailure>> {
        super::read(text, FUNCTIONS)
    }

    #[test]
    fn functions_and_codes_are_read_strictly() {
        let planned = read(" cuMemAlloc_v2:46 , cuLaunchKernel # 3 : 912").unwrap();
        let parsed = planned.iter().map(|plan| (plan.name.as_str(), plan.nth, plan.code));
        let expected = [("cuMemAlloc_v2", None, 46), ("cuLaunchKernel", Some(3), 912)];
        assert!(parsed.eq(expected), "{planned:?}");
        assert!(read("").unwrap().is_empty());
        for text in [
            "cuMemAlloc_v2",
            "cuNothing:2",
            "cuInit:0",
            "cuInit:x",
            "cuInit:-1",
            "cuMemAlloc_v2#0:2",
            "cuMemAlloc_v2#:2",
        ] {
            let failure = read(text).unwrap_err();
            assert!(failure.text.contains(&format!("{FAIL} has `{text}`")), "{}", failure.text);
        }
    }
}
