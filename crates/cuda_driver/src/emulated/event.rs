//! Events: marks in a stream, to ask about, to wait for, and to tell the time by.
#![allow(non_snake_case)]

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;

use super::context::wait;
use super::current::current;
use super::queue::{Point, Work};
use super::registry::{Handle, Registry};
use super::{check_flags, invalid, lock, stream};
use crate::abi::{CUevent, CUstream, Out};
use crate::codes::{CUDA_ERROR_INVALID_HANDLE, CUDA_ERROR_NOT_READY, CUDA_ERROR_NOT_SUPPORTED};
use crate::detail::{Answer, Failure};

/// A waiting thread sleeps; it always does here.
const BLOCKING_SYNC: u32 = 1;
const DISABLE_TIMING: u32 = 2;
const INTERPROCESS: u32 = 4;

/// An event.
struct Event {
    context: Handle,
    flags: u32,
    /// Where it was recorded last.
    record: Mutex<Option<Record>>,
}

#[derive(Clone)]
struct Record {
    point: Point,
    /// Set when the stream came there.
    time: Arc<OnceLock<Instant>>,
}

static EVENTS: Registry<Event> = Registry::new("event");

/// Forgets a context's events.
pub(super) fn forget(context: Handle) {
    EVENTS.remove_where(|event| event.context == context);
}

/// Where the event was recorded last, if ever.
pub(super) fn point(event: CUevent) -> Answer<Option<Point>> {
    Ok(record(&*EVENTS.get(event)?).map(|record| record.point))
}

fn record(event: &Event) -> Option<Record> {
    lock(&event.record).clone()
}

pub(crate) fn cuEventCreate(event: Out<CUevent>, flags: u32) -> Answer {
    let context = current()?;
    check_flags(flags, BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS)?;
    if flags & INTERPROCESS != 0 && flags & DISABLE_TIMING == 0 {
        return Err(invalid("an event between processes keeps no time; it needs flag 2 too"));
    }
    if flags & INTERPROCESS != 0 {
        let text = "the emulator's events stay in one process";
        return Err(Failure::new(CUDA_ERROR_NOT_SUPPORTED, text));
    }
    event.check()?;
    let made = Event { context: context.handle, flags, record: Mutex::default() };
    event.set(EVENTS.add(made).as_ptr())
}

pub(crate) fn cuEventDestroy_v2(event: CUevent) -> Answer {
    current()?;
    EVENTS.remove(event).map(drop)
}

pub(crate) fn cuEventRecord(event: CUevent, stream: CUstream) -> Answer {
    let (context, stream) = stream::named(stream)?;
    let event = EVENTS.get(event)?;
    if event.context != context.handle {
        let text = "the event and the stream belong to different contexts";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    let time = Arc::new(OnceLock::new());
    let set = time.clone();
    let work = Work::new(move || {
        let _ = set.set(Instant::now());
        Ok(())
    });
    // Locked until the record is there, so that two threads that record at once agree on the last.
    let mut record = lock(&event.record);
    let point = context.queue.submit(&context, stream.line(), work)?;
    *record = Some(Record { point, time });
    Ok(())
}

/// The one flag is for records that a graph captures.
pub(crate) fn cuEventRecordWithFlags(event: CUevent, stream: CUstream, flags: u32) -> Answer {
    check_flags(flags, 0)?;
    cuEventRecord(event, stream)
}

/// An event that was never recorded counts as reached.
pub(crate) fn cuEventQuery(event: CUevent) -> Answer {
    let context = current()?;
    let reached = point(event)?.is_none_or(|point| point.reached());
    context.check()?;
    if reached { Ok(()) } else { Err(Failure::from(CUDA_ERROR_NOT_READY)) }
}

pub(crate) fn cuEventSynchronize(event: CUevent) -> Answer {
    let context = current()?;
    wait(&context, &Vec::from_iter(point(event)?))
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

/// The record of an event that keeps time.
fn timed(event: CUevent) -> Answer<Record> {
    let event = EVENTS.get(event)?;
    if event.flags & DISABLE_TIMING != 0 {
        let text = "the event was made without timing";
        return Err(Failure::new(CUDA_ERROR_INVALID_HANDLE, text));
    }
    record(&event)
        .ok_or_else(|| Failure::new(CUDA_ERROR_INVALID_HANDLE, "the event was never recorded"))
}

/// Milliseconds; negative where the second event came first.
fn between(start: Instant, end: Instant) -> f32 {
    let milliseconds = |from: Instant, to: Instant| (to - from).as_secs_f32() * 1e3;
    if end >= start { milliseconds(start, end) } else { -milliseconds(end, start) }
}
