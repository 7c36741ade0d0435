//! The order within a stream, between streams and against the null stream, and the calls that query
//! it.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::*;
use cuda_driver::*;

const NON_BLOCKING: u32 = 1;

/// The context, for one test at a time: NVIDIA's driver runs the host functions of all streams on
/// one thread, so two gates could wait for each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    context();
    alone
}

#[test]
fn a_stream_keeps_the_order_of_its_work() {
    let _alone = alone();
    let (kernel, stream, cell) = (function(load(), "double_and_add"), stream(0), alloc(4));
    ok!(cuMemsetD32Async(cell, 1, 1, stream));
    let mut expected = 1_u32;
    for step in 0..50_u32 {
        assert_eq!(launch(kernel, stream, &[host(&cell), host(&step)]), 0);
        expected = expected.wrapping_mul(2).wrapping_add(step);
    }
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read_u32(cell), expected);
}

#[test]
fn a_held_stream_is_not_ready_and_a_released_one_is() {
    let _alone = alone();
    let (stream, event) = (stream(0), event());
    ok!(cuEventQuery(event));
    let gate = Gate::close(stream);
    ok!(cuEventRecord(event, stream));
    assert_eq!(code!(cuStreamQuery(stream)), CUDA_ERROR_NOT_READY);
    assert_eq!(code!(cuEventQuery(event)), CUDA_ERROR_NOT_READY);
    gate.open();
    ok!(cuEventSynchronize(event));
    ok!(cuEventQuery(event));
    ok!(cuStreamSynchronize(stream));
    ok!(cuStreamQuery(stream));
    ok!(cuEventDestroy_v2(event));
    ok!(cuStreamDestroy_v2(stream));
}

#[test]
fn a_launch_returns_before_the_kernel_runs() {
    let _alone = alone();
    let (kernel, stream, cell) = (function(load(), "store"), stream(NON_BLOCKING), alloc(4));
    ok!(cuMemsetD32_v2(cell, 5, 1));
    let gate = Gate::close(stream);
    assert_eq!(launch(kernel, stream, &[host(&cell), host(&9_u32)]), 0);
    assert_eq!(read_u32(cell), 5);
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read_u32(cell), 9);
}

#[test]
fn a_stream_waits_for_another_ones_event() {
    let _alone = alone();
    let kernel = function(load(), "store");
    let (first, second) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (cell, event) = (alloc(4), event());
    let gate = Gate::close(first);
    assert_eq!(launch(kernel, first, &[host(&cell), host(&1_u32)]), 0);
    ok!(cuEventRecord(event, first));
    ok!(cuStreamWaitEvent(second, event, 0));
    assert_eq!(launch(kernel, second, &[host(&cell), host(&2_u32)]), 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(code!(cuStreamQuery(second)), CUDA_ERROR_NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(second));
    assert_eq!(read_u32(cell), 2);
}

#[test]
fn a_context_that_waits_for_an_event_holds_all_its_streams() {
    let _alone = alone();
    let kernel = function(load(), "store");
    let (gated, free, event) = (stream(NON_BLOCKING), stream(NON_BLOCKING), event());
    let cell = alloc(4);
    let gate = Gate::close(gated);
    assert_eq!(launch(kernel, gated, &[host(&cell), host(&1_u32)]), 0);
    ok!(cuEventRecord(event, gated));
    ok!(cuCtxWaitEvent(context(), event));
    assert_eq!(launch(kernel, free, &[host(&cell), host(&2_u32)]), 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(code!(cuStreamQuery(free)), CUDA_ERROR_NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(free));
    assert_eq!(read_u32(cell), 2);
}

#[test]
fn an_event_that_was_never_recorded_blocks_nothing() {
    let _alone = alone();
    let (stream, event) = (stream(0), event());
    ok!(cuStreamWaitEvent(stream, event, 0));
    ok!(cuStreamSynchronize(stream));
    let mut milliseconds = 0.0;
    let code = code!(cuEventElapsedTime(Out::from(&mut milliseconds), event, event));
    assert_eq!(code, CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn events_tell_the_time_between_them() {
    let _alone = alone();
    let (stream, start, end) = (stream(0), event(), event());
    ok!(cuEventRecord(start, stream));
    let gate = Gate::close(stream);
    ok!(cuEventRecord(end, stream));
    let mut milliseconds = -1.0;
    let code = code!(cuEventElapsedTime(Out::from(&mut milliseconds), start, end));
    assert_eq!(code, CUDA_ERROR_NOT_READY);
    std::thread::sleep(std::time::Duration::from_millis(30));
    gate.open();
    ok!(cuEventSynchronize(end));
    ok!(cuEventElapsedTime(Out::from(&mut milliseconds), start, end));
    assert!((25.0..10_000.0).contains(&milliseconds), "{milliseconds} ms");
    let mut untimed = null_mut();
    ok!(cuEventCreate(Out::from(&mut untimed), 2));
    ok!(cuEventRecord(untimed, stream));
    ok!(cuEventSynchronize(untimed));
    let code = code!(cuEventElapsedTime(Out::from(&mut milliseconds), start, untimed));
    assert_eq!(code, CUDA_ERROR_INVALID_HANDLE);
}

#[test]
fn the_null_stream_waits_for_blocking_streams_and_they_for_it() {
    in_child("the_null_stream_waits_for_blocking_streams_and_they_for_it", || {
        context();
        let kernel = function(load(), "double_and_add");
        let (blocking, cell) = (stream(0), alloc(4));
        ok!(cuMemsetD32_v2(cell, 1, 1));
        let gate = Gate::close(blocking);
        assert_eq!(launch(kernel, blocking, &[host(&cell), host(&1_u32)]), 0); // 1 -> 3
        assert_eq!(launch(kernel, NULL, &[host(&cell), host(&2_u32)]), 0); // 3 -> 8
        assert_eq!(launch(kernel, blocking, &[host(&cell), host(&3_u32)]), 0); // 8 -> 19
        assert_eq!(code!(cuStreamQuery(NULL)), CUDA_ERROR_NOT_READY);
        gate.open();
        ok!(cuStreamSynchronize(blocking));
        assert_eq!(read_u32(cell), 19);
    });
}

#[test]
fn a_non_blocking_stream_and_the_null_stream_ignore_each_other() {
    in_child("a_non_blocking_stream_and_the_null_stream_ignore_each_other", || {
        context();
        let (free, cell) = (stream(NON_BLOCKING), alloc(4));
        let gate = Gate::close(free);
        ok!(cuMemsetD32_v2(cell, 6, 1));
        ok!(cuStreamSynchronize(NULL));
        assert_eq!(code!(cuStreamQuery(free)), CUDA_ERROR_NOT_READY);
        gate.open();
        ok!(cuStreamSynchronize(free));
    });
}

#[test]
fn streams_have_the_flags_and_priorities_they_were_given() {
    let _alone = alone();
    let own = context();
    let (mut least, mut greatest) = (1, 1);
    ok!(cuCtxGetStreamPriorityRange(Out::from(&mut least), Out::from(&mut greatest)));
    assert!(greatest < least, "{least} to {greatest}");
    let mut stream = null_mut();
    ok!(cuStreamCreateWithPriority(Out::from(&mut stream), NON_BLOCKING, greatest - 100));
    let (mut flags, mut priority, mut context) = (0, 0, null_mut());
    ok!(cuStreamGetFlags(stream, Out::from(&mut flags)));
    ok!(cuStreamGetPriority(stream, Out::from(&mut priority)));
    ok!(cuStreamGetCtx(stream, Out::from(&mut context)));
    assert_eq!((flags, priority, context), (NON_BLOCKING, greatest, own));
    assert_eq!(code!(cuStreamCreate(Out::from(&mut stream), 64)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn a_destroyed_stream_finishes_its_work() {
    let _alone = alone();
    let (kernel, stream, cell) = (function(load(), "store"), stream(NON_BLOCKING), alloc(4));
    let gate = Gate::close(stream);
    assert_eq!(launch(kernel, stream, &[host(&cell), host(&77_u32)]), 0);
    ok!(cuStreamDestroy_v2(stream));
    gate.open();
    ok!(cuCtxSynchronize());
    assert_eq!(read_u32(cell), 77);
}

#[test]
fn stream_ordered_memory_lives_between_its_calls() {
    let _alone = alone();
    let (kernel, stream) = (function(load(), "store"), stream(0));
    let (mut block, mut value) = (0, [0_u32]);
    ok!(cuMemAllocAsync(Out::from(&mut block), 1 << 16, stream));
    assert_eq!(launch(kernel, stream, &[host(&block), host(&11_u32)]), 0);
    ok!(cuMemcpyDtoHAsync_v2(host_slice_mut(&mut value), block, 4, stream));
    ok!(cuMemFreeAsync(block, stream));
    ok!(cuStreamSynchronize(stream));
    assert_eq!(value, [11]);
    ok!(cuMemAllocAsync(Out::from(&mut block), 0, stream));
    ok!(cuMemFreeAsync(0, stream));
    assert_eq!(code!(cuMemFreeAsync(0x1234, stream)), CUDA_ERROR_INVALID_VALUE);
}

#[test]
fn an_async_copy_from_pageable_memory_reads_it_before_it_returns() {
    let _alone = alone();
    let (stream, cell) = (stream(NON_BLOCKING), alloc(4));
    let gate = Gate::close(stream);
    let mut value = [21_u32];
    ok!(cuMemcpyHtoDAsync_v2(cell, host_slice(&value), 4, stream));
    value[0] = 0;
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!((read_u32(cell), value[0]), (21, 0));
}

#[test]
fn an_async_copy_of_pinned_memory_waits_its_turn() {
    let _alone = alone();
    let (stream, cell) = (stream(NON_BLOCKING), alloc(4));
    let mut pinned = null_mut();
    ok!(cuMemAllocHost_v2(Out::from(&mut pinned), 4));
    let place = pinned.cast::<u32>();
    // SAFETY: four bytes that the driver just gave.
    unsafe { place.write(1) };
    let gate = Gate::close(stream);
    ok!(cuMemcpyHtoDAsync_v2(cell, HostPtr(pinned), 4, stream));
    // SAFETY: as before; the stream is held, so the copy has not begun.
    unsafe { place.write(2) };
    gate.open();
    ok!(cuStreamSynchronize(stream));
    assert_eq!(read_u32(cell), 2);
    ok!(cuMemFreeHost(HostPtr(pinned)));
}

type Log = Arc<Mutex<Vec<ResultCode>>>;

unsafe extern "C" fn log_status(_: CUstream, status: ResultCode, data: *mut c_void) {
    // SAFETY: `with_log` made this from an `Arc` for this one call.
    let log = unsafe { Arc::from_raw(data.cast::<Mutex<Vec<ResultCode>>>()) };
    log.lock().unwrap().push(status);
}

fn with_log(log: &Log) -> HostPtr {
    HostPtr(Arc::into_raw(log.clone()).cast_mut().cast())
}

#[test]
fn a_callback_is_told_the_streams_status() {
    in_child("a_callback_is_told_the_streams_status", || {
        context();
        let (kernel, stream, log) = (function(load(), "stop"), stream(0), Log::default());
        ok!(cuStreamAddCallback(stream, Some(log_status), with_log(&log), 0));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(*log.lock().unwrap(), [0]);
        if !on_emulator() {
            return;
        }
        let gate = Gate::close(stream);
        assert_eq!(launch(kernel, stream, &[]), 0);
        ok!(cuStreamAddCallback(stream, Some(log_status), with_log(&log), 0));
        gate.open();
        assert_eq!(code!(cuStreamSynchronize(stream)), CUDA_ERROR_LAUNCH_FAILED);
        // A device that is lost already is reported at once, before the stream comes to its
        // callback.
        let called = || log.lock().unwrap().len() == 2;
        let deadline = Instant::now() + Duration::from_secs(10);
        while !called() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(*log.lock().unwrap(), [0, CUDA_ERROR_LAUNCH_FAILED]);
    });
}

unsafe extern "C" fn call_driver(data: *mut c_void) {
    let mut address = 0;
    // SAFETY: a live place; and the test keeps its variable until the stream is done.
    unsafe { *data.cast::<ResultCode>() = cuMemAlloc_v2(Out::from(&mut address), 16) };
}

#[test]
fn a_host_function_must_not_call_the_driver() {
    in_child("a_host_function_must_not_call_the_driver", || {
        // NVIDIA's driver may also hang.
        force_emulator();
        context();
        let mut code = 0;
        let data = HostPtr((&raw mut code).cast());
        ok!(cuLaunchHostFunc(NULL, Some(call_driver), data));
        ok!(cuStreamSynchronize(NULL));
        assert_eq!(code, CUDA_ERROR_NOT_PERMITTED);
    });
}

#[test]
fn threads_have_streams_of_their_own() {
    let _alone = alone();
    let context = context();
    let threads: Vec<_> = (0..4_u32)
        .map(|index| (index, context as usize))
        .map(|(index, context)| {
            std::thread::spawn(move || {
                let per_thread = 2 as CUstream;
                ok!(cuCtxSetCurrent(context as CUcontext));
                let cell = alloc(4);
                let kernel = function(load(), "store");
                assert_eq!(launch(kernel, per_thread, &[host(&cell), host(&index)]), 0);
                ok!(cuStreamSynchronize(per_thread));
                assert_eq!(read_u32(cell), index);
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
