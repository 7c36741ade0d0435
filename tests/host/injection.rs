//! Each driver call of a scenario fails once, with each of several codes: nothing leaks, nothing is
//! freed twice, nothing panics, and the error is the call's.
//!
//! There is a scenario for each part of the crate, and a test for each scenario; calls of other threads
//! (the ring for pageable copies) have tests of their own.

#[path = "injection/memory.rs"]
mod memory;
#[path = "injection/running.rs"]
mod running;

use std::collections::BTreeMap;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Duration;

use cuda_driver::injection::{self, Call, Live};
use ferrowarp::{DeviceBuffer, Gpu, GpuError, GpuResult};

use crate::child::{child, lines};
use crate::kernels::{IMAGES, fill, gpu};

/// Out of memory, invalid value, invalid context, illegal address, launch failure, unknown, and one that
/// cust's enum does not have. 700 and 719 end a context.
const CODES: [i32; 7] = [2, 1, 201, 700, 719, 999, 912];
const LEN: usize = 300;

/// What ends something, and what is called on the way there: nobody hears of its failure.
const ENDS: [&str; 21] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuEventSynchronize",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuLibraryUnload",
    "cuMemAddressFree",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemHostUnregister",
    "cuMemPoolDestroy",
    "cuMemRelease",
    "cuMemUnmap",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
    // Around a load: where it fails, a load that a capture forbids says so.
    "cuThreadExchangeStreamCaptureMode",
];

/// What gives memory.
const ALLOCATES: [&str; 6] = [
    "cuMemAddressReserve",
    "cuMemAlloc",
    "cuMemCreate",
    "cuMemGetAllocationGranularity",
    "cuMemMap",
    "cuMemSetAccess",
];

/// What loads a text as a library: where that fails, it is loaded as a module.
const AS_LIBRARY: [&str; 3] = ["cuLibraryGetModule", "cuLibraryLoadData", "cuModuleGetLoadingMode"];

/// Asked for one parameter after another; code 1 is the answer that there is no more.
const PROBE: &str = "cuFuncGetParamInfo";

/// A part of the crate at work.
struct Scenario {
    name: &'static str,
    run: fn(&Gpu) -> GpuResult<()>,
    /// Calls whose failure changes nothing but what something costs, beside [`ENDS`].
    silent: &'static [&'static str],
    /// What stays where nobody can wait for what may still use it.
    stays: usize,
}

macro_rules! scenarios {
    ($($test:ident: $run:path, $silent:expr, $stays:expr;)*) => {
        const SCENARIOS: &[Scenario] = &[$(
            Scenario { name: stringify!($test), run: $run, silent: &$silent, stays: $stays },
        )*];
        $(
            #[test]
            fn $test() {
                each_call_may_fail(stringify!($test));
            }
        )*
    };
}

// `cuMemsetD8Async` poisons, `cuMemAdvise` tells where a ring's memory should stay, `cuPointerGetAttributes`
// asks whether memory is page-locked already, `cuStreamQuery` whether a kernel stays.
scenarios! {
    a_device_opens_works_and_ends: opened, ["cuMemsetD8Async"], 0;
    page_locked_memory: memory::page_locked, [], 0;
    borrowed_host_memory: memory::borrowed, ["cuPointerGetAttributes"], 0;
    named_ways_and_fills: memory::ways, ["cuPointerGetAttributes"], 0;
    memory_of_both_sides: memory::both_sides, ["cuMemAdvise"], 1;
    memory_of_two_devices: memory::two_devices, [], 0;
    memory_that_grows: memory::growing, [], 2;
    streams_and_events: running::streams, [], 0;
    futures_and_host_functions: running::futures, [], 0;
    frames: running::frames, [], 4;
    launches_of_every_kind: running::launches, [], 0;
    batches: running::batches, [], 0;
    graphs: running::graphs, [], 4;
    captures_and_graphs_in_graphs: running::captures, [], 4;
    pools_of_devices: running::pools, [], 0;
    versions_of_a_module: running::versions, [], 0;
    kernels_that_stay: running::staying, ["cuStreamQuery"], 0;
}

/// Memory of every kind, copies, launches, streams, events and pools, on a runtime of its own.
fn opened(_: &Gpu) -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let result =
        memory::plain(&gpu).and_then(|()| memory::pools(&gpu)).and_then(|()| memory::unified(&gpu));
    if let Err(GpuError::DeviceLost { cause }) = result.as_ref().map_err(GpuError::root) {
        let first = cause.driver().map(|driver| driver.code());
        let later = [gpu.synchronize().err(), DeviceBuffer::<u8>::zeroed(&gpu, 1).err()];
        for error in later {
            let code = error.as_ref().and_then(GpuError::driver).map(|driver| driver.code());
            assert_eq!(code, first, "a later call has another cause: {error:?}");
        }
    }
    result
}

const SCENARIO: &str = "FERROWARP_TEST_SCENARIO";

#[test]
fn versions_of_a_module_without_libraries() {
    each_call_may_fail_where("versions_of_a_module", ("CUDA_MODULE_LOADING", "EAGER"));
}

fn each_call_may_fail(name: &str) {
    each_call_may_fail_where(name, ("CUDA_MODULE_LOADING", "LAZY"));
}

fn each_call_may_fail_where(name: &str, set: (&str, &str)) {
    let (device, devices) = (("FERROWARP_DEVICE", "emulator"), ("FERROWARP_EMULATOR_DEVICES", "2"));
    let variables = [device, devices, set, (SCENARIO, name)];
    println!("{:?}", lines(&child("injection::fail_each_call", &variables), "did: "));
}

#[test]
#[ignore = "run in processes of its own by the tests above"]
fn fail_each_call() {
    let name = env::var(SCENARIO).expect("a scenario is named");
    let scenario = SCENARIOS.iter().find(|own| own.name == name).expect("it is one of them");
    // Keeps the primary context, which would take what is leaked with it.
    fill(gpu(), &mut DeviceBuffer::zeroed(gpu(), 1).unwrap(), 1).unwrap();
    gpu().synchronize().unwrap();
    let clean = injection::live();
    let (result, calls) = on_own_device(|gpu| injection::watch(|| (scenario.run)(gpu)));
    result.unwrap();
    assert_eq!(settled(clean, 0), clean, "without a failure");
    let refused: Vec<_> = calls.iter().filter(|call| is_refused(call)).collect();
    assert!(refused.is_empty(), "without a failure: {refused:?}");
    let (mut wrong, mut failures) = (Vec::new(), 0);
    for (nth, call) in calls.iter().enumerate() {
        for code in codes(nth, call.function) {
            wrong.extend(fail(scenario, nth, *code, &calls));
            failures += 1;
        }
    }
    let kinds: BTreeMap<_, usize> = calls.iter().fold(BTreeMap::new(), |mut kinds, call| {
        *kinds.entry(call.function).or_default() += 1;
        kinds
    });
    println!("did: {failures} failures of {} calls, {kinds:?}", calls.len());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Runs `work` with a device that is lost with it, whose kernels are loaded.
fn on_own_device<R>(work: impl FnOnce(&Gpu) -> R) -> R {
    let gpu = Gpu::with_images(IMAGES).unwrap();
    gpu.load_kernels().unwrap();
    work(&gpu)
}

/// All codes; of the two functions that are half of all calls, one after another.
fn codes(nth: usize, function: &str) -> &'static [i32] {
    match function {
        "cuCtxGetCurrent" | "cuDeviceGetAttribute" => &CODES[nth % CODES.len()..][..1],
        _ => &CODES,
    }
}

/// Runs the scenario with one failure, and tells what is wrong then.
fn fail(scenario: &Scenario, nth: usize, code: i32, clean: &[Call]) -> Option<String> {
    let function = clean[nth].function;
    let before = injection::live();
    let (result, calls) = on_own_device(|gpu| {
        let work = || catch_unwind(AssertUnwindSafe(|| (scenario.run)(gpu)));
        injection::fail(nth, code, work)
    });
    let complain = |what: String| Some(format!("call {nth}, {function}, {code}: {what}"));
    let result = match result {
        Ok(result) => result,
        Err(_) => return complain("it panicked".to_owned()),
    };
    if calls.get(nth).map(|call| call.function) != Some(function) {
        return complain(format!("the scenario took another way: {:?}", calls.get(nth)));
    }
    let mut others = calls.iter().enumerate().filter(|(at, call)| *at != nth && is_refused(call));
    if let Some((at, other)) = others.next() {
        return complain(format!("call {at}, {}, failed too: {}", other.function, other.code));
    }
    let silent = [&ENDS[..], &AS_LIBRARY, scenario.silent];
    let is_silent = silent.iter().any(|functions| functions.contains(&function));
    let may_leak = match function {
        "cuStreamSynchronize" => scenario.stays,
        // And the one that is its node, or its module, or is mapped beside it.
        "cuGraphDestroy" | "cuLibraryUnload" | "cuMemUnmap" => 2,
        _ => usize::from(keeps(function)),
    };
    let after = settled(before, may_leak);
    if leaked(before, after) > may_leak {
        return complain(format!("{} leaked: {before:?}, {after:?}", leaked(before, after)));
    }
    match result {
        Ok(()) if is_silent || function == PROBE && code == 1 => None,
        // It was tried once more, after what is kept had gone back, or other memory was taken.
        Ok(()) if code == 2 && ALLOCATES.iter().any(|name| function.starts_with(name)) => None,
        // It was called once more, after the stream's context was made current.
        Ok(()) if code == 201 && matches!(function, "cuLaunchKernelEx" | "cuGraphLaunch") => None,
        Ok(()) => complain("nobody heard of it".to_owned()),
        Err(error) if tells(&error, code) => None,
        Err(error) if code == 1 && function == PROBE && tells_parameters(&error) => None,
        Err(error) => complain(format!("it was told as: {error}")),
    }
}

/// What is live as soon as threads of the driver have let go of what they hold for a moment.
fn settled(before: Live, may_leak: usize) -> Live {
    for _ in 0..500 {
        // Also ends what functions of the host have left behind.
        gpu().memory_info().unwrap();
        if leaked(before, injection::live()) <= may_leak {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    injection::live()
}

/// Whether a call was refused. Work that is not done yet is no refusal, nor access that is there already.
fn is_refused(call: &Call) -> bool {
    const TOLD: [i32; 3] = [0, 600, 704];
    !TOLD.contains(&call.code) && call.function != PROBE
}

/// Whether what the function should have ended stays if it fails: nobody can end it then.
fn keeps(function: &str) -> bool {
    ENDS.contains(&function)
        && !matches!(
            function,
            "cuMemFreeAsync" | "cuCtxGetCurrent" | "cuCtxSetCurrent" | "cuStreamSynchronize"
        )
}

fn leaked(before: Live, after: Live) -> usize {
    let count = |live: Live| {
        let Live { allocations, streams, events, modules, libraries, pools, graphs, .. } = live;
        [allocations, streams, events, modules, libraries, pools, graphs]
    };
    let (before, after) = (count(before), count(after));
    before.into_iter().zip(after).map(|(before, after)| before.abs_diff(after)).sum()
}

fn tells_parameters(error: &GpuError) -> bool {
    matches!(error.root(), GpuError::WrongParameters { .. })
}

fn tells(error: &GpuError, code: i32) -> bool {
    match error.root() {
        GpuError::OutOfMemory { .. } | GpuError::OutOfPinnedMemory { .. } => code == 2,
        _ => error.driver().is_some_and(|driver| driver.code() == code.unsigned_abs()),
    }
}
