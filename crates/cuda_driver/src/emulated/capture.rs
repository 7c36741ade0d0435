//! Captures: what streams are given becomes a graph instead of being done.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};

use super::current::Context;
use super::graph::Graph;
use super::lock;
use super::operation::SharedOperation;
use super::registry::Handle;
use super::stream::Stream;
use crate::codes::*;
use crate::detail::{Answer, Failure};

/// How much a capture forbids to threads that could disturb it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// To all threads.
    Global,
    /// To the thread that captures.
    ThreadLocal,
    /// To nobody.
    Relaxed,
}

impl Mode {
    pub(super) fn parse(number: i32) -> Answer<Self> {
        match number {
            0 => Ok(Self::Global),
            1 => Ok(Self::ThreadLocal),
            2 => Ok(Self::Relaxed),
            _ => Err(super::invalid(format!("{number} is no capture mode; there are 0 to 2"))),
        }
    }
}

thread_local! {
    /// How far this thread lets captures forbid it something.
    static MODE: Cell<Mode> = const { Cell::new(Mode::Global) };
}

/// Sets this thread's mode; gives the one before.
pub(super) fn exchange_mode(mode: Mode) -> Mode {
    MODE.replace(mode)
}

/// The captures under way in the process.
static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

/// A capture. It begins with one stream, and others join it through events.
pub(super) struct Capture {
    pub(super) id: u64,
    pub(super) graph: Arc<Graph>,
    context: Handle,
    mode: Mode,
    thread: ThreadId,
    /// The stream that it began with, by its number.
    origin: u64,
    state: Mutex<State>,
}

struct State {
    invalid: bool,
    /// The nodes that each stream's next one depends on, by the stream's number.
    tips: BTreeMap<u64, Vec<Handle>>,
    /// The streams, so that they can be let go.
    streams: Vec<Arc<Stream>>,
    /// What was captured, in order.
    nodes: Vec<Handle>,
    /// The last list that the program was given a pointer to.
    shown: Vec<*mut std::ffi::c_void>,
}

// SAFETY: the pointers in `shown` are handles: numbers that nobody follows.
unsafe impl Send for State {}

fn failure(code: CUresult, text: &str) -> Failure {
    Failure::new(code, text)
}

impl Capture {
    /// Begins a capture of `stream` into `graph`, behind some of its nodes.
    pub(super) fn begin(
        context: &Context,
        stream: &Arc<Stream>,
        graph: Arc<Graph>,
        behind: Vec<Handle>,
        mode: Mode,
    ) -> Answer {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut place = lock(&stream.capture);
        if place.is_some() {
            let text = "the stream's work goes to a graph already";
            return Err(failure(CUDA_ERROR_ILLEGAL_STATE, text));
        }
        let capture = Arc::new(Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            graph,
            context: context.handle,
            mode,
            thread: thread::current().id(),
            origin: stream.id,
            state: Mutex::new(State {
                invalid: false,
                tips: [(stream.id, behind)].into(),
                streams: vec![stream.clone()],
                nodes: Vec::new(),
                shown: Vec::new(),
            }),
        });
        lock(&ACTIVE).push(capture.clone());
        *place = Some(capture);
        Ok(())
    }

    fn valid(&self) -> Answer<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.invalid {
            let text = "an earlier error ended the capture; end it and begin anew";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, text));
        }
        Ok(state)
    }

    /// Ends what can be captured; only the end is left to call.
    pub(super) fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    pub(super) fn is_valid(&self) -> bool {
        !lock(&self.state).invalid
    }

    /// A node for what `stream` is given, behind the stream's earlier ones.
    pub(super) fn add(&self, stream: &Stream, operation: SharedOperation) -> Answer<Handle> {
        let mut state = self.valid()?;
        let behind = state.tips.get(&stream.id).cloned().unwrap_or_default();
        let node = self.graph.add(operation, &behind)?;
        state.nodes.push(node);
        state.tips.insert(stream.id, vec![node]);
        Ok(node)
    }

    /// The nodes that the stream's next one depends on.
    pub(super) fn tips(&self, stream: &Stream) -> Answer<Vec<Handle>> {
        Ok(self.valid()?.tips.get(&stream.id).cloned().unwrap_or_default())
    }

    /// The same as a list that lives until the next call for this capture.
    pub(super) fn show_tips(&self, stream: &Stream) -> (*const *mut std::ffi::c_void, usize) {
        let mut state = lock(&self.state);
        let tips = state.tips.get(&stream.id).cloned().unwrap_or_default();
        state.shown = tips.into_iter().map(Handle::as_ptr).collect();
        (state.shown.as_ptr(), state.shown.len())
    }

    /// Sets the nodes that the stream's next one depends on, or adds to them.
    pub(super) fn set_tips(&self, stream: &Stream, nodes: &[Handle], add: bool) -> Answer {
        self.graph.check(nodes)?;
        let mut state = self.valid()?;
        let tips = state.tips.entry(stream.id).or_default();
        if !add {
            tips.clear();
        }
        merge(tips, nodes);
        Ok(())
    }

    /// Makes `stream` wait for nodes of this capture, as an event says that was recorded in it. A
    /// stream that captures nothing yet joins.
    pub(super) fn join(self: &Arc<Self>, stream: &Arc<Stream>, nodes: &[Handle]) -> Answer {
        let mut place = lock(&stream.capture);
        match &*place {
            Some(other) if !Arc::ptr_eq(other, self) => {
                other.invalidate();
                self.invalidate();
                let text = "the event and the stream belong to two captures";
                return Err(failure(CUDA_ERROR_STREAM_CAPTURE_MERGE, text));
            }
            None if stream.is_null() => {
                self.invalidate();
                return Err(implicit());
            }
            None if !lock(&ACTIVE).iter().any(|active| Arc::ptr_eq(active, self)) => {
                let text = "the event was recorded in a capture that has ended";
                return Err(failure(CUDA_ERROR_CAPTURED_EVENT, text));
            }
            _ => {}
        }
        let mut state = self.valid()?;
        if place.is_none() {
            state.streams.push(stream.clone());
            *place = Some(self.clone());
        }
        merge(state.tips.entry(stream.id).or_default(), nodes);
        Ok(())
    }

    /// Ends the capture that `stream` takes part in; gives its graph.
    pub(super) fn end(stream: &Stream) -> Answer<Arc<Graph>> {
        let capture = lock(&stream.capture).clone();
        let Some(capture) = capture else {
            let text = "the stream's work goes to no graph";
            return Err(failure(CUDA_ERROR_ILLEGAL_STATE, text));
        };
        if capture.origin != stream.id {
            capture.invalidate();
            let text = "the capture began with another stream, which has to end it";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, text));
        }
        if capture.mode != Mode::Relaxed && capture.thread != thread::current().id() {
            let text = "another thread began the capture, in a mode that is not relaxed";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, text));
        }
        let whole = capture.valid().map(drop).and_then(|()| capture.check_joined());
        capture.let_go();
        whole.map(|()| capture.graph.clone())
    }

    /// Fails where a node was captured that nothing which the first stream waits for comes after.
    fn check_joined(&self) -> Answer {
        let state = lock(&self.state);
        let ends = state.tips.get(&self.origin).cloned().unwrap_or_default();
        let joined = self.graph.with_ancestors(&ends);
        match state.nodes.iter().all(|node| joined.contains(node)) {
            true => Ok(()),
            false => Err(failure(
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                "a stream that joined the capture has work that the first stream does not wait for",
            )),
        }
    }

    fn let_go(self: &Arc<Self>) {
        lock(&ACTIVE).retain(|active| !Arc::ptr_eq(active, self));
        let streams = std::mem::take(&mut lock(&self.state).streams);
        streams.iter().for_each(|stream| *lock(&stream.capture) = None);
    }

    /// Whether a stream takes part that keeps order with the null stream.
    fn has_blocking_stream(&self) -> bool {
        lock(&self.state).streams.iter().any(|stream| stream.is_blocking())
    }
}

fn merge(tips: &mut Vec<Handle>, nodes: &[Handle]) {
    for node in nodes {
        if !tips.contains(node) {
            tips.push(*node);
        }
    }
}

fn implicit() -> Failure {
    failure(
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        "the null stream would have to wait for a stream whose work goes to a graph",
    )
}

/// The captures of which `wanted` says so.
fn active(wanted: impl Fn(&Capture) -> bool) -> Vec<Arc<Capture>> {
    lock(&ACTIVE).iter().filter(|capture| wanted(capture)).cloned().collect()
}

/// Fails with `refusal` where there are such captures, and invalidates them.
fn forbid(captures: &[Arc<Capture>], refusal: impl FnOnce() -> Failure) -> Answer {
    if captures.is_empty() {
        return Ok(());
    }
    captures.iter().for_each(|capture| capture.invalidate());
    Err(refusal())
}

fn unsupported() -> Failure {
    failure(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "this is not possible during a capture")
}

/// Fails with `code` where the stream's work goes to a graph: the call cannot become a node.
pub(super) fn refuse(stream: &Stream, code: CUresult) -> Answer {
    let capture = lock(&stream.capture).clone();
    forbid(&Vec::from_iter(capture), || failure(code, "the stream's work goes to a graph"))
}

/// Whether a stream of the context is captured that keeps order with the null stream.
pub(super) fn blocks_null_stream(context: &Context) -> bool {
    !blocking(context).is_empty()
}

/// The context's captures of streams that keep order with the null stream.
fn blocking(context: &Context) -> Vec<Arc<Capture>> {
    active(|capture| capture.context == context.handle && capture.has_blocking_stream())
}

/// Fails where work for the null stream would have to wait for a stream that is captured.
pub(super) fn check_implicit(context: &Context, stream: &Stream) -> Answer {
    if stream.is_null() { check_null_stream(context) } else { Ok(()) }
}

/// The same for calls that work on the null stream without naming it.
pub(super) fn check_null_stream(context: &Context) -> Answer {
    forbid(&blocking(context), implicit)
}

/// Fails where the call would wait for a stream of the context that is captured.
pub(super) fn check_context(context: &Context) -> Answer {
    forbid(&active(|capture| capture.context == context.handle), unsupported)
}

/// Fails where a capture forbids this thread calls that may disturb it: those that may wait for other streams, as
/// those that allocate and free do, those that ask whether others have done their work, and those that set up the
/// context. Which these are was asked of driver 580 on an H200, call by call.
pub(super) fn check_unsafe() -> Answer {
    if lock(&ACTIVE).is_empty() {
        return Ok(());
    }
    let (mode, here) = (MODE.get(), thread::current().id());
    let forbids = |capture: &Capture| match mode {
        Mode::Relaxed => false,
        Mode::ThreadLocal => capture.thread == here && capture.mode != Mode::Relaxed,
        Mode::Global => {
            capture.mode == Mode::Global || capture.thread == here && capture.mode != Mode::Relaxed
        }
    };
    forbid(&active(forbids), unsupported)
}

/// The same for such a call on a stream that is not captured.
pub(super) fn check_unsafe_on(context: &Context, stream: &Stream) -> Answer {
    check_implicit(context, stream)?;
    check_unsafe()
}

/// Ends the capture that a destroyed stream began. One that it only joined keeps what it captured, which has to be
/// joined as before.
pub(super) fn abandon(stream: &Stream) {
    let Some(capture) = lock(&stream.capture).take() else { return };
    if capture.origin == stream.id {
        capture.invalidate();
        capture.let_go();
    } else {
        lock(&capture.state).streams.retain(|joined| joined.id != stream.id);
    }
}
