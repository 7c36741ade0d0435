//! Work of other libraries as a node: the driver captures what they enqueue on a stream.

use std::ptr;
use std::sync::Arc;

use cuda_driver::sys;

use crate::capture;
use crate::context::Context;
use crate::error::{GpuContext, GpuResult, GraphError};
use crate::stream::Stream;

/// What other libraries enqueued on a stream: a driver graph, which is never changed.
#[derive(Clone, Debug)]
pub(super) struct ForeignOperation(Arc<Captured>);

#[derive(Debug)]
struct Captured {
    context: Arc<Context>,
    graph: sys::CUgraph,
}

// SAFETY: the handle is used through the driver alone, which allows any thread.
unsafe impl Send for Captured {}
// SAFETY: as above; the graph is copied and not changed, and each copy is made under a lock of the
// driver.
unsafe impl Sync for Captured {}

impl ForeignOperation {
    /// Captures what `work` enqueues on a stream that is made for it.
    pub(super) fn capture(
        stream: &Stream,
        node: &str,
        work: impl FnOnce(&Stream) -> GpuResult<()>,
    ) -> GpuResult<Self> {
        capture::check("a capture within a capture")?;
        let context = stream.inner().context();
        let stream = Stream::new(context, stream.module())?;
        let what = || format!("capturing what others do in node `{node}` of a graph");
        let graph = Capture::of(&stream, work).with_gpu_context(what)?;
        let captured = Captured { context: context.clone(), graph };
        match captured.nodes()? {
            0 => Err(GraphError::NothingCaptured { node: node.to_owned() }.into()),
            _ => Ok(Self(Arc::new(captured))),
        }
    }

    pub(super) fn graph(&self) -> sys::CUgraph {
        self.0.graph
    }

    /// The number of the driver's nodes.
    pub(super) fn len(&self) -> usize {
        self.0.nodes().unwrap_or(0)
    }
}

impl Captured {
    fn nodes(&self) -> GpuResult<usize> {
        let mut count = 0;
        self.context.call_uncounted("cuGraphGetNodes", || {
            // SAFETY: the graph is this one's own, and without a list only their number is told.
            unsafe { sys::cuGraphGetNodes(self.graph, ptr::null_mut(), &mut count) }
        })?;
        Ok(count)
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        // SAFETY: the graph is this one's own, and is not used again.
        self.context.release(|| unsafe { sys::cuGraphDestroy(self.graph) });
    }
}

/// A stream that is being captured.
struct Capture<'a> {
    stream: &'a Stream,
    has_ended: bool,
}

impl<'a> Capture<'a> {
    /// The driver's graph of what `work` gives to the stream.
    fn of(
        stream: &'a Stream,
        work: impl FnOnce(&Stream) -> GpuResult<()>,
    ) -> GpuResult<sys::CUgraph> {
        capture::without_device_waits(|| {
            let mut own = Self::begin(stream)?;
            capture::refusing(|| work(stream))?;
            own.end()
        })
    }

    fn begin(stream: &'a Stream) -> GpuResult<Self> {
        // No other code has the stream, so nothing that other threads do could get into the
        // capture: there is no reason to forbid it to them.
        let mode = sys::stream_capture_mode::RELAXED;
        let inner = stream.inner();
        inner.context().call("cuStreamBeginCapture", || {
            // SAFETY: the stream lives.
            unsafe { sys::cuStreamBeginCapture_v2(inner.handle(), mode) }
        })?;
        Ok(Self { stream, has_ended: false })
    }

    fn end(&mut self) -> GpuResult<sys::CUgraph> {
        self.has_ended = true;
        let (inner, mut graph) = (self.stream.inner(), ptr::null_mut());
        inner.context().call("cuStreamEndCapture", || {
            // SAFETY: the place is writable, and the stream is captured.
            unsafe { sys::cuStreamEndCapture(inner.handle(), &mut graph) }
        })?;
        Ok(graph)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        // The work has failed or panicked, and that is the error to report.
        if let Ok(graph) = self.end() {
            // SAFETY: the graph is nobody else's.
            self.stream.inner().context().release(|| unsafe { sys::cuGraphDestroy(graph) });
        }
    }
}
