//! Which calls invalidate the capture of another stream: the results of driver 580 on an H200, call
//! by call, in each mode, for both kinds of streams, on the capturing thread and on another one.

mod common;

use std::ffi::CString;
use std::ptr::null_mut;
use std::thread;

use common::*;
use cuda_driver::*;

const BLOCKING: u32 = 0;
const NON_BLOCKING: u32 = 1;
const GLOBAL: i32 = 0;
const THREAD_LOCAL: i32 = 1;
const RELAXED: i32 = 2;
const STACK: i32 = 0;

/// What a capture makes of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Rule {
    /// It disturbs no capture.
    Harmless,
    /// It may disturb one: 900 on the capturing thread, and with [`GLOBAL`] on the others, but not
    /// with [`RELAXED`].
    Unsafe,
    /// It works on the null stream: 906 where the captured stream keeps order with that one.
    Null,
    /// Both, the null stream first.
    UnsafeNull,
}

use Rule::{Harmless, Null, Unsafe, UnsafeNull};

impl Rule {
    /// What the call and the end of the capture answer.
    fn answers(self, flags: u32, mode: i32, on_other: bool) -> [ResultCode; 2] {
        let ended = |code| [code, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED];
        let is_forbidden = mode == GLOBAL || mode == THREAD_LOCAL && !on_other;
        match self {
            Null | UnsafeNull if flags == BLOCKING => ended(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT),
            Unsafe | UnsafeNull if is_forbidden => ended(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED),
            _ => [0, 0],
        }
    }
}

/// A call whose arguments were made before the capture.
struct Call(Box<dyn FnOnce() -> ResultCode>);

// SAFETY: it holds handles and addresses of the driver's, which any thread may use.
unsafe impl Send for Call {}

impl Call {
    fn run(self) -> ResultCode {
        (self.0)()
    }

    fn run_on_another_thread(self) -> ResultCode {
        let context = context() as usize;
        let run = move || {
            ok!(cuCtxSetCurrent(context as CUcontext));
            self.run()
        };
        thread::spawn(run).join().expect("no panic")
    }
}

fn call(call: impl FnOnce() -> ResultCode + 'static) -> Call {
    Call(Box::new(call))
}

fn library() -> CUlibrary {
    let (mut library, image) = (null_mut(), CString::new(KERNELS).expect("no NUL in PTX"));
    ok!(cuLibraryLoadData(
        Out::from(&mut library),
        HostPtr(image.as_ptr().cast_mut().cast()),
        In::NULL,
        Out::NULL,
        0,
        In::NULL,
        In::NULL,
        0,
    ));
    library
}

fn graph() -> CUgraph {
    let mut graph = null_mut();
    ok!(cuGraphCreate(Out::from(&mut graph), 0));
    graph
}

fn ready() -> CUgraphExec {
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph(), 0));
    exec
}

fn pool() -> CUmemoryPool {
    let mut pool = null_mut();
    ok!(cuDeviceGetDefaultMemPool(Out::from(&mut pool), 0));
    pool
}

/// Memory of a stream's, and the stream.
fn in_order() -> (CUdeviceptr, CUstream) {
    let (mut address, stream) = (0, stream(NON_BLOCKING));
    ok!(cuMemAllocAsync(Out::from(&mut address), 256, stream));
    ok!(cuStreamSynchronize(stream));
    (address, stream)
}

fn allocate_on(stream: CUstream) -> ResultCode {
    let mut address = 0;
    code!(cuMemAllocAsync(Out::from(&mut address), 256, stream))
}

/// 4 KiB of the host's, on pages of their own, for good.
fn pages() -> HostPtr {
    let memory = vec![0u8; 3 * 4096].leak();
    let first = memory.as_ptr().align_offset(4096);
    host_slice_mut(&mut memory[first..])
}

fn managed() -> CUdeviceptr {
    let mut address = 0;
    ok!(cuMemAllocManaged(Out::from(&mut address), 4096, 1));
    address
}

/// A call's name, what a capture makes of it, and what makes it with its arguments.
type Row = (&'static str, Rule, fn() -> Call);

const CALLS: &[Row] = &[
    ("cuModuleLoadData", Harmless, || {
        call(|| {
            load();
            0
        })
    }),
    ("cuModuleUnload", Unsafe, || {
        let module = load();
        call(move || code!(cuModuleUnload(module)))
    }),
    ("cuLibraryLoadData", Harmless, || {
        call(|| {
            library();
            0
        })
    }),
    ("cuLibraryUnload", Unsafe, || {
        let library = library();
        call(move || code!(cuLibraryUnload(library)))
    }),
    ("cuCtxSetLimit", Unsafe, || call(|| code!(cuCtxSetLimit(STACK, 2048)))),
    ("cuCtxSetCacheConfig", Unsafe, || call(|| code!(cuCtxSetCacheConfig(1)))),
    ("cuMemAlloc", Unsafe, || {
        call(|| {
            let mut address = 0;
            code!(cuMemAlloc_v2(Out::from(&mut address), 256))
        })
    }),
    ("cuMemFree", Unsafe, || {
        let memory = alloc(256);
        call(move || code!(cuMemFree_v2(memory)))
    }),
    ("cuMemHostRegister", Unsafe, || {
        let pages = pages();
        call(move || code!(cuMemHostRegister_v2(pages, 4096, 0)))
    }),
    ("cuMemHostUnregister", Unsafe, || {
        let pages = pages();
        ok!(cuMemHostRegister_v2(pages, 4096, 0));
        call(move || code!(cuMemHostUnregister(pages)))
    }),
    ("cuMemAdvise", Unsafe, || {
        let memory = managed();
        call(move || code!(cuMemAdvise(memory, 4096, 1, 0)))
    }),
    ("cuMemsetD8", Null, || {
        let memory = alloc(256);
        call(move || code!(cuMemsetD8_v2(memory, 1, 256)))
    }),
    ("cuMemcpyDtoD", Null, || {
        let (to, from) = (alloc(256), alloc(256));
        ok!(cuMemsetD8_v2(from, 1, 256));
        call(move || code!(cuMemcpyDtoD_v2(to, from, 256)))
    }),
    ("cuMemsetD8Async, another stream", Harmless, || {
        let (memory, stream) = (alloc(256), stream(NON_BLOCKING));
        call(move || code!(cuMemsetD8Async(memory, 1, 256, stream)))
    }),
    ("cuMemsetD8Async, the null stream", Null, || {
        let memory = alloc(256);
        call(move || code!(cuMemsetD8Async(memory, 1, 256, NULL)))
    }),
    ("cuMemAllocAsync, another stream", Unsafe, || {
        let stream = stream(NON_BLOCKING);
        call(move || allocate_on(stream))
    }),
    ("cuMemAllocAsync, the null stream", UnsafeNull, || call(|| allocate_on(NULL))),
    ("cuMemFreeAsync", Unsafe, || {
        let (memory, stream) = in_order();
        call(move || code!(cuMemFreeAsync(memory, stream)))
    }),
    ("cuMemPoolTrimTo", Unsafe, || {
        let pool = pool();
        call(move || code!(cuMemPoolTrimTo(pool, 0)))
    }),
    ("cuMemPoolGetAttribute", Unsafe, || {
        let pool = pool();
        call(move || {
            let mut threshold = 0u64;
            code!(cuMemPoolGetAttribute(pool, 4, Out::from(&mut threshold).cast()))
        })
    }),
    ("cuMemPoolGetAccess", Unsafe, || {
        let pool = pool();
        call(move || {
            let (mut flags, own) = (0, MemLocation { kind: 1, id: 0 });
            code!(cuMemPoolGetAccess(Out::from(&mut flags), pool, In::from(&own)))
        })
    }),
    ("cuMemPoolSetAccess", Unsafe, || {
        let pool = pool();
        call(move || {
            let own = MemAccess { location: MemLocation { kind: 1, id: 0 }, flags: 3 };
            code!(cuMemPoolSetAccess(pool, In::from(&own), 1))
        })
    }),
    ("cuEventQuery", Unsafe, || {
        let event = event();
        call(move || code!(cuEventQuery(event)))
    }),
    ("cuEventDestroy", Harmless, || {
        let event = event();
        call(move || code!(cuEventDestroy_v2(event)))
    }),
    ("cuStreamDestroy, another stream", Harmless, || {
        let stream = stream(NON_BLOCKING);
        call(move || code!(cuStreamDestroy_v2(stream)))
    }),
    ("cuStreamQuery, another stream", Unsafe, || {
        let stream = stream(NON_BLOCKING);
        call(move || code!(cuStreamQuery(stream)))
    }),
    ("cuStreamQuery, the null stream", UnsafeNull, || call(|| code!(cuStreamQuery(NULL)))),
    ("cuStreamSynchronize, another stream", Unsafe, || {
        let stream = stream(NON_BLOCKING);
        call(move || code!(cuStreamSynchronize(stream)))
    }),
    ("cuStreamSynchronize, the null stream", UnsafeNull, || {
        call(|| code!(cuStreamSynchronize(NULL)))
    }),
    ("cuGraphInstantiate", Unsafe, || {
        let graph = graph();
        call(move || {
            let mut exec = null_mut();
            code!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0))
        })
    }),
    ("cuGraphLaunch, another stream", Harmless, || {
        let (exec, stream) = (ready(), stream(NON_BLOCKING));
        call(move || code!(cuGraphLaunch(exec, stream)))
    }),
    ("cuGraphExecDestroy", Unsafe, || {
        let exec = ready();
        call(move || code!(cuGraphExecDestroy(exec)))
    }),
    ("cuGraphDestroy", Harmless, || {
        let graph = graph();
        call(move || code!(cuGraphDestroy(graph)))
    }),
];

/// What a call answers while a stream is captured, and what the end of the capture does then.
fn during_capture(flags: u32, mode: i32, call: impl FnOnce() -> ResultCode) -> [ResultCode; 2] {
    let stream = stream(flags);
    ok!(cuStreamBeginCapture_v2(stream, mode));
    let answer = call();
    let mut graph = null_mut();
    let end = code!(cuStreamEndCapture(stream, Out::from(&mut graph)));
    ok!(cuStreamDestroy_v2(stream));
    [answer, end]
}

// One test: a capture prohibits calls in the whole process.
#[test]
fn what_may_disturb_a_capture_is_refused_and_ends_it() {
    context();
    for &(name, rule, make) in CALLS {
        for flags in [NON_BLOCKING, BLOCKING] {
            for mode in [GLOBAL, THREAD_LOCAL, RELAXED] {
                for on_other in [false, true] {
                    let call = make();
                    let answers = during_capture(flags, mode, || match on_other {
                        true => call.run_on_another_thread(),
                        false => call.run(),
                    });
                    assert_eq!(
                        answers,
                        rule.answers(flags, mode, on_other),
                        "{name} ({rule:?}): flags {flags}, mode {mode}, on another thread: {on_other}"
                    );
                }
            }
        }
    }
    // What was refused is still there.
    let (module, library, exec) = (load(), library(), ready());
    let answers = during_capture(NON_BLOCKING, GLOBAL, || {
        assert_eq!(code!(cuLibraryUnload(library)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        assert_eq!(code!(cuGraphExecDestroy(exec)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        code!(cuModuleUnload(module))
    });
    assert_eq!(answers, Unsafe.answers(NON_BLOCKING, GLOBAL, false));
    ok!(cuModuleUnload(module));
    ok!(cuLibraryUnload(library));
    ok!(cuGraphExecDestroy(exec));
}
