//! Each driver call of a scenario fails once, with each of several codes: nothing leaks, nothing is
//! freed twice, nothing panics, and the error is the call's.

use std::collections::BTreeMap;
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

use cuda_driver::injection::{self, Call, Live};
use ferrowarp::memory::MemoryLocation::{Device, Host};
use ferrowarp::memory::resource::{LogAdaptor, MemoryPool, PoisonAdaptor, StreamOrderedMemory};
use ferrowarp::memory::{MemoryAdvice, PinnedBuffer};
use ferrowarp::{DeviceBox, DeviceBuffer, Gpu, GpuError, GpuResult, UnifiedBuffer};

use crate::kernels::{IMAGES, add, churn, fill, gpu};

/// Out of memory, invalid value, invalid context, illegal address, launch failure, unknown, and one that
/// cust's enum does not have. 700 and 719 end a context.
const CODES: [i32; 7] = [2, 1, 201, 700, 719, 999, 912];
const LEN: usize = 300;

/// What ends something, and what is called on the way there: nobody hears of its failure.
const ENDS: [&str; 13] = [
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuDevicePrimaryCtxRelease_v2",
    "cuEventDestroy_v2",
    "cuMemFreeAsync",
    "cuMemFreeHost",
    "cuMemFree_v2",
    "cuMemPoolDestroy",
    "cuMemsetD8Async",
    "cuModuleUnload",
    "cuStreamDestroy_v2",
    "cuStreamSynchronize",
];

/// Asked for one parameter after another; code 1 is the answer that there is no more.
const PROBE: &str = "cuFuncGetParamInfo";

/// Memory of every kind, copies, launches, streams, events and pools, on a runtime of its own.
fn scenario() -> GpuResult<()> {
    let gpu = Gpu::with_images(IMAGES)?;
    let result = memory(&gpu).and_then(|()| pools(&gpu)).and_then(|()| unified(&gpu));
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

fn memory(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let one = DeviceBox::new(gpu, &1)?;
    let mut plain = DeviceBuffer::from_slice(gpu, &[5; LEN])?;
    let mut ordered = DeviceBuffer::zeroed_async(&stream, LEN)?;
    add(gpu, &one, &plain, &mut ordered)?;
    churn(&stream, &mut plain, 2)?;
    let event = stream.record()?;
    gpu.stream().wait_for(&event)?;
    plain.copy_from_device(&ordered)?;
    drop(ordered);
    event.synchronize()?;
    assert_eq!(plain.to_vec()?, [6; LEN]);
    let ((), _) = stream.time(|| fill(&stream, &mut plain, 1))?;
    let pinned = PinnedBuffer::from_slice(gpu, &[9; LEN])?;
    plain.copy_from_host(&pinned)?;
    stream.synchronize()
}

fn pools(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let ordered = StreamOrderedMemory::new(gpu, 1 << 20)?;
    let pool = MemoryPool::with_upstream(gpu, ordered.clone());
    let memory = LogAdaptor::new(PoisonAdaptor::new(pool.clone()));
    for round in 0..2 {
        let mut first = DeviceBuffer::zeroed_in(&memory, gpu, LEN)?;
        fill(&stream, &mut first, round)?;
        drop(first);
        let mut second = DeviceBuffer::from_slice_in(&memory, &stream, &[round; LEN])?;
        fill(gpu, &mut second, 3)?;
        assert_eq!(second.to_vec()?, [3; LEN]);
    }
    let plain = MemoryPool::new(gpu);
    drop(DeviceBuffer::<u8>::zeroed_in(&plain, &stream, 10)?);
    drop(DeviceBuffer::<u8>::zeroed_in(&plain, gpu, 10)?);
    memory.log().replay(&plain, gpu)?;
    ordered.usage().map(drop)
}

fn unified(gpu: &Gpu) -> GpuResult<()> {
    let stream = gpu.create_stream()?;
    let mut shared = UnifiedBuffer::from_slice(gpu, &[4; LEN])?;
    shared.advise(MemoryAdvice::SetReadMostly)?;
    shared.prefetch(Device(0))?;
    churn(&stream, &mut shared, 2)?;
    shared.prefetch(Host)?;
    shared.as_mut_slice()?[0] = 1;
    assert!(shared.attributes()?.read_mostly);
    gpu.memory_info().map(drop)
}

#[test]
fn every_driver_call_may_fail() {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "--nocapture", "injection::fail_each_call"]);
    let output = command.env("FERROWARP_DEVICE", "emulator").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{text}\n{errors}");
    let told = text.lines().find(|line| line.contains(" failures of "));
    println!("{}", told.expect("the child tells what it did"));
}

#[test]
#[ignore = "run in a process of its own by the test above"]
fn fail_each_call() {
    // Keeps the primary context, which would take what is leaked with it.
    fill(gpu(), &mut DeviceBuffer::zeroed(gpu(), 1).unwrap(), 1).unwrap();
    gpu().synchronize().unwrap();
    let clean = injection::live();
    let (result, calls) = injection::watch(scenario);
    result.unwrap();
    assert_eq!(injection::live(), clean, "without a failure");
    let refused: Vec<_> = calls.iter().filter(|call| is_refused(call)).collect();
    assert!(refused.is_empty(), "without a failure: {refused:?}");
    let (mut wrong, mut failures) = (Vec::new(), 0);
    for (nth, call) in calls.iter().enumerate() {
        for code in codes(nth, call.function) {
            wrong.extend(fail(nth, *code, &calls));
            failures += 1;
        }
    }
    let kinds: BTreeMap<_, usize> = calls.iter().fold(BTreeMap::new(), |mut kinds, call| {
        *kinds.entry(call.function).or_default() += 1;
        kinds
    });
    println!("{failures} failures of {} calls, {kinds:?}", calls.len());
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// All codes; of the two functions that are half of all calls, one after another.
fn codes(nth: usize, function: &str) -> &'static [i32] {
    match function {
        "cuCtxGetCurrent" | "cuDeviceGetAttribute" => &CODES[nth % CODES.len()..][..1],
        _ => &CODES,
    }
}

/// Runs the scenario with one failure, and tells what is wrong then.
fn fail(nth: usize, code: i32, clean: &[Call]) -> Option<String> {
    let function = clean[nth].function;
    let before = injection::live();
    let (result, calls) = injection::fail(nth, code, || catch_unwind(AssertUnwindSafe(scenario)));
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
    let leaked = leaked(before, injection::live());
    if leaked > usize::from(keeps(function)) {
        return complain(format!("{leaked} leaked: {before:?}, {:?}", injection::live()));
    }
    match result {
        Ok(()) if ENDS.contains(&function) || function == PROBE && code == 1 => None,
        // It was tried once more, after what is kept had gone back.
        Ok(()) if code == 2 && function.starts_with("cuMemAlloc") => None,
        Ok(()) => complain("nobody heard of it".to_owned()),
        Err(error) if tells(&error, code) => None,
        Err(error) if code == 1 && function == PROBE && tells_parameters(&error) => None,
        Err(error) => complain(format!("it was told as: {error}")),
    }
}

/// Whether a call was refused.
fn is_refused(call: &Call) -> bool {
    call.code != 0 && call.function != PROBE
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
    let count =
        |live: Live| [live.allocations, live.streams, live.events, live.modules, live.pools];
    let (before, after) = (count(before), count(after));
    before.into_iter().zip(after).map(|(before, after)| before.abs_diff(after)).sum()
}

fn tells_parameters(error: &GpuError) -> bool {
    matches!(error.root(), GpuError::WrongParameters { .. })
}

fn tells(error: &GpuError, code: i32) -> bool {
    match error.root() {
        GpuError::OutOfMemory { .. } => code == 2,
        _ => error.driver().is_some_and(|driver| driver.code() == code.unsigned_abs()),
    }
}
