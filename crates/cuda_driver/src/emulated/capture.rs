//! Stream captures: operations that are enqueued on captured streams become nodes of a graph.

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
use crate::abi::CUgraphNode;
use crate::codes::*;
use crate::constants::stream_capture_mode::{GLOBAL, RELAXED, THREAD_LOCAL};
use crate::detail::{DriverError, DriverResult};

/// Which threads a capture prohibits from making potentially unsafe calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CaptureMode {
    /// All threads.
    Global,
    /// The thread that began the capture.
    ThreadLocal,
    /// No thread.
    Relaxed,
}

impl CaptureMode {
    pub(super) fn parse(number: i32) -> DriverResult<Self> {
        match number {
            GLOBAL => Ok(Self::Global),
            THREAD_LOCAL => Ok(Self::ThreadLocal),
            RELAXED => Ok(Self::Relaxed),
            _ => Err(super::invalid_value(format!(
                "{number} is not a capture mode; there are 0 to 2"
            ))),
        }
    }
}

thread_local! {
    /// This thread's own capture mode.
    static MODE: Cell<CaptureMode> = const { Cell::new(CaptureMode::Global) };
}

/// Sets this thread's mode and returns the previous one.
pub(super) fn exchange_mode(mode: CaptureMode) -> CaptureMode {
    MODE.replace(mode)
}

/// The active captures of the process.
static ACTIVE: Mutex<Vec<Arc<Capture>>> = Mutex::new(Vec::new());

/// A capture. It begins on one stream, and other streams join it by waiting for events.
pub(super) struct Capture {
    pub(super) id: u64,
    pub(super) graph: Arc<Graph>,
    context: Handle,
    mode: CaptureMode,
    thread: ThreadId,
    /// The id of the stream on which it began.
    origin: u64,
    state: Mutex<State>,
}

struct State {
    invalid: bool,
    /// The nodes on which each stream's next node depends, by the stream's id.
    dependencies: BTreeMap<u64, Vec<Handle>>,
    /// The captured streams, which are released at the end.
    streams: Vec<Arc<Stream>>,
    /// The captured nodes, in order.
    nodes: Vec<Handle>,
    /// The list to which the program was given a pointer last.
    exposed: Vec<CUgraphNode>,
}

// SAFETY: the pointers in `exposed` are handles: numbers that are never dereferenced.
unsafe impl Send for State {}

fn failure(code: ResultCode, text: &str) -> DriverError {
    DriverError::new(code, text)
}

impl Capture {
    /// Begins a capture of `stream` into `graph`. The first captured node depends on
    /// `dependencies`.
    pub(super) fn begin(
        context: &Context,
        stream: &Arc<Stream>,
        graph: Arc<Graph>,
        dependencies: Vec<Handle>,
        mode: CaptureMode,
    ) -> DriverResult {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut stream_capture = lock(&stream.capture);
        if stream_capture.is_some() {
            let text = "the stream is being captured already";
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
                dependencies: [(stream.id, dependencies)].into(),
                streams: vec![stream.clone()],
                nodes: Vec::new(),
                exposed: Vec::new(),
            }),
        });
        lock(&ACTIVE).push(capture.clone());
        *stream_capture = Some(capture);
        Ok(())
    }

    fn valid(&self) -> DriverResult<MutexGuard<'_, State>> {
        let state = lock(&self.state);
        if state.invalid {
            let text = "an earlier error invalidated the capture; end it and begin a new one";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, text));
        }
        Ok(state)
    }

    /// Invalidates the capture: it can only be ended.
    pub(super) fn invalidate(&self) {
        lock(&self.state).invalid = true;
    }

    pub(super) fn is_valid(&self) -> bool {
        !lock(&self.state).invalid
    }

    /// Adds a node for an operation of `stream`, after the stream's earlier nodes.
    pub(super) fn add(&self, stream: &Stream, operation: SharedOperation) -> DriverResult<Handle> {
        let mut state = self.valid()?;
        let dependencies = state.dependencies.get(&stream.id).cloned().unwrap_or_default();
        let node = self.graph.add(operation, &dependencies)?;
        state.nodes.push(node);
        state.dependencies.insert(stream.id, vec![node]);
        Ok(node)
    }

    /// The nodes on which the stream's next node depends.
    pub(super) fn dependencies(&self, stream: &Stream) -> DriverResult<Vec<Handle>> {
        Ok(self.valid()?.dependencies.get(&stream.id).cloned().unwrap_or_default())
    }

    /// The nodes on which the stream's next node depends, as a list that is valid until the next
    /// call of this function.
    pub(super) fn expose_dependencies(&self, stream: &Stream) -> (*const CUgraphNode, usize) {
        let mut state = lock(&self.state);
        let dependencies = state.dependencies.get(&stream.id).cloned().unwrap_or_default();
        state.exposed = dependencies.into_iter().map(Handle::as_ptr).collect();
        (state.exposed.as_ptr(), state.exposed.len())
    }

    /// Sets the nodes on which the stream's next node depends, or adds to them.
    pub(super) fn set_dependencies(
        &self,
        stream: &Stream,
        nodes: &[Handle],
        add: bool,
    ) -> DriverResult {
        self.graph.check(nodes)?;
        let mut state = self.valid()?;
        let dependencies = state.dependencies.entry(stream.id).or_default();
        if !add {
            dependencies.clear();
        }
        merge(dependencies, nodes);
        Ok(())
    }

    /// Makes `stream` wait for an event that was recorded in this capture after `nodes`. A stream
    /// that is not captured yet joins the capture.
    pub(super) fn join(self: &Arc<Self>, stream: &Arc<Stream>, nodes: &[Handle]) -> DriverResult {
        let mut stream_capture = lock(&stream.capture);
        match &*stream_capture {
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
        if stream_capture.is_none() {
            state.streams.push(stream.clone());
            *stream_capture = Some(self.clone());
        }
        merge(state.dependencies.entry(stream.id).or_default(), nodes);
        Ok(())
    }

    /// Ends the capture of `stream`, and returns its graph.
    pub(super) fn end(stream: &Stream) -> DriverResult<Arc<Graph>> {
        let capture = lock(&stream.capture).clone();
        let Some(capture) = capture else {
            let text = "the stream is not being captured";
            return Err(failure(CUDA_ERROR_ILLEGAL_STATE, text));
        };
        if capture.origin != stream.id {
            capture.invalidate();
            let text = "the capture began on another stream, on which it must be ended";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, text));
        }
        if capture.mode != CaptureMode::Relaxed && capture.thread != thread::current().id() {
            let text = "another thread began the capture, whose mode is not relaxed";
            return Err(failure(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, text));
        }
        let whole = capture.valid().map(drop).and_then(|()| capture.check_joined());
        capture.detach_streams();
        whole.map(|()| capture.graph.clone())
    }

    /// Fails if a captured node is not an ancestor of the last nodes of the first stream.
    fn check_joined(&self) -> DriverResult {
        let state = lock(&self.state);
        let ends = state.dependencies.get(&self.origin).cloned().unwrap_or_default();
        let joined = self.graph.with_ancestors(&ends);
        match state.nodes.iter().all(|node| joined.contains(node)) {
            true => Ok(()),
            false => Err(failure(
                CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                "a stream that joined the capture has nodes that the first stream does not wait for",
            )),
        }
    }

    fn detach_streams(self: &Arc<Self>) {
        lock(&ACTIVE).retain(|active| !Arc::ptr_eq(active, self));
        let streams = std::mem::take(&mut lock(&self.state).streams);
        streams.iter().for_each(|stream| *lock(&stream.capture) = None);
    }

    /// Whether a captured stream synchronizes with the null stream.
    fn has_blocking_stream(&self) -> bool {
        lock(&self.state).streams.iter().any(|stream| stream.is_blocking())
    }
}

fn merge(dependencies: &mut Vec<Handle>, nodes: &[Handle]) {
    for node in nodes {
        if !dependencies.contains(node) {
            dependencies.push(*node);
        }
    }
}

fn implicit() -> DriverError {
    failure(
        CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
        "the null stream would have to wait for a stream that is being captured",
    )
}

/// The active captures for which `wanted` returns true.
fn active(predicate: impl Fn(&Capture) -> bool) -> Vec<Arc<Capture>> {
    lock(&ACTIVE).iter().filter(|capture| predicate(capture)).cloned().collect()
}

/// Invalidates `captures`, and fails with `refusal` if there are any.
fn forbid(captures: &[Arc<Capture>], refusal: impl FnOnce() -> DriverError) -> DriverResult {
    if captures.is_empty() {
        return Ok(());
    }
    captures.iter().for_each(|capture| capture.invalidate());
    Err(refusal())
}

fn unsupported() -> DriverError {
    failure(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "this call is not permitted during a capture")
}

/// Fails with `code` if the stream is being captured: the call cannot become a node.
pub(super) fn refuse(stream: &Stream, code: ResultCode) -> DriverResult {
    let capture = lock(&stream.capture).clone();
    forbid(&Vec::from_iter(capture), || failure(code, "the stream is being captured"))
}

/// Whether a captured stream of the context synchronizes with the null stream.
pub(super) fn blocks_null_stream(context: &Context) -> bool {
    !blocking(context).is_empty()
}

/// The context's captures of streams that synchronize with the null stream.
fn blocking(context: &Context) -> Vec<Arc<Capture>> {
    active(|capture| capture.context == context.handle && capture.has_blocking_stream())
}

/// Fails if `stream` is the null stream, and would have to wait for a captured stream.
pub(super) fn check_implicit(context: &Context, stream: &Stream) -> DriverResult {
    if stream.is_null() { check_null_stream(context) } else { Ok(()) }
}

/// Fails if the null stream would have to wait for a captured stream; for calls that use it
/// implicitly.
pub(super) fn check_null_stream(context: &Context) -> DriverResult {
    forbid(&blocking(context), implicit)
}

/// Fails if a stream of the context is being captured; for calls that would wait for it.
pub(super) fn check_context(context: &Context) -> DriverResult {
    forbid(&active(|capture| capture.context == context.handle), unsupported)
}

/// Fails if a capture prohibits this thread from making potentially unsafe calls: those that may
/// wait for other streams, as allocating and freeing does, those that query whether other streams
/// have finished, and those that configure the context. Which calls these are was determined with
/// driver 580 on an H200, call by call.
pub(super) fn check_unsafe() -> DriverResult {
    if lock(&ACTIVE).is_empty() {
        return Ok(());
    }
    let (mode, here) = (MODE.get(), thread::current().id());
    let forbids = |capture: &Capture| match mode {
        CaptureMode::Relaxed => false,
        CaptureMode::ThreadLocal => capture.thread == here && capture.mode != CaptureMode::Relaxed,
        CaptureMode::Global => {
            capture.mode == CaptureMode::Global
                || capture.thread == here && capture.mode != CaptureMode::Relaxed
        }
    };
    forbid(&active(forbids), unsupported)
}

/// Fails if a capture prohibits a potentially unsafe call on a stream that is not captured.
pub(super) fn check_unsafe_on(context: &Context, stream: &Stream) -> DriverResult {
    check_implicit(context, stream)?;
    check_unsafe()
}

/// Ends the capture that began on a destroyed stream. If the stream only joined a capture, its
/// nodes remain, and must be joined as before.
pub(super) fn abandon(stream: &Stream) {
    let Some(capture) = lock(&stream.capture).take() else { return };
    if capture.origin == stream.id {
        capture.invalidate();
        capture.detach_streams();
    } else {
        lock(&capture.state).streams.retain(|joined| joined.id != stream.id);
    }
}
