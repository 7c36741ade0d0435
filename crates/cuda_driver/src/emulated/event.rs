//! Events: recorded in streams, to be queried, waited for, and used for timing.
#![allow(non_snake_case)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::capture::{self, Capture};
use super::current::{Context, current, from_handle};
use super::gpu::Gpu;
use super::operation::{NodeType, Operation};
use super::queue::{StreamQueue, SyncPoint, Task};
use super::registry::{Handle, Registry};
use super::{check_flags, invalid_value, lock, not_supported, stream};
use crate::abi::{CUcontext, CUevent, CUstream, Out};
use crate::codes::{
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
};
use crate::constants::event_flags::{BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS};
use crate::detail::{DriverError, DriverResult};

/// The wait becomes a node of a graph instead of a dependency.
const WAIT_EXTERNAL: u32 = 1;
/// The record becomes a node of a graph instead of a dependency.
const RECORD_EXTERNAL: u32 = 1;

/// An event.
struct Event {
    context: Handle,
    flags: u32,
    /// Its last record.
    last: Mutex<LastRecord>,
}

/// The last record of an event.
#[derive(Clone, Default)]
pub(super) enum LastRecord {
    #[default]
    Never,
    At(EventRecord),
    /// Recorded in a stream that is being captured, after these nodes.
    Captured(Arc<Capture>, Vec<Handle>),
}

/// A record in a stream.
#[derive(Clone)]
pub(super) struct EventRecord {
    point: SyncPoint,
    /// The time at which the stream reached it, once it has.
    time: Arc<OnceLock<Instant>>,
}

static EVENTS: Registry<Event> = Registry::new("event");

/// The number of live events.
pub(super) fn live() -> usize {
    EVENTS.count(|_| true)
}

/// Removes a context's events.
pub(super) fn forget(context: Handle) -> DriverResult {
    EVENTS.remove_where(|event| event.context == context);
    Ok(())
}

/// The last record of the event.
pub(super) fn last(event: CUevent) -> DriverResult<LastRecord> {
    Ok(lock(&EVENTS.get(event)?.last).clone())
}

/// Fails if there is no such event.
pub(super) fn check(event: CUevent) -> DriverResult<Handle> {
    EVENTS.get(event).map(|_| event.into())
}

/// Fails if there is no such event, or if it has timing enabled: a launch cannot record those.
pub(super) fn check_untimed(event: CUevent) -> DriverResult<Handle> {
    match EVENTS.get(event)?.flags & DISABLE_TIMING {
        0 => Err(not_supported("a launch can only record events with disabled timing (flag 2)")),
        _ => Ok(event.into()),
    }
}

/// The point at which the event was recorded last, if it was. Fails if that was in a capture.
fn recorded_point(event: CUevent) -> DriverResult<Option<SyncPoint>> {
    match last(event)? {
        LastRecord::Never => Ok(None),
        LastRecord::At(record) => Ok(Some(record.point)),
        LastRecord::Captured(capture, _) => {
            capture.invalidate();
            Err(captured())
        }
    }
}

fn captured() -> DriverError {
    DriverError::new(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")
}

pub(crate) fn cuEventCreate(event: Out<CUevent>, flags: u32) -> DriverResult {
    let context = current()?;
    check_flags(flags, BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS)?;
    if flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
        return Err(invalid_value(
            "an interprocess event needs the flag for disabled timing (2), too",
        ));
    }
    if flags & INTERPROCESS != 0 {
        return Err(not_supported("the emulator has no interprocess events"));
    }
    event.check()?;
    let made = Event { context: context.handle, flags, last: Mutex::default() };
    event.set(EVENTS.add(made).as_ptr())
}

pub(crate) fn cuEventDestroy_v2(event: CUevent) -> DriverResult {
    current()?;
    EVENTS.remove(event).map(drop)
}

pub(crate) fn cuEventRecord(event: CUevent, stream: CUstream) -> DriverResult {
    cuEventRecordWithFlags(event, stream, 0)
}

pub(crate) fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    check_flags(flags, RECORD_EXTERNAL)?;
    let found = EVENTS.get(event)?;
    if found.context != context.handle {
        let text = "the event and the stream belong to different contexts";
        return Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let capture = lock(&stream.capture).clone();
    match capture {
        Some(capture) if flags == 0 => {
            let nodes = capture.dependencies(&stream)?;
            *lock(&found.last) = LastRecord::Captured(capture, nodes);
            Ok(())
        }
        Some(_) => stream::enqueue(&context, &stream, Arc::new(RecordEvent(event.into()))),
        None if flags == RECORD_EXTERNAL => {
            Err(invalid_value("flag 1 is for a stream that is being captured"))
        }
        None => {
            capture::check_implicit(&context, &stream)?;
            record_on(event.into(), &context, stream.queue()).map(drop)
        }
    }
}

/// Records the event after all tasks of a queue.
pub(super) fn record_on(
    event: Handle,
    context: &Arc<Context>,
    queue: &StreamQueue,
) -> DriverResult<SyncPoint> {
    record_after(event, context, queue, Vec::new())
}

fn record_after(
    event: Handle,
    context: &Arc<Context>,
    queue: &StreamQueue,
    points: Vec<SyncPoint>,
) -> DriverResult<SyncPoint> {
    let event = EVENTS.get(event)?;
    let time = Arc::new(OnceLock::new());
    let set = time.clone();
    let task = Task::new(move || {
        let _ = set.set(Instant::now());
        Ok(())
    });
    let task = points.into_iter().fold(task, Task::after);
    // Locked until the record is stored, so that of two concurrent records the later one is kept.
    let mut last = lock(&event.last);
    let point = context.enqueue(queue, task)?;
    *last = LastRecord::At(EventRecord { point: point.clone(), time });
    Ok(point)
}

/// Records an event. As a graph node, for waits outside of the graph.
pub(super) struct RecordEvent(pub(super) Handle);

impl Operation for RecordEvent {
    fn node_type(&self) -> NodeType {
        NodeType::EventRecord
    }

    fn name(&self) -> String {
        "event record".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        Ok(())
    }

    fn enqueue(
        self: Arc<Self>,
        context: &Arc<Context>,
        queue: &StreamQueue,
    ) -> DriverResult<SyncPoint> {
        record_on(self.0, context, queue)
    }
}

/// Waits for the last record of an event at the time when this is enqueued. As a graph node, for an
/// event that is recorded outside of the graph.
pub(super) struct WaitEvent(pub(super) Handle);

impl Operation for WaitEvent {
    fn node_type(&self) -> NodeType {
        NodeType::WaitEvent
    }

    fn name(&self) -> String {
        "event wait".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        Ok(())
    }

    fn enqueue(
        self: Arc<Self>,
        context: &Arc<Context>,
        queue: &StreamQueue,
    ) -> DriverResult<SyncPoint> {
        let last = lock(&EVENTS.get(self.0)?.last).clone();
        let task = Task::new(|| Ok(()));
        let task = match last {
            LastRecord::At(record) => task.after(record.point),
            _ => task,
        };
        context.enqueue(queue, task)
    }
}

/// A wait for an event that was never recorded has no effect.
pub(crate) fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) -> DriverResult {
    let (context, stream) = stream::from_handle(stream)?;
    check_flags(flags, WAIT_EXTERNAL)?;
    match last(event)? {
        LastRecord::Captured(capture, nodes) => capture.join(&stream, &nodes),
        _ if stream.is_capturing() && flags == WAIT_EXTERNAL => {
            stream::enqueue(&context, &stream, Arc::new(WaitEvent(event.into())))
        }
        LastRecord::Never => Ok(()),
        LastRecord::At(_) => {
            capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)?;
            stream::enqueue(&context, &stream, Arc::new(WaitEvent(event.into())))
        }
    }
}

/// An event that was never recorded counts as reached.
pub(crate) fn cuEventQuery(event: CUevent) -> DriverResult {
    let context = current()?;
    let reached = recorded_point(event)?.is_none_or(|point| point.is_reached());
    capture::check_unsafe()?;
    context.check()?;
    if reached { Ok(()) } else { Err(DriverError::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuEventSynchronize(event: CUevent) -> DriverResult {
    let context = current()?;
    let point = recorded_point(event)?;
    capture::check_unsafe()?;
    context.wait(&Vec::from_iter(point))
}

pub(crate) fn cuEventElapsedTime(
    milliseconds: Out<f32>,
    start: CUevent,
    end: CUevent,
) -> DriverResult {
    let context = current()?;
    let (start, end) = (timed(start)?, timed(end)?);
    let reached = start.point.is_reached() && end.point.is_reached();
    context.check()?;
    match (reached, start.time.get(), end.time.get()) {
        (true, Some(start), Some(end)) => milliseconds.set(between(*start, *end)),
        _ => Err(DriverError::from(CUDA_ERROR_NOT_READY)),
    }
}

pub(crate) fn cuEventElapsedTime_v2(
    milliseconds: Out<f32>,
    start: CUevent,
    end: CUevent,
) -> DriverResult {
    cuEventElapsedTime(milliseconds, start, end)
}

/// Records an event after all tasks of a context.
pub(crate) fn cuCtxRecordEvent(context: CUcontext, event: CUevent) -> DriverResult {
    let context = from_handle(context)?;
    context.check()?;
    capture::check_context(&context)?;
    let points = context.streams.last_points();
    record_after(event.into(), &context, context.streams.null(), points).map(drop)
}

/// Makes all tasks that are enqueued in a context from now on wait for an event.
pub(crate) fn cuCtxWaitEvent(context: CUcontext, event: CUevent) -> DriverResult {
    let context = from_handle(context)?;
    context.check()?;
    capture::check_context(&context)?;
    context.streams.block_later_tasks_on(recorded_point(event)?);
    Ok(())
}

/// The last record of an event that has timing enabled.
fn timed(event: CUevent) -> DriverResult<EventRecord> {
    let found = EVENTS.get(event)?;
    if found.flags & DISABLE_TIMING != 0 {
        let text = "the event has timing disabled";
        return Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    match last(event)? {
        LastRecord::At(record) => Ok(record),
        LastRecord::Captured(..) => Err(captured()),
        LastRecord::Never => {
            Err(DriverError::new(CUDA_ERROR_INVALID_HANDLE, "the event was never recorded"))
        }
    }
}

/// Elapsed milliseconds; negative if the second event came first.
fn between(start: Instant, end: Instant) -> f32 {
    let milliseconds = |from: Instant, to: Instant| (to - from).as_secs_f32() * 1e3;
    if end >= start { milliseconds(start, end) } else { -milliseconds(end, start) }
}
