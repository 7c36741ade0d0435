//! The stream capture functions of the API. How captures work is in `capture.rs`.
#![allow(non_snake_case)]

use super::capture::{self, Capture, CaptureMode};
use super::graph::{self, Graph};
use super::registry::Handle;
use super::{check_flags, lock, stream};
use crate::abi::{CUgraph, CUgraphNode, CUstream, In, Out};
use crate::codes::{
    CUDA_ERROR_ILLEGAL_STATE, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
    CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
};
use crate::constants::stream_capture_status::{ACTIVE, INVALIDATED, NONE};
use crate::detail::{DriverError, DriverResult};

/// Replace the dependencies of the stream's next node, rather than adding to them.
const SET: u32 = 1;

/// The first version of the function has no mode argument and uses the strictest mode.
pub(crate) fn cuStreamBeginCapture(stream: CUstream) -> DriverResult {
    cuStreamBeginCapture_v2(stream, 0)
}

pub(crate) fn cuStreamBeginCapture_v2(stream: CUstream, mode: i32) -> DriverResult {
    begin(stream, Graph::create, &[], mode)
}

pub(crate) fn cuStreamBeginCaptureToGraph(
    stream: CUstream,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    edges: In<u64>,
    n_dependencies: usize,
    mode: i32,
) -> DriverResult {
    let graph = graph::from_handle(graph)?;
    let dependencies = graph::list(dependencies, n_dependencies)?;
    graph::check_edges(edges, n_dependencies)?;
    graph.check(&dependencies)?;
    begin(stream, || graph, &dependencies, mode)
}

fn begin(
    stream: CUstream,
    graph: impl FnOnce() -> std::sync::Arc<Graph>,
    dependencies: &[Handle],
    mode: i32,
) -> DriverResult {
    let mode = CaptureMode::parse(mode)?;
    let (context, stream) = stream::from_handle(stream)?;
    if stream.is_null() {
        let text = "the null stream cannot be captured";
        return Err(DriverError::new(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, text));
    }
    if stream.is_capturing() {
        let text = "the stream is being captured already";
        return Err(DriverError::new(CUDA_ERROR_ILLEGAL_STATE, text));
    }
    Capture::begin(&context, &stream, graph(), dependencies.to_vec(), mode)
}

pub(crate) fn cuStreamEndCapture(stream: CUstream, graph: Out<CUgraph>) -> DriverResult {
    let (_, stream) = stream::from_handle(stream)?;
    graph.set_if_wanted(std::ptr::null_mut());
    let made = Capture::end(&stream)?;
    graph.set_if_wanted(made.handle.as_ptr());
    Ok(())
}

/// The stream of a handle and its capture. For the null stream that is an error while a stream that
/// synchronizes with it is captured.
fn of(
    stream: CUstream,
) -> DriverResult<(std::sync::Arc<stream::Stream>, Option<std::sync::Arc<Capture>>)> {
    let (context, stream) = stream::from_handle(stream)?;
    if stream.is_null() && capture::blocks_null_stream(&context) {
        let text = "a stream that synchronizes with the null stream is being captured";
        return Err(DriverError::new(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, text));
    }
    let capture = lock(&stream.capture).clone();
    Ok((stream, capture))
}

fn status(capture: Option<&Capture>) -> i32 {
    match capture {
        None => NONE,
        Some(capture) if capture.is_valid() => ACTIVE,
        Some(_) => INVALIDATED,
    }
}

pub(crate) fn cuStreamIsCapturing(stream: CUstream, answer: Out<i32>) -> DriverResult {
    let (_, capture) = of(stream)?;
    answer.set(status(capture.as_deref()))
}

pub(crate) fn cuStreamGetCaptureInfo(
    stream: CUstream,
    answer: Out<i32>,
    id: Out<u64>,
) -> DriverResult {
    cuStreamGetCaptureInfo_v2(stream, answer, id, Out::NULL, Out::NULL, Out::NULL)
}

pub(crate) fn cuStreamGetCaptureInfo_v2(
    stream: CUstream,
    answer: Out<i32>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    dependencies: Out<*const CUgraphNode>,
    n_dependencies: Out<usize>,
) -> DriverResult {
    let (stream, capture) = of(stream)?;
    let status = status(capture.as_deref());
    answer.set(status)?;
    if let Some(capture) = capture.filter(|_| status == ACTIVE) {
        id.set_if_wanted(capture.id);
        graph.set_if_wanted(capture.graph.handle.as_ptr());
        let (list, len) = capture.expose_dependencies(&stream);
        dependencies.set_if_wanted(list);
        n_dependencies.set_if_wanted(len);
    }
    Ok(())
}

/// The emulator's edges have no data.
pub(crate) fn cuStreamGetCaptureInfo_v3(
    stream: CUstream,
    answer: Out<i32>,
    id: Out<u64>,
    graph: Out<CUgraph>,
    dependencies: Out<*const CUgraphNode>,
    edges: Out<*const u64>,
    n_dependencies: Out<usize>,
) -> DriverResult {
    edges.set_if_wanted(std::ptr::null());
    cuStreamGetCaptureInfo_v2(stream, answer, id, graph, dependencies, n_dependencies)
}

pub(crate) fn cuStreamUpdateCaptureDependencies(
    stream: CUstream,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    flags: u32,
) -> DriverResult {
    let (_, stream) = stream::from_handle(stream)?;
    check_flags(flags, SET)?;
    let nodes = graph::list(dependencies, n_dependencies)?;
    let capture = lock(&stream.capture).clone();
    let Some(capture) = capture else {
        let text = "the stream is not being captured";
        return Err(DriverError::new(CUDA_ERROR_ILLEGAL_STATE, text));
    };
    capture.set_dependencies(&stream, &nodes, flags != SET)
}

pub(crate) fn cuStreamUpdateCaptureDependencies_v2(
    stream: CUstream,
    dependencies: In<CUgraphNode>,
    edges: In<u64>,
    n_dependencies: usize,
    flags: u32,
) -> DriverResult {
    graph::check_edges(edges, n_dependencies)?;
    cuStreamUpdateCaptureDependencies(stream, dependencies, n_dependencies, flags)
}

pub(crate) fn cuThreadExchangeStreamCaptureMode(mode: Out<i32>) -> DriverResult {
    mode.check()?;
    let before = capture::exchange_mode(CaptureMode::parse(mode.get_at(0))?);
    mode.set(before as i32)
}
