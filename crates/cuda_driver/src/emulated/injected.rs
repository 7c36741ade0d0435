//! Failures that a test asks for, since nothing else provokes them.

use std::cell::RefCell;
use std::env;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use super::{allocations, event, graph, graph_exec, invalid, library, module, pool, stream};
use crate::codes::CUresult;
use crate::detail::{Answer, Failure};

/// The environment variable that names functions, and what they answer.
const FAIL: &str = "FERROWARP_EMULATOR_FAIL";

/// What shall fail, and how.
#[derive(Debug)]
struct Plan {
    name: String,
    /// The call of that function, from 1; every one if none is named.
    nth: Option<u64>,
    code: CUresult,
    calls: AtomicU64,
}

static PLANNED: OnceLock<Vec<Plan>> = OnceLock::new();

thread_local! {
    /// What is watched on this thread; see `crate::injection`.
    static SCENE: RefCell<Option<Scene>> = const { RefCell::new(None) };
}

/// A call of the driver, and what it answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function.
    pub function: &'static str,
    /// Its answer; the true one also where the caller got 999 in its place.
    pub code: CUresult,
}

/// What programs have made in this process, and not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Live {
    /// Memory, of whatever kind.
    pub allocations: usize,
    /// Streams.
    pub streams: usize,
    /// Events.
    pub events: usize,
    /// Modules, those of libraries too.
    pub modules: usize,
    /// Libraries.
    pub libraries: usize,
    /// Pools of memory, without the devices' own.
    pub pools: usize,
    /// Graphs, as they were made and ready to be launched.
    pub graphs: usize,
}

/// The calls of a thread, of which one may be made to fail.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    pub(crate) calls: Vec<Call>,
    pub(crate) fail: Option<(usize, CUresult)>,
}

/// Reads the variable.
pub(super) fn start(functions: &[&str]) -> Answer {
    let text = env::var_os(FAIL).map(|text| text.to_string_lossy().into_owned());
    let planned = read(text.as_deref().unwrap_or_default(), functions)?;
    PLANNED.get_or_init(|| planned);
    Ok(())
}

/// `cuMemAlloc_v2:46,cuLaunchKernel#2:912`
fn read(text: &str, functions: &[&str]) -> Answer<Vec<Plan>> {
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(|part| one(part, functions).ok_or_else(|| wrong(part))).collect()
}

fn one(part: &str, functions: &[&str]) -> Option<Plan> {
    let (name, code) = part.split_once(':')?;
    let code = code.trim().parse().ok().filter(|code| *code > 0)?;
    let (name, nth) = match name.split_once('#') {
        Some((name, nth)) => (name, Some(nth.trim().parse().ok().filter(|nth| *nth > 0)?)),
        None => (name, None),
    };
    let name = name.trim().to_owned();
    let calls = AtomicU64::new(0);
    functions.contains(&name.as_str()).then_some(Plan { name, nth, code, calls })
}

fn wrong(part: &str) -> Failure {
    invalid(format!(
        "{FAIL} has `{part}`; each part is a driver function, perhaps the number of a call, and a \
         code above 0, such as `cuMemAlloc_v2:2` or `cuMemAlloc_v2#3:2`"
    ))
}

/// A call, which fails if it is one that shall fail, and is noted where somebody watches.
pub(crate) fn watched(name: &'static str, call: impl FnOnce() -> Answer) -> Answer {
    let failure = due_in_scene().or_else(|| due_in_plan(name));
    let answer = match failure {
        Some(code) => Err(Failure::new(code, format!("{name} was made to answer {code}"))),
        None => call(),
    };
    let code = answer.as_ref().err().map_or(0, |failure| failure.code);
    SCENE.with_borrow_mut(|scene| {
        scene.iter_mut().for_each(|scene| scene.calls.push(Call { function: name, code }));
    });
    answer
}

/// Runs `work` on this thread in a scene.
pub(crate) fn in_scene<R>(scene: Scene, work: impl FnOnce() -> R) -> (R, Scene) {
    SCENE.set(Some(scene));
    let result = work();
    (result, SCENE.take().unwrap_or_default())
}

fn due_in_scene() -> Option<CUresult> {
    SCENE.with_borrow(|scene| {
        let scene = scene.as_ref()?;
        let (nth, code) = scene.fail?;
        (scene.calls.len() == nth).then_some(code)
    })
}

fn due_in_plan(name: &str) -> Option<CUresult> {
    let plan = PLANNED.get()?.iter().find(|plan| plan.name == name)?;
    let call = plan.calls.fetch_add(1, Ordering::Relaxed) + 1;
    plan.nth.is_none_or(|nth| nth == call).then_some(plan.code)
}

/// What is live now.
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
    use crate::table::FUNCTIONS;

    fn read(text: &str) -> Answer<Vec<Plan>> {
        super::read(text, FUNCTIONS)
    }

    #[test]
    fn functions_and_codes_are_read_strictly() {
        let planned = read(" cuMemAlloc_v2:46 , cuLaunchKernel # 3 : 912").unwrap();
        let told = planned.iter().map(|plan| (plan.name.as_str(), plan.nth, plan.code));
        let expected = [("cuMemAlloc_v2", None, 46), ("cuLaunchKernel", Some(3), 912)];
        assert!(told.eq(expected), "{planned:?}");
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
