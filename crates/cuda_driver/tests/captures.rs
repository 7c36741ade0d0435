//! Stream captures: enqueued operations become nodes of a graph, and calls that cannot become nodes
//! invalidate the capture.

mod common;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use common::*;
use cuda_driver::*;

const BLOCKING: u32 = 0;
const NON_BLOCKING: u32 = 1;
const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;

/// The context, for one test at a time: a capture prohibits calls in the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    let alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    context();
    alone
}

fn end(stream: CUstream) -> Result<CUgraph, ResultCode> {
    let mut graph = null_mut();
    match code!(cuStreamEndCapture(stream, Out::from(&mut graph))) {
        0 => Ok(graph),
        code => {
            assert!(graph.is_null(), "a graph beside {code}");
            Err(code)
        }
    }
}

/// Launches a graph once and waits.
fn run(graph: CUgraph, stream: CUstream) {
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

fn status(stream: CUstream) -> i32 {
    let mut status = -1;
    ok!(cuStreamIsCapturing(stream, Out::from(&mut status)));
    status
}

fn count(graph: CUgraph) -> usize {
    let mut count = 0;
    ok!(cuGraphGetNodes(graph, Out::NULL, Out::from(&mut count)));
    count
}

#[test]
fn a_captured_launch_runs_when_the_graph_is_launched() {
    let _alone = alone();
    let (kernel, stream, cell) =
        (function(load(), "double_and_add"), stream(NON_BLOCKING), alloc(4));
    ok!(cuMemsetD32_v2(cell, 3, 1));
    // The memset may still run in the null stream, with which the other stream does not
    // synchronize.
    ok!(cuCtxSynchronize());
    assert_eq!(status(stream), 0);
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_eq!(status(stream), 1);
    for value in [1_u32, 5] {
        assert_eq!(launch(kernel, stream, &[host(&cell), host(&value)]), 0);
    }
    let graph = end(stream).unwrap();
    assert_eq!((status(stream), count(graph), read_u32(cell)), (0, 2, 3));
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    ok!(cuGraphDestroy(graph));
    // (3 * 2 + 1) * 2 + 5 = 19, then (19 * 2 + 1) * 2 + 5 = 83.
    for expected in [19, 83] {
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(cell), expected);
    }
    ok!(cuGraphExecDestroy(exec));
}

unsafe extern "C" fn increment(data: *mut c_void) {
    // SAFETY: the test keeps the number until the stream is done.
    unsafe { *data.cast::<u32>() += 1 };
}

#[test]
fn copies_fills_and_host_functions_are_captured_in_order() {
    let _alone = alone();
    let (stream, cell) = (stream(NON_BLOCKING), alloc(8));
    let (mut calls, source) = (0_u32, [77_u32]);
    let mut back = [0_u32; 2];
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    ok!(cuMemsetD32Async(cell, 5, 2, stream));
    ok!(cuMemcpyHtoDAsync_v2(cell, host_slice(&source), 4, stream));
    ok!(cuMemcpyDtoHAsync_v2(host_slice_mut(&mut back), cell, 8, stream));
    ok!(cuLaunchHostFunc(stream, Some(increment), HostPtr((&raw mut calls).cast())));
    let graph = end(stream).unwrap();
    assert_eq!((count(graph), calls, back), (4, 0, [0, 0]));
    let (mut edges, mut kinds) = (0, Vec::new());
    ok!(cuGraphGetEdges(graph, Out::NULL, Out::NULL, Out::from(&mut edges)));
    assert_eq!(edges, 3);
    let (mut nodes, mut room) = (vec![null_mut(); 4], 4);
    ok!(cuGraphGetNodes(graph, Out::from(&mut nodes[..]), Out::from(&mut room)));
    for node in nodes {
        let mut kind = -1;
        ok!(cuGraphNodeGetType(node, Out::from(&mut kind)));
        kinds.push(kind);
    }
    kinds.sort_unstable();
    assert_eq!(kinds, [1, 1, 2, 3]);
    run(graph, stream);
    assert_eq!((calls, back), (1, [77, 5]));
}

#[test]
fn other_streams_join_through_events_and_come_back() {
    let _alone = alone();
    let kernel = function(load(), "store");
    let (first, second) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (fork, join, cells) = (event(), event(), alloc(8));
    ok!(cuStreamBeginCapture_v2(first, GLOBAL));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    assert_eq!(status(second), 1);
    assert_eq!(launch(kernel, first, &[host(&cells), host(&1_u32)]), 0);
    assert_eq!(launch(kernel, second, &[host(&(cells + 4)), host(&2_u32)]), 0);
    ok!(cuEventRecord(join, second));
    ok!(cuStreamWaitEvent(first, join, 0));
    let (mut ids, mut state) = ([0_u64; 2], 0);
    ok!(cuStreamGetCaptureInfo(first, Out::from(&mut state), Out::from(&mut ids[0])));
    ok!(cuStreamGetCaptureInfo(second, Out::from(&mut state), Out::from(&mut ids[1])));
    assert_eq!((state, ids[0]), (1, ids[1]));
    let graph = end(first).unwrap();
    assert_eq!((status(second), count(graph)), (0, 2));
    let mut roots = 0;
    ok!(cuGraphGetRootNodes(graph, Out::NULL, Out::from(&mut roots)));
    assert_eq!(roots, 2);
    run(graph, first);
    assert_eq!((read_u32(cells), read_u32(cells + 4)), (1, 2));
}

#[test]
fn a_fork_that_is_not_joined_is_904() {
    let _alone = alone();
    let kernel = function(load(), "store");
    let (first, second) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (fork, cell) = (event(), alloc(4));
    ok!(cuStreamBeginCapture_v2(first, GLOBAL));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    assert_eq!(launch(kernel, second, &[host(&cell), host(&2_u32)]), 0);
    assert_eq!(end(first), Err(CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
    assert_eq!((status(first), status(second)), (0, 0));
}

/// What the end of a capture answers after the stream `second`, which joined it, was destroyed: the
/// number of nodes, or the code. `before` and `after` happen before and after that; they get the
/// first stream, the second and an event.
fn end_after_destroying(
    before: impl FnOnce(CUstream, CUstream, CUevent),
    after: impl FnOnce(CUstream, CUevent),
) -> Result<usize, ResultCode> {
    let (first, second) = (stream(NON_BLOCKING), stream(NON_BLOCKING));
    let (fork, join) = (event(), event());
    ok!(cuStreamBeginCapture_v2(first, GLOBAL));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    before(first, second, join);
    ok!(cuStreamDestroy_v2(second));
    assert_eq!(status(first), 1);
    after(first, join);
    let nodes = end(first).map(|graph| {
        let nodes = count(graph);
        run(graph, first);
        nodes
    });
    assert_eq!(status(first), 0);
    ok!(cuStreamDestroy_v2(first));
    nodes
}

// What driver 580 answers on an H200.
#[test]
fn a_forked_stream_may_be_destroyed_before_the_capture_ends() {
    let _alone = alone();
    let cell = alloc(4);
    let fill = |stream, value| ok!(cuMemsetD32Async(cell, value, 1, stream));
    let wait = |stream, event| ok!(cuStreamWaitEvent(stream, event, 0));
    let joined = |first, second, join| {
        fill(second, 1);
        ok!(cuEventRecord(join, second));
        wait(first, join);
    };
    assert_eq!(end_after_destroying(joined, |first, _| fill(first, 2)), Ok(2));
    assert_eq!(read_u32(cell), 2);
    let recorded = |_, second, join| {
        fill(second, 3);
        ok!(cuEventRecord(join, second));
    };
    assert_eq!(end_after_destroying(recorded, wait), Ok(1));
    assert_eq!(read_u32(cell), 3);
    assert_eq!(end_after_destroying(|_, _, _| {}, |first, _| fill(first, 4)), Ok(1));
    assert_eq!(read_u32(cell), 4);
}

#[test]
fn a_destroyed_fork_that_is_not_joined_is_904() {
    let _alone = alone();
    let cell = alloc(4);
    let fill = |stream| ok!(cuMemsetD32Async(cell, 1, 1, stream));
    let unjoined = |_, second, _| fill(second);
    let joined_too_early = |first, second, join| {
        fill(second);
        ok!(cuEventRecord(join, second));
        ok!(cuStreamWaitEvent(first, join, 0));
        fill(second);
    };
    let lost = Err(CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    assert_eq!(end_after_destroying(unjoined, |_, _| {}), lost);
    assert_eq!(end_after_destroying(joined_too_early, |_, _| {}), lost);
}

#[test]
fn a_destroyed_fork_keeps_no_order_with_the_null_stream() {
    let _alone = alone();
    let (first, second, fork, cell) = (stream(NON_BLOCKING), stream(BLOCKING), event(), alloc(4));
    ok!(cuStreamBeginCapture_v2(first, GLOBAL));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    ok!(cuStreamDestroy_v2(second));
    ok!(cuMemsetD32Async(cell, 8, 1, NULL));
    let graph = end(first).unwrap();
    assert_eq!((count(graph), read_u32(cell)), (0, 8));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn destroying_the_first_stream_ends_the_capture_of_all() {
    let _alone = alone();
    let (first, second, fork, cell) =
        (stream(NON_BLOCKING), stream(NON_BLOCKING), event(), alloc(4));
    ok!(cuStreamBeginCapture_v2(first, GLOBAL));
    ok!(cuEventRecord(fork, first));
    ok!(cuStreamWaitEvent(second, fork, 0));
    ok!(cuStreamDestroy_v2(first));
    assert_eq!((status(second), end(second)), (0, Err(CUDA_ERROR_ILLEGAL_STATE)));
    ok!(cuMemsetD32Async(cell, 6, 1, second));
    ok!(cuStreamSynchronize(second));
    assert_eq!(read_u32(cell), 6);
}

#[test]
fn beginning_and_ending_at_the_wrong_time_is_refused() {
    let _alone = alone();
    let stream = stream(NON_BLOCKING);
    assert_eq!(end(stream), Err(CUDA_ERROR_ILLEGAL_STATE));
    let code = code!(cuStreamBeginCapture_v2(NULL, GLOBAL));
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    assert_eq!(code!(cuStreamBeginCapture_v2(stream, 7)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    assert_eq!(code!(cuStreamBeginCapture_v2(stream, GLOBAL)), CUDA_ERROR_ILLEGAL_STATE);
    let graph = end(stream).unwrap();
    assert_eq!(count(graph), 0);
    ok!(cuGraphDestroy(graph));
}

/// What a call answers during a capture, and what the end of the capture answers then.
fn during_capture(
    flags: u32,
    mode: i32,
    call: impl FnOnce(CUstream) -> ResultCode,
) -> [ResultCode; 2] {
    let stream = stream(flags);
    ok!(cuStreamBeginCapture_v2(stream, mode));
    let code = call(stream);
    let end = end(stream).map_or_else(
        |code| code,
        |graph| {
            ok!(cuGraphDestroy(graph));
            0
        },
    );
    ok!(cuStreamDestroy_v2(stream));
    [code, end]
}

const ENDED: [ResultCode; 2] =
    [CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];

#[test]
fn waiting_for_a_captured_stream_is_900_and_ends_the_capture() {
    let _alone = alone();
    for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
        let synchronize = |stream| code!(cuStreamSynchronize(stream));
        assert_eq!(during_capture(NON_BLOCKING, mode, synchronize), ENDED, "mode {mode}");
        let query = |stream| code!(cuStreamQuery(stream));
        assert_eq!(during_capture(NON_BLOCKING, mode, query), ENDED, "mode {mode}");
        let whole = |_| code!(cuCtxSynchronize());
        assert_eq!(during_capture(NON_BLOCKING, mode, whole), ENDED, "mode {mode}");
    }
}

fn try_alloc() -> ResultCode {
    let mut address = 0;
    let code = code!(cuMemAlloc_v2(Out::from(&mut address), 256));
    if code == 0 {
        ok!(cuMemFree_v2(address));
    }
    code
}

#[test]
fn an_allocation_is_900_but_in_a_relaxed_capture() {
    let _alone = alone();
    assert_eq!(during_capture(NON_BLOCKING, GLOBAL, |_| try_alloc()), ENDED);
    assert_eq!(during_capture(NON_BLOCKING, THREAD_LOCAL, |_| try_alloc()), ENDED);
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, |_| try_alloc()), [0, 0]);
    let elsewhere = |_| {
        let context = context() as usize;
        let thread = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            try_alloc()
        });
        thread.join().unwrap()
    };
    assert_eq!(during_capture(NON_BLOCKING, GLOBAL, elsewhere), ENDED);
    assert_eq!(during_capture(NON_BLOCKING, THREAD_LOCAL, elsewhere), [0, 0]);
}

#[test]
fn a_thread_may_allow_itself_what_a_capture_forbids() {
    let _alone = alone();
    let relaxed = |_| {
        let mut mode = RELAXED;
        ok!(cuThreadExchangeStreamCaptureMode(Out::from(&mut mode)));
        assert_eq!(mode, GLOBAL);
        let code = try_alloc();
        ok!(cuThreadExchangeStreamCaptureMode(Out::from(&mut mode)));
        assert_eq!(mode, RELAXED);
        code
    };
    assert_eq!(during_capture(NON_BLOCKING, GLOBAL, relaxed), [0, 0]);
}

#[test]
fn the_null_stream_cannot_wait_for_a_captured_blocking_stream() {
    let _alone = alone();
    let (kernel, cell) = (function(load(), "store"), alloc(4));
    let on_null = |_| launch(kernel, NULL, &[host(&cell), host(&4_u32)]);
    let ended = [CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];
    assert_eq!(during_capture(BLOCKING, RELAXED, on_null), ended);
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, on_null), [0, 0]);
    let asked = |_| {
        let mut status = 0;
        code!(cuStreamIsCapturing(NULL, Out::from(&mut status)))
    };
    assert_eq!(during_capture(BLOCKING, RELAXED, asked)[0], CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    ok!(cuCtxSynchronize());
}

#[test]
fn events_of_a_capture_are_not_asked_about() {
    let _alone = alone();
    let event = event();
    let query = |stream| {
        ok!(cuEventRecord(event, stream));
        code!(cuEventQuery(event))
    };
    let ended = [CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, query), ended);
    let synchronize = |stream| {
        ok!(cuEventRecord(event, stream));
        code!(cuEventSynchronize(event))
    };
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, synchronize), ended);
}

#[test]
fn a_dependency_from_outside_is_905() {
    let _alone = alone();
    let (outside, event) = (stream(NON_BLOCKING), event());
    ok!(cuEventRecord(event, outside));
    let wait = |stream| code!(cuStreamWaitEvent(stream, event, 0));
    let ended = [CUDA_ERROR_STREAM_CAPTURE_ISOLATION, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, wait), ended);
    let external = |stream| code!(cuStreamWaitEvent(stream, event, 1));
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, external), [0, 0]);
}

#[test]
fn two_captures_are_not_merged() {
    let _alone = alone();
    let (other, event) = (stream(NON_BLOCKING), event());
    let merge = |stream| {
        ok!(cuStreamBeginCapture_v2(other, RELAXED));
        ok!(cuEventRecord(event, other));
        code!(cuStreamWaitEvent(stream, event, 0))
    };
    let ended = [CUDA_ERROR_STREAM_CAPTURE_MERGE, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];
    assert_eq!(during_capture(NON_BLOCKING, RELAXED, merge), ended);
    assert_eq!(end(other), Err(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
}

#[test]
fn a_capture_ends_where_it_began() {
    let _alone = alone();
    let (other, event) = (stream(NON_BLOCKING), event());
    let elsewhere = |stream| {
        ok!(cuEventRecord(event, stream));
        ok!(cuStreamWaitEvent(other, event, 0));
        end(other).err().unwrap_or(0)
    };
    assert_eq!(
        during_capture(NON_BLOCKING, RELAXED, elsewhere)[0],
        CUDA_ERROR_STREAM_CAPTURE_UNMATCHED
    );
    let in_thread = |stream: CUstream| {
        let (context, stream) = (context() as usize, stream as usize);
        let thread = std::thread::spawn(move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            end(stream as CUstream).err().unwrap_or(0)
        });
        thread.join().unwrap()
    };
    let code = during_capture(NON_BLOCKING, THREAD_LOCAL, in_thread)[0];
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
}

#[test]
fn a_capture_can_go_into_an_existing_graph() {
    let _alone = alone();
    let (kernel, stream, cell) =
        (function(load(), "double_and_add"), stream(NON_BLOCKING), alloc(4));
    let (mut graph, mut node) = (null_mut(), null_mut());
    ok!(cuGraphCreate(Out::from(&mut graph), 0));
    let params =
        MemsetNodeParams { dst: cell, pitch: 0, value: 10, element_bytes: 4, width: 1, height: 1 };
    let context = context();
    ok!(cuGraphAddMemsetNode(Out::from(&mut node), graph, In::NULL, 0, In::from(&params), context));
    ok!(cuStreamBeginCaptureToGraph(stream, graph, In::from(&node), In::NULL, 1, RELAXED));
    assert_eq!(launch(kernel, stream, &[host(&cell), host(&2_u32)]), 0);
    let (mut state, mut id, mut found, mut tips, mut n_tips) =
        (0, 0_u64, null_mut(), std::ptr::null(), 0);
    ok!(cuStreamGetCaptureInfo_v2(
        stream,
        Out::from(&mut state),
        Out::from(&mut id),
        Out::from(&mut found),
        Out::from(&mut tips),
        Out::from(&mut n_tips)
    ));
    assert_eq!((state, found, n_tips), (1, graph, 1));
    assert_eq!(end(stream), Ok(graph));
    assert_eq!(count(graph), 2);
    run(graph, stream);
    assert_eq!(read_u32(cell), 22);
}

#[test]
fn memory_of_a_capture_is_the_graphs() {
    let _alone = alone();
    let (kernel, stream, cell) = (function(load(), "store"), stream(NON_BLOCKING), alloc(4));
    let mut scratch = 0;
    ok!(cuStreamBeginCapture_v2(stream, GLOBAL));
    ok!(cuMemAllocAsync(Out::from(&mut scratch), 1024, stream));
    assert_eq!(launch(kernel, stream, &[host(&scratch), host(&6_u32)]), 0);
    ok!(cuMemcpyDtoDAsync_v2(cell, scratch, 4, stream));
    ok!(cuMemFreeAsync(scratch, stream));
    let graph = end(stream).unwrap();
    assert_eq!(count(graph), 4);
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    for _ in 0..2 {
        ok!(cuMemsetD32_v2(cell, 0, 1));
        ok!(cuCtxSynchronize());
        ok!(cuGraphLaunch(exec, stream));
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(cell), 6);
    }
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}
