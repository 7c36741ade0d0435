//! Kernels that poll device memory: reported as a deadlock if no thread and no stream is left that
//! could write there, and only then.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::thread;
use std::time::Duration;

use common::*;
use cuda_driver::*;

/// A kernel that polls a word until it is not zero, and one that stores a one there.
const KERNELS: &str = ".version 8.6\n.target sm_90\n.address_size 64
    .visible .entry wait(.param .u64 p_flag) {
        .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %rd<2>;
        ld.param.u64 %rd0, [p_flag];
    SPIN:
        ld.relaxed.sys.global.u32 %r0, [%rd0];
        setp.eq.u32 %p0, %r0, 0;
        @%p0 bra SPIN;
        ret;
    }
    .visible .entry set(.param .u64 p_flag) {
        .reg .b64 %rd<2>;
        ld.param.u64 %rd0, [p_flag];
        st.relaxed.sys.global.u32 [%rd0], 1;
        ret;
    }";

const NON_BLOCKING: u32 = 1;
const LAUNCH_FAILED: ResultCode = 719;
/// Longer than the quiet time after which a polling kernel is reported.
const LONG: Duration = Duration::from_millis(3500);

/// Runs a test in a process of its own, on the emulator, with a flag that is zero, two streams and
/// the kernels `wait` and `set`. That a copy to the flag is a race of streams is for the check that
/// these tests are not about.
fn alone(name: &str, body: impl FnOnce(CUdeviceptr, [CUstream; 2], [CUfunction; 2])) {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "memory,sync")];
    in_child_with(name, &set, || {
        context();
        let module = try_load(KERNELS).expect("it loads");
        let flag = alloc(4);
        ok!(cuMemsetD32_v2(flag, 0, 1));
        ok!(cuCtxSynchronize());
        let streams = [stream(NON_BLOCKING), stream(NON_BLOCKING)];
        body(flag, streams, ["wait", "set"].map(|name| function(module, name)));
    });
}

fn assert_reported(stream: CUstream) {
    assert_eq!(code!(cuStreamSynchronize(stream)), LAUNCH_FAILED);
    let text = take_detail().expect("a failure has words").text;
    assert!(text.contains("deadlock of 1 thread in kernel `wait`"), "{text}");
    assert!(text.contains("these loops never end"), "{text}");
}

#[test]
fn a_flag_that_is_never_set_ends_the_wait_for_the_stream() {
    alone(
        "a_flag_that_is_never_set_ends_the_wait_for_the_stream",
        |flag, [stream, _], [wait, _]| {
            assert_eq!(launch(wait, stream, &[host(&flag)]), 0);
            assert_reported(stream);
        },
    );
}

#[test]
fn a_kernel_that_waits_behind_the_one_that_polls_for_it_is_no_help() {
    let name = "a_kernel_that_waits_behind_the_one_that_polls_for_it_is_no_help";
    alone(name, |flag, [first, second], [wait, set]| {
        let polled = event();
        assert_eq!(launch(wait, first, &[host(&flag)]), 0);
        ok!(cuEventRecord(polled, first));
        ok!(cuStreamWaitEvent(second, polled, 0));
        assert_eq!(launch(set, second, &[host(&flag)]), 0);
        assert_reported(first);
    });
}

unsafe extern "C" fn sleep(_: *mut c_void) {
    thread::sleep(LONG);
}

#[test]
fn a_kernel_that_another_stream_comes_to_late_is_waited_for() {
    let name = "a_kernel_that_another_stream_comes_to_late_is_waited_for";
    alone(name, |flag, [first, second], [wait, set]| {
        assert_eq!(launch(wait, first, &[host(&flag)]), 0);
        ok!(cuLaunchHostFunc(second, Some(sleep), HostPtr(null_mut())));
        assert_eq!(launch(set, second, &[host(&flag)]), 0);
        ok!(cuStreamSynchronize(first));
    });
}

/// A context's or a stream's handle, for another thread.
struct Sent<T>(T);

// SAFETY: the driver's handles may be used on any thread.
unsafe impl<T> Send for Sent<T> {}

#[test]
fn a_copy_that_another_thread_makes_late_is_waited_for() {
    let name = "a_copy_that_another_thread_makes_late_is_waited_for";
    alone(name, |flag, [first, second], [wait, _]| {
        let second = Sent(second);
        let copier = thread::spawn(move || {
            let Sent(second) = { second };
            context();
            thread::sleep(LONG);
            ok!(cuMemcpyHtoDAsync_v2(flag, host(&1_u32), 4, second));
        });
        // The other thread is known to the driver before the wait begins to be long.
        assert_eq!(launch(wait, first, &[host(&flag)]), 0);
        ok!(cuStreamSynchronize(first));
        copier.join().expect("the copy is made");
    });
}

#[test]
fn a_host_that_looks_now_and_then_may_still_copy() {
    let name = "a_host_that_looks_now_and_then_may_still_copy";
    alone(name, |flag, [first, second], [wait, _]| {
        assert_eq!(launch(wait, first, &[host(&flag)]), 0);
        for _ in 0..35 {
            assert_ne!(code!(cuStreamQuery(first)), 0);
            thread::sleep(LONG / 35);
        }
        ok!(cuMemcpyHtoDAsync_v2(flag, host(&1_u32), 4, second));
        ok!(cuStreamSynchronize(first));
    });
}

#[test]
fn pinned_memory_is_the_hosts() {
    alone("pinned_memory_is_the_hosts", |_, [first, _], [wait, _]| {
        let mut pinned = null_mut();
        ok!(cuMemAllocHost_v2(Out::from(&mut pinned), 4));
        let flag = pinned.cast::<u32>();
        // SAFETY: four fresh bytes, aligned to more than that.
        let flag = unsafe { std::sync::atomic::AtomicU32::from_ptr(flag) };
        flag.store(0, std::sync::atomic::Ordering::SeqCst);
        let address = flag.as_ptr().addr() as CUdeviceptr;
        assert_eq!(launch(wait, first, &[host(&address)]), 0);
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(LONG);
                flag.store(1, std::sync::atomic::Ordering::SeqCst);
            });
            ok!(cuStreamSynchronize(first));
        });
    });
}
