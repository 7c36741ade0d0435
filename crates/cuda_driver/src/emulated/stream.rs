//! Streams, as the API sees them; what they do is in `queue.rs`.
#![allow(non_snake_case)]

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use super::attributes::STREAM_PRIORITIES;
use super::capture::{self, Capture};
use super::check_flags;
use super::current::{Context, current};
use super::lock;
use super::operation::SharedOperation;
use super::queue::{Line, Point};
use super::registry::{Handle, Registry};
use super::stream_settings::StreamSettings;
use crate::abi::{CUcontext, CUdevice, CUobject, CUstream, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
};
use crate::detail::{Answer, Failure};

/// The one flag of a stream: it keeps no order with the null stream.
const NON_BLOCKING: u32 = 1;

/// A stream.
pub(super) struct Stream {
    context: Arc<Context>,
    line: Arc<Line>,
    flags: u32,
    /// A number that no other stream of the process has.
    pub(super) id: u64,
    pub(super) attributes: Mutex<StreamSettings>,
    pub(super) capture: Mutex<Option<Arc<Capture>>>,
    is_null: bool,
}

impl Stream {
    fn open(context: Arc<Context>, flags: u32, priority: i32) -> Self {
        let line = context.queue.open(flags & NON_BLOCKING == 0);
        Self::over(context, line, flags, priority)
    }

    fn over(context: Arc<Context>, line: Arc<Line>, flags: u32, priority: i32) -> Self {
        Self {
            id: line.id(),
            context,
            line,
            flags,
            attributes: Mutex::new(StreamSettings::new(priority)),
            capture: Mutex::default(),
            is_null: false,
        }
    }

    /// What the work goes to.
    pub(super) fn line(&self) -> &Line {
        &self.line
    }

    pub(super) fn is_null(&self) -> bool {
        self.is_null
    }

    /// Whether it keeps order with the null stream.
    pub(super) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// Whether its work goes to a graph.
    pub(super) fn is_capturing(&self) -> bool {
        lock(&self.capture).is_some()
    }

    fn tail(&self) -> Vec<Point> {
        self.context.queue.tail(&self.line)
    }
}

static STREAMS: Registry<Stream> = Registry::new("stream");

thread_local! {
    /// The stream of this thread in each context, where it was asked for.
    static PER_THREAD: RefCell<Vec<Arc<Stream>>> = const { RefCell::new(Vec::new()) };
}

/// How many the program has made, and not ended.
pub(super) fn live() -> usize {
    STREAMS.count(|_| true)
}

/// Forgets a context's streams.
pub(super) fn forget(context: Handle) -> Answer {
    STREAMS.remove_where(|stream| stream.context.handle == context);
    Ok(())
}

/// The stream of this handle with its context, where the device is there.
pub(super) fn named(handle: CUstream) -> Answer<(Arc<Context>, Arc<Stream>)> {
    let current = current()?;
    let stream = match handle.addr() {
        // Null, and its other name in the API.
        0 | 1 => Arc::new(null(current)),
        2 => per_thread(&current),
        _ => STREAMS.get(handle)?,
    };
    stream.context.check()?;
    Ok((stream.context.clone(), stream))
}

fn null(context: Arc<Context>) -> Stream {
    let line = context.queue.null().clone();
    let stream = Stream::over(context, line, 0, STREAM_PRIORITIES.0);
    Stream { id: 1, is_null: true, ..stream }
}

fn per_thread(context: &Arc<Context>) -> Arc<Stream> {
    PER_THREAD.with_borrow_mut(|streams| {
        let known = streams.iter().find(|stream| stream.context.handle == context.handle);
        known.cloned().unwrap_or_else(|| {
            let stream = Arc::new(Stream::open(context.clone(), 0, STREAM_PRIORITIES.0));
            streams.push(stream.clone());
            stream
        })
    })
}

/// Gives a stream something to do, or the graph that captures it.
pub(super) fn enqueue(
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    operation: SharedOperation,
) -> Answer {
    let capture = lock(&stream.capture).clone();
    match capture {
        Some(capture) => capture.add(stream, operation).map(drop),
        None => {
            capture::check_implicit(context, stream)?;
            operation.submit(context, stream.line()).map(drop)
        }
    }
}

pub(crate) fn cuStreamCreate(stream: Out<CUstream>, flags: u32) -> Answer {
    cuStreamCreateWithPriority(stream, flags, STREAM_PRIORITIES.0)
}

/// A priority outside the range is taken for the nearest one inside.
pub(crate) fn cuStreamCreateWithPriority(
    stream: Out<CUstream>,
    flags: u32,
    priority: i32,
) -> Answer {
    let context = current()?;
    check_flags(flags, NON_BLOCKING)?;
    stream.check()?;
    let priority = priority.clamp(STREAM_PRIORITIES.1, STREAM_PRIORITIES.0);
    stream.set(STREAMS.add(Stream::open(context, flags, priority)).as_ptr())
}

/// Work that the stream still has is done nevertheless.
pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> Answer {
    current()?;
    if stream.addr() <= 2 {
        let text = "the null stream and a thread's own one are not destroyed";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let stream = STREAMS.remove(stream)?;
    capture::abandon(&stream);
    Ok(())
}

pub(crate) fn cuStreamGetFlags(stream: CUstream, flags: Out<u32>) -> Answer {
    flags.set(named(stream)?.1.flags)
}

/// Streams run on threads of the host here, which have no priorities among them.
pub(crate) fn cuStreamGetPriority(stream: CUstream, priority: Out<i32>) -> Answer {
    let (_, stream) = named(stream)?;
    priority.set(lock(&stream.attributes).priority)
}

pub(crate) fn cuStreamGetId(stream: CUstream, id: Out<u64>) -> Answer {
    id.set(named(stream)?.1.id)
}

pub(crate) fn cuStreamGetDevice(stream: CUstream, device: Out<CUdevice>) -> Answer {
    device.set(named(stream)?.0.gpu.ordinal)
}

pub(crate) fn cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>) -> Answer {
    context.set(named(stream)?.0.handle.as_ptr())
}

/// There are no green contexts, so it belongs to none.
pub(crate) fn cuStreamGetCtx_v2(
    stream: CUstream,
    context: Out<CUcontext>,
    green: Out<CUobject>,
) -> Answer {
    let (owner, _) = named(stream)?;
    context.set_if_wanted(owner.handle.as_ptr());
    green.set_if_wanted(std::ptr::null_mut());
    Ok(())
}

pub(crate) fn cuStreamQuery(stream: CUstream) -> Answer {
    let (context, stream) = named(stream)?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_unsafe_on(&context, &stream)?;
    let done = stream.tail().iter().all(Point::reached);
    context.check()?;
    if done { Ok(()) } else { Err(Failure::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuStreamSynchronize(stream: CUstream) -> Answer {
    let (context, stream) = named(stream)?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_unsafe_on(&context, &stream)?;
    context.wait(&stream.tail())
}
