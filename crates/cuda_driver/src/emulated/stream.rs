//! The stream functions of the API. How streams execute their tasks is in `queue.rs`.
#![allow(non_snake_case)]

use std::cell::RefCell;
use std::sync::{Arc, Mutex};

use super::capture::{self, Capture};
use super::check_flags;
use super::current::{Context, current};
use super::device_attributes::STREAM_PRIORITIES;
use super::lock;
use super::operation::SharedOperation;
use super::queue::{StreamQueue, SyncPoint};
use super::registry::{Handle, Registry};
use super::stream_settings::StreamSettings;
use crate::abi::{CUcontext, CUdevice, CUobject, CUstream, Out};
use crate::codes::{
    CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
};
use crate::constants::stream_flags::NON_BLOCKING;
use crate::detail::{DriverError, DriverResult};

/// A stream.
pub(super) struct Stream {
    context: Arc<Context>,
    queue: Arc<StreamQueue>,
    flags: u32,
    /// Unique among the streams of the process.
    pub(super) id: u64,
    pub(super) attributes: Mutex<StreamSettings>,
    pub(super) capture: Mutex<Option<Arc<Capture>>>,
    is_null: bool,
}

impl Stream {
    fn open(context: Arc<Context>, flags: u32, priority: i32) -> Self {
        let queue = context.streams.open_queue(flags & NON_BLOCKING == 0);
        Self::over(context, queue, flags, priority)
    }

    fn over(context: Arc<Context>, queue: Arc<StreamQueue>, flags: u32, priority: i32) -> Self {
        Self {
            id: queue.id(),
            context,
            queue,
            flags,
            attributes: Mutex::new(StreamSettings::new(priority)),
            capture: Mutex::default(),
            is_null: false,
        }
    }

    /// The queue of the stream's tasks.
    pub(super) fn queue(&self) -> &StreamQueue {
        &self.queue
    }

    pub(super) fn is_null(&self) -> bool {
        self.is_null
    }

    /// Whether it synchronizes with the null stream.
    pub(super) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }

    /// Whether it is being captured into a graph.
    pub(super) fn is_capturing(&self) -> bool {
        lock(&self.capture).is_some()
    }

    fn tail(&self) -> Vec<SyncPoint> {
        self.context.streams.points_to_synchronize(&self.queue)
    }
}

static STREAMS: Registry<Stream> = Registry::new("stream");

thread_local! {
    /// This thread's default stream in each context in which the thread has used it.
    static PER_THREAD: RefCell<Vec<Arc<Stream>>> = const { RefCell::new(Vec::new()) };
}

/// The number of live streams.
pub(super) fn live() -> usize {
    STREAMS.count(|_| true)
}

/// Removes a context's streams.
pub(super) fn forget(context: Handle) -> DriverResult {
    STREAMS.remove_where(|stream| stream.context.handle == context);
    Ok(())
}

/// The stream of this handle with its context. Fails if the device is lost.
pub(super) fn from_handle(handle: CUstream) -> DriverResult<(Arc<Context>, Arc<Stream>)> {
    let current = current()?;
    let stream = match handle.addr() {
        // Null, and `CU_STREAM_LEGACY`.
        0 | 1 => Arc::new(null(current)),
        2 => per_thread(&current),
        _ => STREAMS.get(handle)?,
    };
    stream.context.check()?;
    Ok((stream.context.clone(), stream))
}

fn null(context: Arc<Context>) -> Stream {
    let queue = context.streams.null().clone();
    let stream = Stream::over(context, queue, 0, STREAM_PRIORITIES.0);
    Stream { id: 1, is_null: true, ..stream }
}

fn per_thread(context: &Arc<Context>) -> Arc<Stream> {
    PER_THREAD.with_borrow_mut(|streams| {
        let existing = streams.iter().find(|stream| stream.context.handle == context.handle);
        existing.cloned().unwrap_or_else(|| {
            let stream = Arc::new(Stream::open(context.clone(), 0, STREAM_PRIORITIES.0));
            streams.push(stream.clone());
            stream
        })
    })
}

/// Enqueues an operation on a stream, or adds it to the graph into which the stream is captured.
pub(super) fn enqueue(
    context: &Arc<Context>,
    stream: &Arc<Stream>,
    operation: SharedOperation,
) -> DriverResult {
    let capture = lock(&stream.capture).clone();
    match capture {
        Some(capture) => capture.add(stream, operation).map(drop),
        None => {
            capture::check_implicit(context, stream)?;
            operation.enqueue(context, stream.queue()).map(drop)
        }
    }
}

pub(crate) fn cuStreamCreate(stream: Out<CUstream>, flags: u32) -> DriverResult {
    cuStreamCreateWithPriority(stream, flags, STREAM_PRIORITIES.0)
}

/// A priority outside of the range is clamped to it.
pub(crate) fn cuStreamCreateWithPriority(
    stream: Out<CUstream>,
    flags: u32,
    priority: i32,
) -> DriverResult {
    let context = current()?;
    check_flags(flags, NON_BLOCKING)?;
    stream.check()?;
    let priority = priority.clamp(STREAM_PRIORITIES.1, STREAM_PRIORITIES.0);
    stream.set(STREAMS.add(Stream::open(context, flags, priority)).as_ptr())
}

/// Pending tasks of the stream are still executed.
pub(crate) fn cuStreamDestroy_v2(stream: CUstream) -> DriverResult {
    current()?;
    if stream.addr() <= 2 {
        let text = "the null stream and a thread's default stream cannot be destroyed";
        return Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let stream = STREAMS.remove(stream)?;
    capture::abandon(&stream);
    Ok(())
}

pub(crate) fn cuStreamGetFlags(stream: CUstream, flags: Out<u32>) -> DriverResult {
    flags.set(from_handle(stream)?.1.flags)
}

/// Priorities have no effect: emulated streams run on ordinary threads of the host.
pub(crate) fn cuStreamGetPriority(stream: CUstream, priority: Out<i32>) -> DriverResult {
    let (_, stream) = from_handle(stream)?;
    priority.set(lock(&stream.attributes).priority)
}

pub(crate) fn cuStreamGetId(stream: CUstream, id: Out<u64>) -> DriverResult {
    id.set(from_handle(stream)?.1.id)
}

pub(crate) fn cuStreamGetDevice(stream: CUstream, device: Out<CUdevice>) -> DriverResult {
    device.set(from_handle(stream)?.0.gpu.ordinal)
}

pub(crate) fn cuStreamGetCtx(stream: CUstream, context: Out<CUcontext>) -> DriverResult {
    context.set(from_handle(stream)?.0.handle.as_ptr())
}

/// The emulator has no green contexts.
pub(crate) fn cuStreamGetCtx_v2(
    stream: CUstream,
    context: Out<CUcontext>,
    green: Out<CUobject>,
) -> DriverResult {
    let (owner, _) = from_handle(stream)?;
    context.set_if_wanted(owner.handle.as_ptr());
    green.set_if_wanted(std::ptr::null_mut());
    Ok(())
}

pub(crate) fn cuStreamQuery(stream: CUstream) -> DriverResult {
    let (context, stream) = from_handle(stream)?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_unsafe_on(&context, &stream)?;
    let done = stream.tail().iter().all(SyncPoint::is_reached);
    context.check()?;
    if done { Ok(()) } else { Err(DriverError::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuStreamSynchronize(stream: CUstream) -> DriverResult {
    let (context, stream) = from_handle(stream)?;
    capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_unsafe_on(&context, &stream)?;
    context.wait(&stream.tail())
}
