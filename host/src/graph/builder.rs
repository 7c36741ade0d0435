//! Making a graph, node by node or by a capture.

use std::rc::Rc;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use bytemuck::Pod;
use cuda_std::launch::{
    Access, Args, DeviceRead, DeviceWrite, Kernel, Launch, LaunchConfig, RawSlice,
};

use super::buffers::GraphBuffers;
use super::foreign::ForeignOperation;
use super::host::HostCall;
use super::host_buffer::HostMemory;
use super::operation::{
    CopyOperation, FillOperation, KernelOperation, MemoryUse, Operation, Pattern, uses,
};
use super::order::Range;
use super::replay::Graph;
use crate::capture;
use crate::error::{GpuContext, GpuError, GpuResult, GraphError};
use crate::foreign::ForeignMemory;
use crate::launch::{check_homes, prepare};
use crate::lock::lock;
use crate::memory::resource::StreamRef;
use crate::recorder::{self, Bytes, Recorder};
use crate::stream::{AsStream, Stream, check_same, home_of};

/// Builds a graph.
///
/// It takes launches like a stream, and makes each a node. Named nodes, and nodes that are not
/// launches, come from [`node`](Self::node). Nothing runs before the graph is built and launched.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    stream: Stream,
    recording: Arc<Recording>,
}

/// What was recorded until now.
#[derive(Debug)]
struct Recording {
    id: u64,
    /// `None` once the graph is built.
    nodes: Mutex<Option<Vec<RecordedNode>>>,
}

/// A node that was given something to do.
#[derive(Debug)]
pub(super) struct RecordedNode {
    pub(super) info: Arc<NodeInfo>,
    pub(super) work: Operation,
    pub(super) uses: Vec<MemoryUse>,
}

/// A node's name, and which of the graph's nodes it is.
#[derive(Debug)]
pub(super) struct NodeInfo {
    pub(super) graph: u64,
    pub(super) name: String,
    /// Its number, from when it has something to do.
    pub(super) index: OnceLock<usize>,
    /// The nodes that it was declared to come after.
    pub(super) after: Mutex<Vec<Arc<NodeInfo>>>,
}

/// A node of a graph: takes one launch, copy, fill or host callback, and later identifies it, to
/// change its parameters. A clone is the same node.
#[derive(Clone, Debug)]
pub struct GraphNode {
    builder: GraphBuilder,
    info: Arc<NodeInfo>,
}

impl GraphBuilder {
    /// A builder without nodes, for the device and the kernels of `on`.
    #[must_use]
    pub fn new(on: &impl AsStream) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let nodes = Mutex::new(Some(Vec::new()));
        Self { stream: on.as_stream().clone(), recording: Arc::new(Recording { id, nodes }) }
    }

    /// A node of that name, without an operation yet. Nodes that share memory run in the order in
    /// which their operations were set.
    #[must_use]
    pub fn node(&self, name: impl Into<String>) -> GraphNode {
        let (index, after) = (OnceLock::new(), Mutex::default());
        let info = NodeInfo { graph: self.recording.id, name: name.into(), index, after };
        GraphNode { builder: self.clone(), info: Arc::new(info) }
    }

    /// Captures `work`: each launch, copy on the device and fill that this thread makes, on any
    /// stream, becomes a node.
    ///
    /// # Errors
    /// Those of `work`, in which everything that waits, allocates, or copies from or to the host
    /// returns [`NotCapturable`](GraphError::NotCapturable).
    pub fn capture<R>(&self, work: impl FnOnce() -> GpuResult<R>) -> GpuResult<R> {
        capture::check("a capture within a capture")?;
        recorder::record(Rc::new(self.clone()), work)
    }

    /// Builds the graph of all nodes, ready to launch. It owns `buffers`, which must have at least
    /// all memory that the nodes use.
    ///
    /// # Errors
    /// A [`GraphError`] that says what is wrong with a node, or the driver's refusal of one.
    pub fn build<B: GraphBuffers>(self, buffers: B) -> GpuResult<Graph<B>> {
        let (stream, id, nodes) = self.into_nodes()?;
        Graph::new(&stream, id, nodes, buffers)
    }

    /// The stream and the number of the graph, and all nodes that were recorded.
    pub(super) fn into_nodes(self) -> GpuResult<(Stream, u64, Vec<RecordedNode>)> {
        let nodes = self.recording.lock().take();
        let built = || GraphError::AlreadyBuilt { node: "the graph".to_owned() };
        Ok((self.stream, self.recording.id, nodes.ok_or_else(built)?))
    }
}

impl Recorder for GraphBuilder {
    fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        self.node(kernel.name).record_launch(stream, kernel, config, args)
    }

    fn copy(&self, from: Bytes<'_>, to: Bytes<'_>) -> GpuResult<()> {
        self.node("copy").record_copy(from, to)
    }

    fn clear(&self, to: Bytes<'_>) -> GpuResult<()> {
        self.node("clear").record_fill(to, Pattern::ZERO)
    }

    fn fill(&self, to: Bytes<'_>, value: &[u8]) -> GpuResult<()> {
        self.node("fill").record_fill(to, Pattern::of(value))
    }

    fn foreign(
        &self,
        name: &str,
        memory: ForeignMemory,
        work: &mut dyn FnMut(&Stream) -> GpuResult<()>,
    ) -> GpuResult<()> {
        let node = self.node(name);
        capture::outside(|| node.record_foreign(memory, work))
    }
}

/// The memory of an argument of elements of `T`.
fn bytes_of<'m, T>(raw: &RawSlice<'m>) -> Bytes<'m> {
    let home = raw.home.and_then(home_of);
    Bytes { home, address: raw.address, len: raw.len * size_of::<T>() }
}

impl GraphNode {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// Makes this node run after `other`, even if they share no memory: for host callbacks, and for
    /// effects that the arguments do not show. The operation of `other` may be set later.
    ///
    /// # Errors
    /// [`OtherGraph`](GraphError::OtherGraph) if `other` belongs to another graph,
    /// [`AlreadyBuilt`](GraphError::AlreadyBuilt) if that is built already.
    pub fn after(&self, other: &GraphNode) -> GpuResult<()> {
        if other.info.graph != self.info.graph {
            return Err(GraphError::OtherGraph { node: other.name().to_owned() }.into());
        }
        if self.builder.recording.lock().is_none() {
            return Err(self.built());
        }
        lock(&self.info.after).push(other.info.clone());
        Ok(())
    }

    /// Copies `from` to `to`, both on the device or unified.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch), [`WrongDevice`](GpuError::WrongDevice), or the
    /// node has an operation already.
    pub fn copy<T>(
        &self,
        from: &impl DeviceRead<T>,
        to: &mut impl DeviceWrite<T>,
    ) -> GpuResult<()> {
        let (from, to) = (from.raw(), to.raw_mut());
        if from.len != to.len {
            let (operation, expected, found) = ("copying in a graph", to.len, from.len);
            return Err(GpuError::SizeMismatch { operation, expected, found });
        }
        self.record_copy(bytes_of::<T>(&from), bytes_of::<T>(&to))
    }

    /// Fills `to` with zeros.
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice), or the node has an operation already.
    pub fn clear<T: bytemuck::Zeroable>(&self, to: &mut impl DeviceWrite<T>) -> GpuResult<()> {
        self.record_fill(bytes_of::<T>(&to.raw_mut()), Pattern::ZERO)
    }

    /// Fills `to` with `value`, which has 1, 2 or 4 bytes; a value of another size does not compile.
    ///
    /// # Errors
    /// As [`clear`](Self::clear).
    pub fn fill<T: Pod>(&self, to: &mut impl DeviceWrite<T>, value: T) -> GpuResult<()> {
        const { assert!(matches!(size_of::<T>(), 1 | 2 | 4), "a value of 1, 2 or 4 bytes") };
        let pattern = Pattern::of(bytemuck::bytes_of(&value));
        self.record_fill(bytes_of::<T>(&to.raw_mut()), pattern)
    }

    /// Calls `function` on a thread of the driver in each replay (`cuGraphAddHostNode`). It shares
    /// no memory with other nodes, so only [`after`](Self::after) orders it; it must not call the
    /// driver, which would return an error, nor wait for the graph.
    ///
    /// A panic is caught; the other nodes run, and [`Graph::wait`] or the next launch returns it as
    /// an error.
    ///
    /// # Errors
    /// The node has an operation already.
    pub fn host(&self, mut function: impl FnMut() + Send + 'static) -> GpuResult<()> {
        self.record(Operation::Host(HostCall::new(0, move |_| function())), Vec::new())
    }

    /// Calls `function` with the values of `from` in each replay, in the order of its uses: see
    /// [`host`](Self::host).
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice), or the node has an operation already.
    pub fn host_reads<T: Pod + Send + Sync>(
        &self,
        from: &impl HostMemory<T>,
        mut function: impl FnMut(&[T]) + Send + 'static,
    ) -> GpuResult<()> {
        let raw = from.raw();
        let len = raw.len;
        self.record_host::<T>(&raw, Access::Read, move |values| {
            // SAFETY: the graph has the memory, whose address and length these are, and nobody writes
            // it before the function is over.
            function(unsafe { slice::from_raw_parts(values, len) });
        })
    }

    /// Calls `function` with the values of `to`, to be changed, in each replay, in the order of its
    /// uses: see [`host`](Self::host).
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice), or the node has an operation already.
    pub fn host_writes<T: Pod + Send + Sync>(
        &self,
        to: &mut impl HostMemory<T>,
        mut function: impl FnMut(&mut [T]) + Send + 'static,
    ) -> GpuResult<()> {
        let raw = to.raw_mut();
        let len = raw.len;
        self.record_host::<T>(&raw, Access::Write, move |values| {
            // SAFETY: the graph has the memory, whose address and length these are, and nobody else
            // uses it before the function is over.
            function(unsafe { slice::from_raw_parts_mut(values, len) });
        })
    }

    /// Adds all operations of `child` as one node, which uses all memory that the child's nodes
    /// use: pass it to [`build`](GraphBuilder::build) too. The child is copied, so later changes of
    /// it do not matter; host callbacks are shared, and called by one replay at a time.
    ///
    /// ```no_run
    /// # use ferrowarp::{DeviceBuffer, Gpu, GpuResult, Graph, GraphBuilder};
    /// # fn example(gpu: &Gpu, mut step: Graph<DeviceBuffer<f32>>) -> GpuResult<()> {
    /// let builder = GraphBuilder::new(gpu);
    /// for _ in 0..10 {
    ///     builder.node("step").graph(&mut step)?;
    /// }
    /// let mut ten_steps = builder.build(step.into_buffers())?;
    /// ten_steps.launch(gpu)
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice) for a graph of another device, the node has an
    /// operation already, or, if the child's buffers were exchanged, as [`Graph::launch`].
    pub fn graph<B: GraphBuffers>(&self, child: &mut Graph<B>) -> GpuResult<()> {
        capture::check("a graph within a capture")?;
        child.refresh()?;
        let parts = child.parts();
        check_same(self.builder.stream.inner().context(), parts.context(), "the graph")?;
        let work = parts.as_child();
        let uses = work.uses();
        match work.len() {
            0 => self.record(Operation::Nothing, uses),
            _ => self.record(Operation::Child(Box::new(work)), uses),
        }
    }

    /// Does what `work` gives to the stream that it is called with, now and by whatever calls of the
    /// driver: launches of other libraries, say. The driver captures it; nothing runs before the graph
    /// does. Waits of other threads for the whole device, which would break the capture, begin when it
    /// has ended; this crate itself refuses what `work` asks of it.
    ///
    /// The memory is the same in each replay: to exchange it is
    /// [`OtherMemory`](GraphError::OtherMemory).
    ///
    /// # Errors
    /// Those of `work`; the driver's, if `work` has broken the capture, by waiting for the stream
    /// for example; [`NothingCaptured`](GraphError::NothingCaptured);
    /// [`WrongDevice`](GpuError::WrongDevice), or the node has an operation already.
    ///
    /// # Safety
    /// - What `work` gives to the stream reads and writes nothing of the device's memory that others
    ///   can reach but `memory`, and writes only what `memory` says.
    /// - All else that it uses (kernels, functions and memory of the host) lives as long as the graph,
    ///   and those of which this becomes a [part](Self::graph).
    /// - `work` does not end the capture, and does not keep the stream.
    pub unsafe fn foreign(
        &self,
        memory: ForeignMemory,
        work: impl FnOnce(StreamRef<'_>) -> GpuResult<()>,
    ) -> GpuResult<()> {
        self.record_foreign(memory, |stream| work(StreamRef::of(stream)))
    }

    /// What [`foreign`](Self::foreign) does.
    fn record_foreign(
        &self,
        memory: ForeignMemory,
        work: impl FnOnce(&Stream) -> GpuResult<()>,
    ) -> GpuResult<()> {
        let uses = memory.uses.iter().enumerate().map(|(value, own)| {
            let bytes = Bytes { home: own.home(), address: own.address, len: own.bytes };
            self.use_of(bytes, own.access, ("memory", value))
        });
        let uses = uses.collect::<GpuResult<Vec<_>>>()?;
        let uses = uses.into_iter().filter(|own| own.range.bytes() > 0).collect();
        let work = ForeignOperation::capture(&self.builder.stream, self.name(), work)?;
        self.record(Operation::Foreign(work), uses)
    }

    pub(super) fn info(&self) -> &NodeInfo {
        &self.info
    }

    pub(super) fn of(stream: &Stream, recorded: &Arc<NodeInfo>) -> Self {
        let builder = GraphBuilder {
            stream: stream.clone(),
            recording: Arc::new(Recording { id: recorded.graph, nodes: Mutex::new(None) }),
        };
        Self { builder, info: recorded.clone() }
    }

    fn record_launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        let context = self.builder.stream.inner().context();
        stream.inner().check_device(context, "a launch")?;
        let prepared = capture::outside(|| {
            check_homes(stream, kernel, args)?;
            prepare(stream, kernel, config, args)
        });
        let what = || format!("launching `{}` in node `{}`", kernel.name, self.name());
        let Some(prepared) = prepared.with_gpu_context(what)? else {
            return self.record(Operation::Nothing, Vec::new());
        };
        let work = KernelOperation::new(kernel, prepared, args, stream.module());
        self.record(Operation::Kernel(Box::new(work)), uses(kernel, args))
    }

    fn record_fill(&self, to: Bytes, pattern: Pattern) -> GpuResult<()> {
        let to = self.use_of(to, Access::Write, ("destination", 1))?;
        let fill = FillOperation { to: to.range, pattern };
        match to.range.bytes() {
            0 => self.record(Operation::Nothing, Vec::new()),
            _ => self.record(Operation::Fill(fill), vec![to]),
        }
    }

    fn record_host<T>(
        &self,
        raw: &RawSlice<'_>,
        access: Access,
        mut function: impl FnMut(*mut T) + Send + 'static,
    ) -> GpuResult<()> {
        let own = self.use_of(bytes_of::<T>(raw), access, ("values", 0))?;
        let address = if raw.len == 0 { align_of::<T>() as u64 } else { raw.address };
        let call = HostCall::new(address, move |address| function(address as *mut T));
        let uses = if own.range.bytes() == 0 { Vec::new() } else { vec![own] };
        self.record(Operation::Host(call), uses)
    }

    fn record_copy(&self, from: Bytes, to: Bytes) -> GpuResult<()> {
        let from = self.use_of(from, Access::Read, ("source", 0))?;
        let to = self.use_of(to, Access::Write, ("destination", 1))?;
        let copy = CopyOperation { from: from.range.start, to: to.range };
        match to.range.bytes() {
            0 => self.record(Operation::Nothing, Vec::new()),
            _ => self.record(Operation::Copy(copy), vec![from, to]),
        }
    }

    fn use_of(
        &self,
        bytes: Bytes,
        access: Access,
        (argument, value): (&'static str, usize),
    ) -> GpuResult<MemoryUse> {
        if let Some(home) = bytes.home {
            home.check_device(self.builder.stream.inner().context(), argument)?;
        }
        let range = Range::new(bytes.address, bytes.len);
        Ok(MemoryUse { range, access, argument, value, is_pointer: false })
    }

    fn record(&self, work: Operation, uses: Vec<MemoryUse>) -> GpuResult<()> {
        let mut nodes = self.builder.recording.lock();
        let nodes = nodes.as_mut().ok_or_else(|| self.built())?;
        if self.info.index.set(nodes.len()).is_err() {
            return Err(GraphError::NodeAlreadySet { node: self.name().to_owned() }.into());
        }
        nodes.push(RecordedNode { info: self.info.clone(), work, uses });
        Ok(())
    }

    fn built(&self) -> GpuError {
        GraphError::AlreadyBuilt { node: self.name().to_owned() }.into()
    }
}

impl Launch for GraphNode {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        self.record_launch(&self.builder.stream, kernel, config, args)
    }
}

impl Launch for GraphBuilder {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args<'_>,
    ) -> GpuResult<()> {
        self.node(kernel.name).record_launch(&self.stream, kernel, config, args)
    }
}

impl Stream {
    /// Makes a graph of what this thread launches in `work`, on this stream or any other, in place of
    /// doing it: see [`GraphBuilder::capture`]. [`build`](GraphBuilder::build) makes it ready.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn capture(&self, work: impl FnOnce(&Stream) -> GpuResult<()>) -> GpuResult<GraphBuilder> {
        let builder = GraphBuilder::new(self);
        builder.capture(|| work(self))?;
        Ok(builder)
    }
}

impl Recording {
    fn lock(&self) -> MutexGuard<'_, Option<Vec<RecordedNode>>> {
        lock(&self.nodes)
    }
}
