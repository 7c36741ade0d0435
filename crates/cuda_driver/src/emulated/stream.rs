//! Streams, as the API sees them; what they do is in `queue.rs`.
#![allow(non_snake_case)]

use std::cell::RefCell;
use std::sync::Arc;

use super::check_flags;
use super::context::{PRIORITIES, wait};
use super::current::{Context, current};
use super::event;
use super::queue::{Line, Point, Work};
use super::registry::{Handle, Registry};
use crate::abi::{CUcontext, CUevent, CUstream, Out};
use crate::codes::{CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY};
use crate::detail::{Answer, Failure};

/// The one flag of a stream: it keeps no order with the null stream.
const NON_BLOCKING: u32 = 1;

/// A stream.
pub(super) struct Stream {
    context: Arc<Context>,
    line: Arc<Line>,
    flags: u32,
    /// Streams run on threads of the host here, which have no priorities among them.
    priority: i32,
}

impl Stream {
    fn open(context: Arc<Context>, flags: u32, priority: i32) -> Self {
        let line = context.queue.open(flags & NON_BLOCKING == 0);
        Self { context, line, flags, priority }
    }

    /// What the work goes to.
    pub(super) fn line(&self) -> &Line {
        &self.line
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

/// Forgets a context's streams.
pub(super) fn forget(context: Handle) {
    STREAMS.remove_where(|stream| stream.context.handle == context);
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
    Stream { context, line, flags: 0, priority: PRIORITIES.0 }
}

fn per_thread(context: &Arc<Context>) -> Arc<Stream> {
    PER_THREAD.with_borrow_mut(|streams| {
        let known = streams.iter().find(|stream| stream.context.handle == context.handle);
        known.cloned().unwrap_or_else(|| {
            let stream = Arc::new(Stream::open(context.clone(), 0, PRIORITIES.0));
            streams.push(stream.clone());
            stream
        })
    })
}

pub(crate) fn cuStreamCreate(stream: Out<CUstream>, flags: u32) -> Answer {
    cuStreamCreateWithPriority(stream, flags, PRIORITIES.0)
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
    let priority = priority.clamp(PRIORITIES.1, PRIORITIES.0);
    stream.set(STREAMS.add(Stream::open(context, flags, priority)).as_ptr())
}

/// Work that the stream still has is done nevertheless.
pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> Answer {
    current()?;
    if stream.addr() <= 2 {
        let text = "the null stream and a thread's own one are not destroyed";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    STREAMS.remove(stream).map(drop)
}

pub(crate) fn cuStreamGetFlags(stream: CUstream, flags: Out<u32>) -> Answer {
    flags.set(named(stream)?.1.flags)
}

pub(crate) fn cuStreamGetPriority(stream: CUstream, priority: Out<i32>) -> Answer {
    priority.set(named(stream)?.1.priority)
}

pub(crate) fn cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>) -> Answer {
    context.set(named(stream)?.0.handle.as_ptr())
}

pub(crate) fn cuStreamQuery(stream: CUstream) -> Answer {
    let (context, stream) = named(stream)?;
    let done = stream.tail().iter().all(Point::reached);
    context.check()?;
    if done { Ok(()) } else { Err(Failure::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuStreamSynchronize(stream: CUstream) -> Answer {
    let (context, stream) = named(stream)?;
    wait(&context, &stream.tail())
}

/// An event that was never recorded makes nothing wait.
pub(crate) fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) -> Answer {
    let (context, stream) = named(stream)?;
    check_flags(flags, 0)?;
    let Some(point) = event::point(event)? else { return Ok(()) };
    let work = Work::new(|| Ok(())).after(point);
    context.queue.submit(&context, stream.line(), work).map(drop)
}
