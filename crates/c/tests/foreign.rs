//! Streams, contexts and devices of the caller, by the driver's functions.
//!
//! On the emulator: what is enqueued before is held back there until a test lets it go, which shows what waits for what.

use std::ffi::{CStr, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::thread;
use std::time::Duration;

use cuda_driver::sys::{self, CUcontext, CUresult, CUstream};
use ferrowarp_c::*;

const U32: MaybeUninit<ElementType> = MaybeUninit::new(ElementType::U32);
const ASCENDING: MaybeUninit<SortOrder> = MaybeUninit::new(SortOrder::Ascending);
const N: usize = 5000;

fn done(result: CUresult) {
    assert!(result == CUresult::CUDA_SUCCESS, "{:?}", cuda_driver::take_detail());
}

fn message() -> String {
    // SAFETY: the message lives until the thread's next call.
    unsafe { CStr::from_ptr(ferrowarp_last_error()) }.to_str().unwrap().to_owned()
}

fn ok(status: Status) {
    assert_eq!(status, Status::Ok, "{}", message());
}

/// One test at a time: allocations and frees wait for the whole device, and so for what another test holds back.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Two emulated devices.
fn settings() {
    static SETTINGS: Once = Once::new();
    // SAFETY: before the driver's first use, which reads them; every test comes through here first.
    SETTINGS.call_once(|| unsafe {
        std::env::set_var("FERROWARP_DEVICE", "emulator");
        std::env::set_var("FERROWARP_EMULATOR_DEVICES", "2");
        done(sys::cuInit(0));
    });
}

/// A handle on a stream of the device, or on its default stream.
fn handle(device: i32, stream: CUstream) -> *mut Handle {
    let mut handle = ptr::null_mut();
    // SAFETY: the place is writable, and no test destroys its stream.
    ok(unsafe { ferrowarp_create(&mut handle, device, stream.cast()) });
    handle
}

/// The primary context of a device, current.
fn enter(device: i32) -> CUcontext {
    settings();
    let mut context = ptr::null_mut();
    // SAFETY: the place is writable, and the context is kept until the process ends.
    unsafe {
        done(sys::cuDevicePrimaryCtxRetain(&mut context, device));
        done(sys::cuCtxSetCurrent(context));
    }
    context
}

fn stream() -> CUstream {
    const NON_BLOCKING: u32 = 1;
    let mut stream = ptr::null_mut();
    // SAFETY: the place is writable.
    done(unsafe { sys::cuStreamCreate(&mut stream, NON_BLOCKING) });
    stream
}

fn malloc(handle: *const Handle, bytes: usize) -> *mut c_void {
    let mut pointer = ptr::null_mut();
    // SAFETY: the handle exists, and the place is writable.
    ok(unsafe { ferrowarp_malloc(handle, &mut pointer, bytes as i64) });
    pointer
}

/// Work that waits until the sender sends, or is dropped.
fn hold(stream: CUstream) -> Sender<()> {
    unsafe extern "C" fn wait(gate: *mut c_void) {
        // SAFETY: made by `Box::into_raw` below, for this one call.
        let gate: Box<Receiver<()>> = unsafe { Box::from_raw(gate.cast()) };
        let _ = gate.recv_timeout(Duration::from_secs(60));
    }
    let (sender, receiver) = channel::<()>();
    let gate = Box::into_raw(Box::new(receiver));
    // SAFETY: the stream exists, and the function takes what it is given.
    done(unsafe { sys::cuLaunchHostFunc(stream, Some(wait), gate.cast()) });
    sender
}

fn words(seed: u32) -> Vec<u32> {
    (0..N as u32).map(|i| i.wrapping_mul(2_654_435_761) ^ seed).collect()
}

#[test]
fn calls_do_not_wait_and_are_in_the_order_of_the_stream() {
    let _alone = alone();
    enter(0);
    let stream = stream();
    let handle = handle(0, stream);
    let (x, y) = (malloc(handle, 4 * N), malloc(handle, 4 * N));
    let mut host: *mut c_void = ptr::null_mut();
    // SAFETY: the place is writable.
    done(unsafe { sys::cuMemHostAlloc(&mut host, 4 * N, 0) });
    // SAFETY: page-locked memory of that size.
    let host = unsafe { std::slice::from_raw_parts_mut(host.cast::<u32>(), N) };
    let sort = || {
        // SAFETY: the handle and the stream exist, and the arrays until the end of the test.
        unsafe { ferrowarp_sort(handle, U32, ASCENDING, x, y, N as i64) }
    };
    // The first call loads kernels.
    // SAFETY: the memory holds the words.
    done(unsafe { sys::cuMemsetD32Async(x.addr() as u64, 1, N, stream) });
    ok(sort());
    // SAFETY: the stream exists.
    done(unsafe { sys::cuStreamSynchronize(stream) });

    host.copy_from_slice(&words(7));
    let gate = hold(stream);
    // SAFETY: device and host have the words, and the host leaves them alone until the stream is done.
    unsafe {
        done(sys::cuMemcpyHtoDAsync_v2(x.addr() as u64, host.as_mut_ptr().cast(), 4 * N, stream));
        ok(sort());
        done(sys::cuMemsetD32Async(x.addr() as u64, 0, N, stream));
        done(sys::cuMemcpyDtoHAsync_v2(host.as_mut_ptr().cast(), y.addr() as u64, 4 * N, stream));
        // A call that waited for the work before it would have taken the gate's time.
        assert!(sys::cuStreamQuery(stream) == CUresult::CUDA_ERROR_NOT_READY);
        gate.send(()).unwrap();
        done(sys::cuStreamSynchronize(stream));
    }
    let mut expected = words(7);
    expected.sort_unstable();
    assert!(host == expected);
    // SAFETY: nothing uses them any more.
    unsafe {
        ok(ferrowarp_free(handle, x));
        ok(ferrowarp_free(handle, y));
        ok(ferrowarp_destroy(handle));
    }
}

#[test]
fn scratch_memory_grows_without_a_wait() {
    /// A sort of as many takes more scratch memory than a handle has at first.
    const MANY: usize = 300_000;
    let _alone = alone();
    enter(0);
    let stream = stream();
    let handle = handle(0, stream);
    let x = malloc(handle, 4 * MANY);
    // SAFETY: the memory holds the words; the handle and the stream exist.
    let sort = |n: usize| unsafe {
        done(sys::cuMemsetD32Async(x.addr() as u64, 3, n, stream));
        ok(ferrowarp_sort(handle, U32, ASCENDING, x, x, n as i64));
    };
    sort(N);
    let gate = hold(stream);
    sort(N);
    sort(MANY);
    sort(N);
    // SAFETY: the stream exists; nothing uses the memory at the end.
    unsafe {
        assert!(sys::cuStreamQuery(stream) == CUresult::CUDA_ERROR_NOT_READY);
        gate.send(()).unwrap();
        ok(ferrowarp_synchronize(handle));
        ok(ferrowarp_free(handle, x));
        ok(ferrowarp_destroy(handle));
    }
}

#[test]
fn destroying_a_handle_waits_for_its_work() {
    let _alone = alone();
    enter(0);
    let stream = stream();
    let handle = handle(0, stream);
    let x = malloc(handle, 4 * N);
    // SAFETY: the memory holds the words; the handle and the stream exist.
    let sort = || unsafe {
        done(sys::cuMemsetD32Async(x.addr() as u64, 3, N, stream));
        ok(ferrowarp_sort(handle, U32, ASCENDING, x, x, N as i64));
    };
    // The first call loads kernels.
    sort();
    let gate = hold(stream);
    sort();
    let address = handle.addr();
    let destroyed = thread::spawn(move || {
        // SAFETY: the handle is no longer used by the other thread.
        ok(unsafe { ferrowarp_destroy(ptr::with_exposed_provenance_mut(address)) });
    });
    let _ = handle.expose_provenance();
    thread::sleep(Duration::from_millis(50));
    assert!(!destroyed.is_finished(), "the work is held back");
    gate.send(()).unwrap();
    destroyed.join().unwrap();
    // SAFETY: the stream exists.
    done(unsafe { sys::cuStreamQuery(stream) });
}

#[test]
fn a_stream_of_another_context_is_refused() {
    let _alone = alone();
    settings();
    let (mut other, mut handle) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the places are writable, and the stream exists.
    unsafe {
        done(sys::cuCtxCreate_v2(&mut other, 0, 0));
        assert_eq!(ferrowarp_create(&mut handle, 0, stream().cast()), Status::InvalidStream);
        assert!(handle.is_null());
        let said = message();
        assert!(said.contains("another context than the primary one of device 0"), "{said}");
        let mut now = ptr::null_mut();
        done(sys::cuCtxGetCurrent(&mut now));
        assert_eq!(now, other, "the current context stays the caller's");
        done(sys::cuCtxDestroy_v2(other));
    }
}

/// A graph of a sort, whose runs are beside other work of the handle.
#[test]
fn a_capture_becomes_a_graph() {
    const RELAXED: i32 = 2;
    let _alone = alone();
    enter(0);
    let stream = stream();
    let handle = handle(0, stream);
    let (x, y) = (malloc(handle, 4 * N), malloc(handle, 4 * N));
    // SAFETY: the handle and the stream exist, and the arrays have that many words.
    let sort = || ok(unsafe { ferrowarp_sort(handle, U32, ASCENDING, x, y, N as i64) });
    let mut host = words(1);
    let at = host.as_mut_ptr().cast::<c_void>();
    // SAFETY: as above; the graph is used before it is destroyed.
    unsafe {
        ok(ferrowarp_copy_to_device(handle, x, at, 4 * N as i64));
        sort();
        let (mut graph, mut run) = (ptr::null_mut(), ptr::null_mut());
        done(sys::cuStreamBeginCapture_v2(stream, RELAXED));
        sort();
        let copy = ferrowarp_copy_to_host(handle, at, y, 4 * N as i64);
        assert_eq!(copy, Status::Unsupported);
        assert!(message().contains("captured into a CUDA graph"), "{}", message());
        done(sys::cuStreamEndCapture(stream, &mut graph));
        done(sys::cuGraphInstantiateWithFlags(&mut run, graph, 0));
        for seed in 2..5 {
            host.copy_from_slice(&words(seed));
            ok(ferrowarp_copy_to_device(handle, x, at, 4 * N as i64));
            done(sys::cuMemsetD32Async(y.addr() as u64, 0, N, stream));
            done(sys::cuGraphLaunch(run, stream));
            ok(ferrowarp_copy_to_host(handle, at, y, 4 * N as i64));
            let mut expected = words(seed);
            expected.sort_unstable();
            assert!(host == expected, "graph of seed {seed}");
            sort();
        }
        done(sys::cuGraphExecDestroy(run));
        done(sys::cuGraphDestroy(graph));
        ok(ferrowarp_free(handle, x));
        ok(ferrowarp_free(handle, y));
        ok(ferrowarp_destroy(handle));
    }
}

#[test]
fn memory_of_another_device_is_refused_and_the_current_device_stays() {
    let _alone = alone();
    let context = enter(1);
    let (first, second) = (handle(0, ptr::null_mut()), handle(1, ptr::null_mut()));
    let x = malloc(second, 4 * N);
    // SAFETY: the handles exist, and the memory holds the words; null is the default stream.
    unsafe {
        let sort = |handle| ferrowarp_sort(handle, U32, ASCENDING, x, x, N as i64);
        assert_eq!(sort(first), Status::WrongDevice);
        assert!(
            message().contains("`out` is memory of device 1, and the handle is of device 0"),
            "{}",
            message()
        );
        let mut now = ptr::null_mut();
        done(sys::cuCtxGetCurrent(&mut now));
        assert_eq!(now, context);
        done(sys::cuMemsetD32_v2(x.addr() as u64, 5, N));
        ok(sort(second));
        ok(ferrowarp_synchronize(second));
        ok(ferrowarp_free(second, x));
        ok(ferrowarp_destroy(first));
        ok(ferrowarp_destroy(second));
    }
}

#[test]
fn a_handle_serves_several_threads() {
    let _alone = alone();
    enter(0);
    let handle = handle(0, stream()).expose_provenance();
    let sorts = (0..4).map(|seed| {
        thread::spawn(move || {
            let handle: *mut Handle = ptr::with_exposed_provenance_mut(handle);
            let x = malloc(handle, 4 * N);
            let (mut host, mut expected) = (words(seed), words(seed));
            expected.sort_unstable();
            // SAFETY: the handle exists; device and host have the words.
            unsafe {
                let at = host.as_mut_ptr().cast::<c_void>();
                ok(ferrowarp_copy_to_device(handle, x, at, 4 * N as i64));
                ok(ferrowarp_sort(handle, U32, ASCENDING, x, x, N as i64));
                ok(ferrowarp_copy_to_host(handle, at, x, 4 * N as i64));
                ok(ferrowarp_free(handle, x));
            }
            assert!(host == expected);
        })
    });
    sorts.collect::<Vec<_>>().into_iter().for_each(|sort| sort.join().unwrap());
    // SAFETY: no other thread has it.
    ok(unsafe { ferrowarp_destroy(ptr::with_exposed_provenance_mut(handle)) });
}
