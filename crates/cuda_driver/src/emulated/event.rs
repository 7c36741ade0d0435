//! Events: marks in a stream, to ask about, to wait for, and to tell the time by.
#![allow(non_snake_case)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::capture::{self, Capture};
use super::current::{Context, current, named};
use super::gpu::Gpu;
use super::operation::Operation;
use super::queue::{Line, Point, Work};
use super::registry::{Handle, Registry};
use super::{check_flags, invalid, lacking, lock, stream};
use crate::abi::{CUcontext, CUevent, CUstream, Out};
use crate::codes::{
    CUDA_ERROR_CAPTURED_EVENT, CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY,
    CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
};
use crate::detail::{Answer, Failure};

/// A waiting thread sleeps; it always does here.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;
/// The wait becomes a node of a graph instead of a dependency.
const WAIT_EXTERNAL: u32 = 1;
/// The record becomes a node of a graph instead of a dependency.
const RECORD_EXTERNAL: u32 = 1;

/// An event.
struct Event {
    context: Handle,
    flags: u32,
    /// Where it was recorded last.
    last: Mutex<Last>,
}

/// Where an event was recorded last.
#[derive(Clone, Default)]
pub(super) enum Last {
    #[default]
    Never,
    At(Record),
    /// In a stream whose work goes to a graph, behind these nodes.
    Captured(Arc<Capture>, Vec<Handle>),
}

/// A place in a stream.
#[derive(Clone)]
pub(super) struct Record {
    point: Point,
    /// Set when the stream came there.
    time: Arc<OnceLock<Instant>>,
}

static EVENTS: Registry<Event> = Registry::new("event");

/// How many the program has made, and not ended.
pub(super) fn live() -> usize {
    EVENTS.count(|_| true)
}

/// Forgets a context's events.
pub(super) fn forget(context: Handle) -> Answer {
    EVENTS.remove_where(|event| event.context == context);
    Ok(())
}

/// Where the event was recorded last.
pub(super) fn last(event: CUevent) -> Answer<Last> {
    Ok(lock(&EVENTS.get(event)?.last).clone())
}

/// Fails unless there is such an event.
pub(super) fn check(event: CUevent) -> Answer<Handle> {
    EVENTS.get(event).map(|_| event.into())
}

/// Fails unless there is such an event, which keeps no time: a launch can only record those.
pub(super) fn check_untimed(event: CUevent) -> Answer<Handle> {
    match EVENTS.get(event)?.flags & DISABLE_TIMING {
        0 => Err(lacking("a launch records events that were made without timing (flag 2)")),
        _ => Ok(event.into()),
    }
}

/// Where a stream of the host's program recorded it, if ever.
fn point(event: CUevent) -> Answer<Option<Point>> {
    match last(event)? {
        Last::Never => Ok(None),
        Last::At(record) => Ok(Some(record.point)),
        Last::Captured(capture, _) => {
            capture.invalidate();
            Err(captured())
        }
    }
}

fn captured() -> Failure {
    Failure::new(CUDA_ERROR_CAPTURED_EVENT, "the event was last recorded in a capture")
}

pub(crate) fn cuEventCreate(event: Out<CUevent>, flags: u32) -> Answer {
    let context = current()?;
    check_flags(flags, BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS)?;
    if flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
        return Err(invalid("an event between processes keeps no time; it needs flag 2 too"));
    }
    if flags & INTERPROCESS != 0 {
        return Err(lacking("the emulator's events stay in one process"));
    }
    event.check()?;
    let made = Event { context: context.handle, flags, last: Mutex::default() };
    event.set(EVENTS.add(made).as_ptr())
}

pub(crate) fn cuEventDestroy_v2(event: CUevent) -> Answer {
    current()?;
    EVENTS.remove(event).map(drop)
}

pub(crate) fn cuEventRecord(event: CUevent, stream: CUstream) -> Answer {
    cuEventRecordWithFlags(event, stream, 0)
}

pub(crate) fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) -> Answer {
    let (context, stream) = stream::named(stream)?;
    check_flags(flags, RECORD_EXTERNAL)?;
    let found = EVENTS.get(event)?;
    if found.context != context.handle {
        let text = "the event and the stream belong to different contexts";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let capture = lock(&stream.capture).clone();
    match capture {
        Some(capture) if flags == 0 => {
            let nodes = capture.tips(&stream)?;
            *lock(&found.last) = Last::Captured(capture, nodes);
            Ok(())
        }
        Some(_) => stream::enqueue(&context, &stream, Arc::new(RecordEvent(event.into()))),
        None if flags == RECORD_EXTERNAL => {
            Err(invalid("flag 1 is for a stream whose work goes to a graph"))
        }
        None => {
            capture::check_implicit(&context, &stream)?;
            record_on(event.into(), &context, stream.line()).map(drop)
        }
    }
}

/// Records the event behind what a line has to do.
pub(super) fn record_on(event: Handle, context: &Arc<Context>, line: &Line) -> Answer<Point> {
    record_behind(event, context, line, Vec::new())
}

fn record_behind(
    event: Handle,
    context: &Arc<Context>,
    line: &Line,
    points: Vec<Point>,
) -> Answer<Point> {
    let event = EVENTS.get(event)?;
    let time = Arc::new(OnceLock::new());
    let set = time.clone();
    let work = Work::new(move || {
        let _ = set.set(Instant::now());
        Ok(())
    });
    let work = points.into_iter().fold(work, Work::after);
    // Locked until the record is there, so that two threads that record at once agree on the last.
    let mut last = lock(&event.last);
    let point = context.submit(line, work)?;
    *last = Last::At(Record { point: point.clone(), time });
    Ok(point)
}

/// Records an event; as a node of a graph, for waits outside of the graph.
pub(super) struct RecordEvent(pub(super) Handle);

impl Operation for RecordEvent {
    fn node_type(&self) -> i32 {
        7
    }

    fn name(&self) -> String {
        "event record".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        Ok(())
    }

    fn submit(self: Arc<Self>, context: &Arc<Context>, line: &Line) -> Answer<Point> {
        record_on(self.0, context, line)
    }
}

/// Waits for an event as it stands when this is enqueued; as a node of a graph, for one that is
/// recorded outside of the graph.
pub(super) struct WaitEvent(pub(super) Handle);

impl Operation for WaitEvent {
    fn node_type(&self) -> i32 {
        6
    }

    fn name(&self) -> String {
        "event wait".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        Ok(())
    }

    fn submit(self: Arc<Self>, context: &Arc<Context>, line: &Line) -> Answer<Point> {
        let last = lock(&EVENTS.get(self.0)?.last).clone();
        let work = Work::new(|| Ok(()));
        let work = match last {
            Last::At(record) => work.after(record.point),
            _ => work,
        };
        context.submit(line, work)
    }
}

/// An event that was never recorded makes nothing wait.
pub(crate) fn cuStreamWaitEvent(stream: CUstream, event: CUevent, flags: u32) -> Answer {
    let (context, stream) = stream::named(stream)?;
    check_flags(flags, WAIT_EXTERNAL)?;
    match last(event)? {
        Last::Captured(capture, nodes) => capture.join(&stream, &nodes),
        _ if stream.is_capturing() && flags == WAIT_EXTERNAL => {
            stream::enqueue(&context, &stream, Arc::new(WaitEvent(event.into())))
        }
        Last::Never => Ok(()),
        Last::At(_) => {
            capture::refuse(&stream, CUDA_ERROR_STREAM_CAPTURE_ISOLATION)?;
            stream::enqueue(&context, &stream, Arc::new(WaitEvent(event.into())))
        }
    }
}

/// An event that was never recorded counts as reached.
pub(crate) fn cuEventQuery(event: CUevent) -> Answer {
    let context = current()?;
    let reached = point(event)?.is_none_or(|point| point.reached());
    capture::check_unsafe()?;
    context.check()?;
    if reached { Ok(()) } else { Err(Failure::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuEventSynchronize(event: CUevent) -> Answer {
    let context = current()?;
    let point = point(event)?;
    capture::check_unsafe()?;
    context.wait(&Vec::from_iter(point))
}

pub(crate) fn cuEventElapsedTime(milliseconds: Out<f32>, start: CUevent, end: CUevent) -> Answer {
    let context = current()?;
    let (start, end) = (timed(start)?, timed(end)?);
    let reached = start.point.reached() && end.point.reached();
    context.check()?;
    match (reached, start.time.get(), end.time.get()) {
        (true, Some(start), Some(end)) => milliseconds.set(between(*start, *end)),
        _ => Err(Failure::from(CUDA_ERROR_NOT_READY)),
    }
}

pub(crate) fn cuEventElapsedTime_v2(
    milliseconds: Out<f32>,
    start: CUevent,
    end: CUevent,
) -> Answer {
    cuEventElapsedTime(milliseconds, start, end)
}

/// Records an event behind all that a context has to do.
pub(crate) fn cuCtxRecordEvent(context: CUcontext, event: CUevent) -> Answer {
    let context = named(context)?;
    context.check()?;
    capture::check_context(&context)?;
    let points = context.queue.all();
    record_behind(event.into(), &context, context.queue.null(), points).map(drop)
}

/// Makes all that a context is given from here on wait for an event.
pub(crate) fn cuCtxWaitEvent(context: CUcontext, event: CUevent) -> Answer {
    let context = named(context)?;
    context.check()?;
    capture::check_context(&context)?;
    context.queue.hold(point(event)?);
    Ok(())
}

/// The record of an event that keeps time.
fn timed(event: CUevent) -> Answer<Record> {
    let found = EVENTS.get(event)?;
    if found.flags & DISABLE_TIMING != 0 {
        let text = "the event was made without timing";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    match last(event)? {
        Last::At(record) => Ok(record),
        Last::Captured(..) => Err(captured()),
        Last::Never => Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, "the event was never recorded")),
    }
}

/// Milliseconds; negative where the second event came first.
fn between(start: Instant, end: Instant) -> f32 {
    let milliseconds = |from: Instant, to: Instant| (to - from).as_secs_f32() * 1e3;
    if end >= start { milliseconds(start, end) } else { -milliseconds(end, start) }
}
