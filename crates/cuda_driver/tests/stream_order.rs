//! The race check of operations on different streams, and on pinned and pageable memory. Each test
//! provokes a report in a process of its own; the same steps with the missing order must not be
//! reported.

mod common;

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel};

use common::*;
use cuda_driver::*;

const NON_BLOCKING: u32 = 1;
const CHECKED: &[(&str, &str)] = &[("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "all")];

/// Runs `body` in a process of its own with races checked; the text of the report that the context
/// then answers with.
fn reported(name: &str, body: impl FnOnce(), read: impl FnOnce(&str)) {
    in_child_with(name, CHECKED, || {
        context();
        body();
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_FAILED, "no report");
        let text = take_detail().expect("a report has words").text;
        read(&text);
        assert_eq!(code!(cuCtxSynchronize()), CUDA_ERROR_LAUNCH_FAILED, "it is sticky");
    });
}

/// Runs `body` in a process of its own with races checked; nothing is found.
fn silent(name: &str, body: impl FnOnce()) {
    in_child_with(name, CHECKED, || {
        context();
        body();
        ok!(cuCtxSynchronize());
    });
}

fn contains(text: &str, parts: &[&str]) {
    parts.iter().for_each(|part| assert!(text.contains(part), "`{part}` is not in: {text}"));
}

/// `stream 65537`
fn name_of(stream: CUstream) -> String {
    let mut id = 0;
    ok!(cuStreamGetId(stream, Out::from(&mut id)));
    format!("stream {id}")
}

fn streams() -> (CUstream, CUstream) {
    (stream(NON_BLOCKING), stream(NON_BLOCKING))
}

/// Makes one stream wait for all that another has to do.
fn follow(later: CUstream, earlier: CUstream) {
    let event = event();
    ok!(cuEventRecord(event, earlier));
    ok!(cuStreamWaitEvent(later, event, 0));
    ok!(cuEventDestroy_v2(event));
}

fn store(stream: CUstream, cell: CUdeviceptr, value: u32) {
    assert_eq!(launch(function(load(), "store"), stream, &[host(&cell), host(&value)]), 0);
}

fn pinned(bytes: usize) -> *mut c_void {
    let mut pinned = null_mut();
    ok!(cuMemAllocHost_v2(Out::from(&mut pinned), bytes));
    pinned
}

// ---- kernels and copies

/// Returns the names of the two streams.
fn kernel_then_copy(ordered: bool) -> [String; 2] {
    let ((first, second), cell, target) = (streams(), alloc(64), alloc(64));
    let names = [name_of(first), name_of(second)];
    store(first, cell + 8, 1);
    if ordered {
        follow(second, first);
    }
    ok!(cuMemcpyDtoDAsync_v2(target, cell, 64, second));
    names
}

#[test]
fn a_copy_beside_a_kernel_that_writes_its_source_is_a_race() {
    let name = "a_copy_beside_a_kernel_that_writes_its_source_is_a_race";
    let names: RefCell<[String; 2]> = RefCell::default();
    let body = || *names.borrow_mut() = kernel_then_copy(false);
    reported(name, body, |text| {
        contains(text, &["race between streams: 4 bytes at", "8 bytes into the 64-byte"]);
        contains(text, &["kernel `store` on", "copy of 64 bytes from 0x"]);
        contains(text, &["block (0,0,0), thread (0,0,0), at PTX line"]);
        names.borrow().iter().for_each(|name| contains(text, &[name]));
    });
}

#[test]
fn a_copy_behind_a_kernel_is_silent() {
    silent("a_copy_behind_a_kernel_is_silent", || {
        kernel_then_copy(true);
    });
}

#[test]
fn a_kernel_beside_a_copy_is_a_race_whichever_comes_first() {
    let name = "a_kernel_beside_a_copy_is_a_race_whichever_comes_first";
    let body = || {
        let ((first, second), cell, target) = (streams(), alloc(4), alloc(4));
        ok!(cuMemcpyDtoDAsync_v2(target, cell, 4, first));
        // Neither time nor a query of another stream orders anything.
        std::thread::sleep(std::time::Duration::from_millis(20));
        ok!(cuStreamSynchronize(second));
        store(second, cell, 1);
    };
    reported(name, body, |text| contains(text, &["in kernel `store`", "the copy of 4 bytes"]));
}

#[test]
fn kernels_of_two_streams_are_compared_by_order_and_not_by_time() {
    let name = "kernels_of_two_streams_are_compared_by_order_and_not_by_time";
    let body = || {
        let ((first, second), cell) = (streams(), alloc(4));
        store(first, cell, 1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        store(second, cell, 2);
    };
    reported(name, body, |text| contains(text, &["data race: store", "kernel `store` on stream"]));
}

// ---- graphs

/// Two kernels that store to one cell, as nodes of a graph that is launched `times` times.
fn two_nodes(edges: bool, times: usize) {
    let (cell, store) = (alloc(64), function(load(), "store"));
    let (mut graph, mut exec) = (null_mut(), null_mut());
    ok!(cuGraphCreate(Out::from(&mut graph), 0));
    let mut first: CUgraphNode = null_mut();
    for value in [1u32, 2] {
        let values = [host(&cell), host(&value)];
        let params = KernelNodeParams {
            function: store,
            grid: [1; 3],
            block: [1; 3],
            shared_mem_bytes: 0,
            params: In::from(&values[..]),
            extra: In::NULL,
        };
        let (before, count) = ([first], usize::from(edges && !first.is_null()));
        let node = Out::from(&mut first);
        ok!(cuGraphAddKernelNode(node, graph, In::from(&before[..]), count, In::from(&params)));
    }
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    for _ in 0..times {
        // On a stream of its own each time: launches of one graph are in order all the same.
        ok!(cuGraphLaunch(exec, stream(NON_BLOCKING)));
    }
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn nodes_that_no_edge_orders_are_a_race() {
    let body = || two_nodes(false, 1);
    reported("nodes_that_no_edge_orders_are_a_race", body, |text| {
        contains(text, &["data race: store of 4 bytes", "it and the kernel `store` on stream"]);
    });
}

#[test]
fn nodes_in_the_order_of_edges_are_silent_launch_after_launch() {
    let name = "nodes_in_the_order_of_edges_are_silent_launch_after_launch";
    silent(name, || two_nodes(true, 4));
}

#[test]
fn what_the_host_waited_for_is_over() {
    silent("what_the_host_waited_for_is_over", || {
        let ((first, second), cell) = (streams(), alloc(4));
        store(first, cell, 1);
        ok!(cuStreamSynchronize(first));
        store(second, cell, 2);
        let event = event();
        ok!(cuEventRecord(event, second));
        while code!(cuEventQuery(event)) == CUDA_ERROR_NOT_READY {}
        store(first, cell, 3);
        while code!(cuStreamQuery(first)) == CUDA_ERROR_NOT_READY {}
        ok!(cuMemsetD32Async(cell, 4, 1, second));
        ok!(cuCtxSynchronize());
        assert_eq!(read_u32(cell), 4);
    });
}

// ---- the null stream

#[test]
fn blocking_streams_keep_order_with_the_null_stream() {
    silent("blocking_streams_keep_order_with_the_null_stream", || {
        let (first, second, cell) = (stream(0), stream(0), alloc(4));
        store(first, cell, 1);
        ok!(cuMemsetD32Async(cell, 2, 1, NULL));
        store(second, cell, 3);
        assert_eq!(read_u32(cell), 3);
        // A stream that is gone is no exception.
        store(second, cell, 4);
        ok!(cuStreamDestroy_v2(second));
        assert_eq!(read_u32(cell), 4);
    });
}

#[test]
fn a_copy_that_waits_does_not_wait_for_other_streams() {
    let name = "a_copy_that_waits_does_not_wait_for_other_streams";
    let body = || {
        let (stream, cell) = (stream(NON_BLOCKING), alloc(4));
        store(stream, cell, 1);
        let mut value = [0_u32];
        code!(cuMemcpyDtoH_v2(host_slice_mut(&mut value), cell, 4));
    };
    reported(name, body, |text| contains(text, &["the null stream", "to the host's memory"]));
}

/// A memset returns to the host before it is complete, whatever its name suggests.
#[test]
fn a_fill_that_the_host_did_not_wait_for_is_a_race() {
    let name = "a_fill_that_the_host_did_not_wait_for_is_a_race";
    let body = || {
        let (stream, cell) = (stream(NON_BLOCKING), alloc(4));
        ok!(cuMemsetD32_v2(cell, 1, 1));
        store(stream, cell, 2);
    };
    reported(name, body, |text| contains(text, &["the memset of 4 bytes", "on the null stream"]));
}

#[test]
fn a_fill_that_the_host_waited_for_is_silent() {
    silent("a_fill_that_the_host_waited_for_is_silent", || {
        let (stream, cell) = (stream(NON_BLOCKING), alloc(4));
        ok!(cuMemsetD32_v2(cell, 1, 1));
        ok!(cuCtxSynchronize());
        store(stream, cell, 2);
    });
}

// ---- rectangles

/// Two streams fill columns of a matrix of 16 rows of 64 bytes.
fn columns(first_bytes: usize) {
    let ((first, second), matrix) = (streams(), alloc(16 * 64));
    ok!(cuMemsetD2D8Async(matrix, 64, 1, first_bytes, 16, first));
    ok!(cuMemsetD2D8Async(matrix + 32, 64, 2, 32, 16, second));
}

#[test]
fn columns_of_a_matrix_that_overlap_are_a_race() {
    let name = "columns_of_a_matrix_that_overlap_are_a_race";
    let body = || columns(33);
    reported(name, body, |text| contains(text, &["1 bytes at", "32 bytes into", "memset of 528"]));
}

#[test]
fn columns_of_a_matrix_side_by_side_are_silent() {
    silent("columns_of_a_matrix_side_by_side_are_silent", || columns(32));
}

// ---- memory in a stream's order

fn free_elsewhere(ordered: bool) {
    let ((first, second), mut cell) = (streams(), 0);
    ok!(cuMemAllocAsync(Out::from(&mut cell), 256, first));
    store(first, cell, 1);
    if ordered {
        follow(second, first);
    }
    ok!(cuMemFreeAsync(cell, second));
}

#[test]
fn a_stream_ordered_free_beside_a_kernel_is_a_race() {
    let name = "a_stream_ordered_free_beside_a_kernel_is_a_race";
    let body = || free_elsewhere(false);
    reported(name, body, |text| contains(text, &["cuMemFreeAsync of the 256 bytes at 0x"]));
}

#[test]
fn a_stream_ordered_free_behind_a_kernel_is_silent() {
    silent("a_stream_ordered_free_behind_a_kernel_is_silent", || {
        (0..20).for_each(|_| free_elsewhere(true));
    });
}

#[test]
fn memory_is_not_there_for_streams_that_did_not_wait_for_it() {
    let name = "memory_is_not_there_for_streams_that_did_not_wait_for_it";
    let body = || {
        let ((first, second), mut cell) = (streams(), 0);
        ok!(cuMemAllocAsync(Out::from(&mut cell), 256, first));
        store(second, cell, 1);
    };
    reported(name, body, |text| contains(text, &["allocation of 256 bytes at 0x"]));
}

// ---- words between streams, kernels and the host

unsafe extern "C" fn send(data: *mut c_void) {
    // SAFETY: the test made this box for this one call.
    let sender = unsafe { Box::from_raw(data.cast::<Sender<()>>()) };
    let _ = sender.send(());
}

#[test]
fn a_host_function_tells_the_host() {
    silent("a_host_function_tells_the_host", || {
        let ((first, second), cell) = (streams(), alloc(4));
        let (sender, receiver) = channel::<()>();
        store(first, cell, 1);
        let data = HostPtr(Box::into_raw(Box::new(sender)).cast());
        ok!(cuLaunchHostFunc(first, Some(send), data));
        receiver.recv().expect("the function runs");
        store(second, cell, 2);
    });
}

#[test]
fn a_word_that_a_stream_waits_for_orders_it() {
    silent("a_word_that_a_stream_waits_for_orders_it", || {
        let ((first, second), cell, word) = (streams(), alloc(4), alloc(4));
        ok!(cuMemsetD32_v2(word, 0, 1));
        ok!(cuCtxSynchronize());
        ok!(cuStreamWaitValue32_v2(second, word, 1, 0));
        store(second, cell, 2);
        store(first, cell, 1);
        ok!(cuStreamWriteValue32_v2(first, word, 1, 0));
        ok!(cuStreamSynchronize(second));
        assert_eq!(read_u32(cell), 2);
    });
}

/// Writes 7 to `data`, sets `flag`, waits until `flag` is 2, and then reads `data`.
const TALKS: &str = ".version 7.0\n.target sm_70\n.address_size 64\n
.visible .entry talks(.param .u64 talks_data, .param .u64 talks_flag)
{
    .reg .pred %p;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [talks_data];
    ld.param.u64 %rd2, [talks_flag];
    mov.u32 %r1, 7;
    st.global.u32 [%rd1], %r1;
    mov.u32 %r2, 1;
    st.release.sys.global.u32 [%rd2], %r2;
AGAIN:
    ld.acquire.sys.global.u32 %r3, [%rd2];
    setp.ne.u32 %p, %r3, 2;
    @%p bra AGAIN;
    ld.global.u32 %r1, [%rd1];
    add.u32 %r1, %r1, 1;
    st.global.u32 [%rd1], %r1;
    ret;
}";

#[test]
fn a_kernel_and_the_host_that_talk_are_silent() {
    silent("a_kernel_and_the_host_that_talk_are_silent", || {
        let ((first, second), data) = (streams(), alloc(4));
        let (flag, copied) = (pinned(4), pinned(4));
        // SAFETY: four bytes that the driver gave; the kernel and this touch them as atomics.
        let word = unsafe { AtomicU32::from_ptr(flag.cast()) };
        word.store(0, Ordering::SeqCst);
        let talks = function(try_load(TALKS).expect("it loads"), "talks");
        assert_eq!(launch(talks, first, &[host(&data), host(&flag)]), 0);
        while word.load(Ordering::Acquire) != 1 {
            std::hint::spin_loop();
        }
        ok!(cuMemcpyDtoHAsync_v2(HostPtr(copied), data, 4, second));
        ok!(cuStreamSynchronize(second));
        // SAFETY: the copy is done.
        assert_eq!(unsafe { copied.cast::<u32>().read() }, 7);
        ok!(cuMemsetD32Async(data, 40, 1, second));
        ok!(cuStreamSynchronize(second));
        word.store(2, Ordering::Release);
        ok!(cuStreamSynchronize(first));
        assert_eq!(read_u32(data), 41);
    });
}

// ---- flags between launches

/// `notify` sets a flag, `notify_weakly` sets it without a release, and `wait` waits for it.
const FLAGS: &str = ".version 7.0\n.target sm_70\n.address_size 64\n
.visible .entry notify(.param .u64 notify_flag)
{
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [notify_flag];
    mov.u32 %r1, 1;
    st.release.gpu.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry notify_weakly(.param .u64 notify_weakly_flag)
{
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [notify_weakly_flag];
    mov.u32 %r1, 1;
    st.relaxed.gpu.global.u32 [%rd1], %r1;
    ret;
}
.visible .entry wait(.param .u64 wait_flag)
{
    .reg .pred %p;
    .reg .b32 %r1;
    .reg .b64 %rd1;
    ld.param.u64 %rd1, [wait_flag];
AGAIN:
    ld.acquire.gpu.global.u32 %r1, [%rd1];
    setp.ne.u32 %p, %r1, 1;
    @%p bra AGAIN;
    ret;
}";

/// What a stream does beside its flag: by a kernel or by a fill.
type Write = fn(CUstream, CUdeviceptr);

fn fill(stream: CUstream, cell: CUdeviceptr) {
    ok!(cuMemsetD32Async(cell, 40, 1, stream));
}

fn store_one(stream: CUstream, cell: CUdeviceptr) {
    store(stream, cell, 1);
}

/// Another value: to store what is there is no race.
fn store_two(stream: CUstream, cell: CUdeviceptr) {
    store(stream, cell, 2);
}

/// One stream writes and then sets a flag by a kernel; another waits for the flag by a kernel and then writes the same word.
fn in_the_order_of_a_flag([first, second]: [Write; 2], notify: &str) {
    let ((one, other), cell, flag, module) =
        (streams(), alloc(4), alloc(4), try_load(FLAGS).expect("it loads"));
    ok!(cuMemsetD32Async(flag, 0, 1, one));
    ok!(cuStreamSynchronize(one));
    first(one, cell);
    assert_eq!(launch(function(module, notify), one, &[host(&flag)]), 0);
    assert_eq!(launch(function(module, "wait"), other, &[host(&flag)]), 0);
    second(other, cell);
}

#[test]
fn a_flag_of_launches_in_between_orders_kernels_and_fills() {
    silent("a_flag_of_launches_in_between_orders_kernels_and_fills", || {
        for first in [store_one as Write, fill] {
            for second in [store_two as Write, fill] {
                in_the_order_of_a_flag([first, second], "notify");
            }
        }
    });
}

#[test]
fn a_flag_without_a_release_orders_no_kernels() {
    let name = "a_flag_without_a_release_orders_no_kernels";
    let body = || in_the_order_of_a_flag([store_one, store_two], "notify_weakly");
    reported(name, body, |text| contains(text, &["data race: store", "kernel `store` on stream"]));
}

#[test]
fn a_flag_without_a_release_orders_no_fills() {
    let name = "a_flag_without_a_release_orders_no_fills";
    let body = || in_the_order_of_a_flag([fill, fill], "notify_weakly");
    reported(name, body, |text| contains(text, &["race between streams"]));
}

#[test]
fn a_flag_orders_nothing_that_comes_after_it() {
    let name = "a_flag_orders_nothing_that_comes_after_it";
    let body = || {
        let ((one, other), cell, flag) = (streams(), alloc(4), alloc(4));
        let module = try_load(FLAGS).expect("it loads");
        ok!(cuMemsetD32Async(flag, 0, 1, one));
        ok!(cuStreamSynchronize(one));
        assert_eq!(launch(function(module, "notify"), one, &[host(&flag)]), 0);
        store(one, cell, 1);
        assert_eq!(launch(function(module, "wait"), other, &[host(&flag)]), 0);
        store(other, cell, 2);
    };
    reported(name, body, |text| contains(text, &["data race: store", "kernel `store` on stream"]));
}

// ---- pinned memory

fn two_copies_to_one_buffer(ordered: bool) {
    let ((first, second), a, b, buffer) = (streams(), alloc(64), alloc(64), pinned(64));
    ok!(cuMemcpyDtoHAsync_v2(HostPtr(buffer), a, 64, first));
    if ordered {
        follow(second, first);
    }
    ok!(cuMemcpyDtoHAsync_v2(HostPtr(buffer), b, 64, second));
}

#[test]
fn two_copies_to_one_pinned_buffer_are_a_race() {
    let name = "two_copies_to_one_pinned_buffer_are_a_race";
    let body = || two_copies_to_one_buffer(false);
    reported(name, body, |text| contains(text, &["race between streams: 64 bytes at"]));
}

#[test]
fn two_copies_to_one_pinned_buffer_in_order_are_silent() {
    let name = "two_copies_to_one_pinned_buffer_in_order_are_silent";
    silent(name, || two_copies_to_one_buffer(true));
}

/// Copies from a pinned buffer, and writes to it again, at once or when the copy is over.
fn refill(waits: bool) {
    let (stream, bytes) = (stream(0), 1 << 16);
    let (device, buffer) = (alloc(bytes), pinned(bytes));
    let word = buffer.cast::<AtomicU32>();
    for round in 0..8_u32 {
        // SAFETY: bytes that the driver gave; atomics, since a copy may read them meanwhile.
        unsafe { (*word.add(1000)).store(round, Ordering::Relaxed) };
        let code = code!(cuMemcpyHtoDAsync_v2(device, HostPtr(buffer), bytes, stream));
        if code != 0 {
            return;
        }
        if waits {
            ok!(cuStreamSynchronize(stream));
        }
    }
}

#[test]
fn a_pinned_source_that_the_host_writes_to_is_reported() {
    let name = "a_pinned_source_that_the_host_writes_to_is_reported";
    let expected = ["the host wrote to pinned memory while the copy of 65536 bytes from 0x"];
    reported(name, || refill(false), |text| contains(text, &expected));
}

#[test]
fn a_pinned_source_that_is_refilled_after_the_copy_is_silent() {
    let name = "a_pinned_source_that_is_refilled_after_the_copy_is_silent";
    silent(name, || refill(true));
}

/// What the stream itself writes to the source before it is copied is no fault of the host.
#[test]
fn a_pinned_source_that_the_stream_fills_is_silent() {
    silent("a_pinned_source_that_the_stream_fills_is_silent", || {
        let (stream, from, to, buffer) = (stream(NON_BLOCKING), alloc(64), alloc(64), pinned(64));
        for value in 0..20 {
            ok!(cuMemsetD32Async(from, value, 16, stream));
            ok!(cuMemcpyDtoHAsync_v2(HostPtr(buffer), from, 64, stream));
            ok!(cuMemcpyHtoDAsync_v2(to, HostPtr(buffer), 64, stream));
        }
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(to + 60), 19);
    });
}

#[test]
fn pinned_memory_that_is_freed_under_a_copy_is_reported() {
    let name = "pinned_memory_that_is_freed_under_a_copy_is_reported";
    let body = || {
        let (stream, device, buffer) = (stream(NON_BLOCKING), alloc(64), pinned(64));
        ok!(cuMemcpyHtoDAsync_v2(device, HostPtr(buffer), 64, stream));
        assert_eq!(code!(cuMemFreeHost(HostPtr(buffer))), CUDA_ERROR_LAUNCH_FAILED);
    };
    reported(name, body, |text| {
        contains(text, &["cuMemFreeHost of the 64 bytes", "the host's own thread", "copy of 64"]);
    });
}

#[test]
fn memory_that_is_unregistered_under_a_copy_is_reported() {
    let name = "memory_that_is_unregistered_under_a_copy_is_reported";
    let body = || {
        let (stream, device, bytes) = (stream(NON_BLOCKING), alloc(64), vec![1_u64; 8]);
        ok!(cuMemHostRegister_v2(host_slice(&bytes), 64, 0));
        ok!(cuMemcpyHtoDAsync_v2(device, host_slice(&bytes), 64, stream));
        let code = code!(cuMemHostUnregister(host_slice(&bytes)));
        assert_eq!(code, CUDA_ERROR_LAUNCH_FAILED);
    };
    reported(name, body, |text| contains(text, &["cuMemHostUnregister of the 64 bytes"]));
}

#[test]
fn pinned_memory_that_is_freed_after_the_copy_is_silent() {
    silent("pinned_memory_that_is_freed_after_the_copy_is_silent", || {
        let (stream, device, bytes) = (stream(NON_BLOCKING), alloc(64), vec![1_u64; 8]);
        let buffer = pinned(64);
        ok!(cuMemHostRegister_v2(host_slice(&bytes), 64, 0));
        ok!(cuMemcpyHtoDAsync_v2(device, HostPtr(buffer), 64, stream));
        ok!(cuMemcpyHtoDAsync_v2(device, host_slice(&bytes), 64, stream));
        ok!(cuStreamSynchronize(stream));
        ok!(cuMemFreeHost(HostPtr(buffer)));
        ok!(cuMemHostUnregister(host_slice(&bytes)));
    });
}

// ---- pageable memory

const WARNING: &str = "ferrowarp: warning: asynchronous copy of 4096 bytes";

fn copy_both_ways(host: HostPtr) {
    let (stream, device) = (stream(0), alloc(4096));
    for _ in 0..3 {
        ok!(cuMemcpyHtoDAsync_v2(device, host, 4096, stream));
        ok!(cuMemcpyDtoHAsync_v2(host, device, 4096, stream));
    }
    ok!(cuStreamSynchronize(stream));
}

#[test]
fn an_asynchronous_copy_of_pageable_memory_is_a_warning_once() {
    let name = "an_asynchronous_copy_of_pageable_memory_is_a_warning_once";
    let errors = in_child_with(name, CHECKED, || {
        context();
        let mut bytes = vec![0_u8; 4096];
        assert_eq!(pageable_async_copies(), 0);
        copy_both_ways(host_slice_mut(&mut bytes));
        assert_eq!(pageable_async_copies(), 6);
    });
    assert!(errors.is_none_or(|text| text.matches(WARNING).count() == 1));
}

#[test]
fn pinned_memory_is_no_warning_nor_are_copies_that_wait() {
    let name = "pinned_memory_is_no_warning_nor_are_copies_that_wait";
    let errors = in_child_with(name, CHECKED, || {
        context();
        copy_both_ways(HostPtr(pinned(4096)));
        let (mut bytes, device) = (vec![0_u8; 4096], alloc(4096));
        ok!(cuMemcpyHtoD_v2(device, host_slice(&bytes), 4096));
        ok!(cuMemcpyDtoH_v2(host_slice_mut(&mut bytes), device, 4096));
        assert_eq!(pageable_async_copies(), 0);
    });
    assert!(errors.is_none_or(|text| !text.contains("warning")));
}

#[test]
fn unchecked_programs_are_not_warned() {
    let set = [("FERROWARP_DEVICE", "emulator"), ("FERROWARP_CHECK", "memory,sync")];
    let errors = in_child_with("unchecked_programs_are_not_warned", &set, || {
        context();
        copy_both_ways(host_slice_mut(&mut vec![0_u8; 4096]));
        assert_eq!(pageable_async_copies(), 0);
    });
    assert!(errors.is_none_or(|text| !text.contains("warning")));
}
