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
use super::foreign::{ForeignMemory, ForeignWork};
use super::host::HostCall;
use super::host_buffer::HostMemory;
use super::order::Range;
use super::replay::Graph;
use super::work::{CopyWork, FillWork, KernelWork, Pattern, Use, Work, uses};
use crate::capture;
use crate::error::{GpuContext, GpuError, GpuResult, GraphError};
use crate::launch::{check_homes, prepare};
use crate::lock::lock;
use crate::memory::resource::StreamRef;
use crate::recorder::{self, Bytes, Recorder};
use crate::stream::{AsStream, Stream, check_same, home_of};

/// A graph in the making.
///
/// Whatever launches kernels on a stream launches them on this: then each launch is a node. A name,
/// and what is not a launch, comes from [`node`](Self::node). Nothing runs before the graph is
/// built and launched.
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
    nodes: Mutex<Option<Vec<Recorded>>>,
}

/// A node that was given something to do.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) place: Arc<Place>,
    pub(super) work: Work,
    pub(super) uses: Vec<Use>,
}

/// A node's name, and which of the graph's nodes it is.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) graph: u64,
    pub(super) name: String,
    /// Its number, from when it has something to do.
    pub(super) index: OnceLock<usize>,
    /// What it was told to come after.
    pub(super) after: Mutex<Vec<Arc<Place>>>,
}

/// A node of a graph: a place for one launch, copy, fill or function of the host; later a name for
/// it, to change its parameters by. A clone is the same node.
#[derive(Clone, Debug)]
pub struct GraphNode {
    builder: GraphBuilder,
    place: Arc<Place>,
}

impl GraphBuilder {
    /// A graph without nodes, for the device of `on` and with its kernels.
    #[must_use]
    pub fn new(on: &impl AsStream) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let nodes = Mutex::new(Some(Vec::new()));
        Self { stream: on.as_stream().clone(), recording: Arc::new(Recording { id, nodes }) }
    }

    /// A node of that name, to be given something to do. Nodes that share memory run in the order in
    /// which they were given it.
    #[must_use]
    pub fn node(&self, name: impl Into<String>) -> GraphNode {
        let (index, after) = (OnceLock::new(), Mutex::default());
        let place = Place { graph: self.recording.id, name: name.into(), index, after };
        GraphNode { builder: self.clone(), place: Arc::new(place) }
    }

    /// Makes a node of each launch, copy on the device and fill that this thread asks for in `work`,
    /// on whatever stream.
    ///
    /// # Errors
    /// Those of `work`, to which anything that waits, allocates, or copies from or to the host answers
    /// with [`NotCapturable`](GraphError::NotCapturable).
    pub fn capture<R>(&self, work: impl FnOnce() -> GpuResult<R>) -> GpuResult<R> {
        capture::check("a capture within a capture")?;
        recorder::record(Rc::new(self.clone()), work)
    }

    /// The graph of all nodes, ready to be launched, which has `buffers` from now on: at least all
    /// memory that the nodes use.
    ///
    /// # Errors
    /// A [`GraphError`] that says what is wrong with a node, or the driver's refusal of one.
    pub fn build<B: GraphBuffers>(self, buffers: B) -> GpuResult<Graph<B>> {
        let nodes = self.recording.lock().take();
        let built = || GraphError::Built { node: "the graph".to_owned() };
        Graph::new(&self.stream, self.recording.id, nodes.ok_or_else(built)?, buffers)
    }
}

impl Recorder for GraphBuilder {
    fn launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
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
}

/// The memory of an argument of elements of `T`.
fn bytes_of<T>(raw: &RawSlice) -> Bytes<'_> {
    let home = raw.home.as_ref().and_then(home_of);
    Bytes { home, address: raw.address, len: raw.len * size_of::<T>() }
}

impl GraphNode {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// Lets this node run after `other`, though they share no memory: for functions of the host, and for
    /// what they do behind the graph's back. `other` may be given something to do later.
    ///
    /// # Errors
    /// [`OtherGraph`](GraphError::OtherGraph) if `other` is not of the same graph,
    /// [`Built`](GraphError::Built) if that is built already.
    pub fn after(&self, other: &GraphNode) -> GpuResult<()> {
        if other.place.graph != self.place.graph {
            return Err(GraphError::OtherGraph { node: other.name().to_owned() }.into());
        }
        if self.builder.recording.lock().is_none() {
            return Err(self.built());
        }
        lock(&self.place.after).push(other.place.clone());
        Ok(())
    }

    /// Copies `from` to `to`, both on the device or unified.
    ///
    /// # Errors
    /// [`SizeMismatch`](GpuError::SizeMismatch), [`WrongDevice`](GpuError::WrongDevice), or a node
    /// that does something already.
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
    /// [`WrongDevice`](GpuError::WrongDevice), or a node that does something already.
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

    /// Calls `function` on a thread of the driver, in each replay. It shares no memory with other
    /// nodes, so [`after`](Self::after) alone orders it; it must not call the driver, which would
    /// answer with an error, nor wait for the graph.
    ///
    /// A panic is caught; the other nodes run, and [`Graph::wait`] or the next launch tells of it.
    ///
    /// # Errors
    /// A node that does something already.
    pub fn host(&self, mut function: impl FnMut() + Send + 'static) -> GpuResult<()> {
        self.record(Work::Host(HostCall::new(0, move |_| function())), Vec::new())
    }

    /// Calls `function` with the values of `from` in each replay, in the order of its uses: see
    /// [`host`](Self::host).
    ///
    /// # Errors
    /// [`WrongDevice`](GpuError::WrongDevice), or a node that does something already.
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
    /// [`WrongDevice`](GpuError::WrongDevice), or a node that does something already.
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

    /// Does all that `child` does, as one node, which uses all memory that the child's nodes use: give
    /// it to [`build`](GraphBuilder::build) too. What the child does later, and what becomes of it, is
    /// its own affair; functions of the host are shared, and called by one replay at a time.
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
    /// [`WrongDevice`](GpuError::WrongDevice) for a graph of another device, a node that does something
    /// already, or, if the child's buffers were exchanged, as [`Graph::launch`].
    pub fn graph<B: GraphBuffers>(&self, child: &mut Graph<B>) -> GpuResult<()> {
        capture::check("a graph within a capture")?;
        child.refresh()?;
        let parts = child.parts();
        check_same(self.builder.stream.inner().context(), parts.context(), "the graph")?;
        let work = parts.as_child();
        let uses = work.uses();
        match work.len() {
            0 => self.record(Work::Nothing, uses),
            _ => self.record(Work::Child(Box::new(work)), uses),
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
    /// Those of `work`; the driver's, if `work` has broken the capture, by waiting for the stream for
    /// example; [`NothingCaptured`](GraphError::NothingCaptured);
    /// [`WrongDevice`](GpuError::WrongDevice), or a node that does something already.
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
        let uses = memory.uses.iter().enumerate().map(|(value, own)| {
            let home = own.raw.home.as_ref().and_then(home_of);
            let bytes = Bytes { home, address: own.raw.address, len: own.bytes };
            self.use_of(bytes, own.access, ("memory", value))
        });
        let uses = uses.collect::<GpuResult<Vec<_>>>()?;
        let uses = uses.into_iter().filter(|own| own.range.bytes() > 0).collect();
        let work = ForeignWork::capture(&self.builder.stream, self.name(), work)?;
        self.record(Work::Foreign(work), uses)
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn of(stream: &Stream, recorded: &Arc<Place>) -> Self {
        let builder = GraphBuilder {
            stream: stream.clone(),
            recording: Arc::new(Recording { id: recorded.graph, nodes: Mutex::new(None) }),
        };
        Self { builder, place: recorded.clone() }
    }

    fn record_launch(
        &self,
        stream: &Stream,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
    ) -> GpuResult<()> {
        let context = self.builder.stream.inner().context();
        stream.inner().check_device(context, "a launch")?;
        let prepared = capture::outside(|| {
            check_homes(stream, kernel, args)?;
            prepare(stream, kernel, config, args)
        });
        let what = || format!("launching `{}` in node `{}`", kernel.name, self.name());
        let Some(prepared) = prepared.with_gpu_context(what)? else {
            return self.record(Work::Nothing, Vec::new());
        };
        let work = KernelWork::new(kernel, prepared, args, stream.module());
        self.record(Work::Kernel(Box::new(work)), uses(kernel, args))
    }

    fn record_fill(&self, to: Bytes, pattern: Pattern) -> GpuResult<()> {
        let to = self.use_of(to, Access::Write, ("destination", 1))?;
        let fill = FillWork { to: to.range, pattern };
        match to.range.bytes() {
            0 => self.record(Work::Nothing, Vec::new()),
            _ => self.record(Work::Fill(fill), vec![to]),
        }
    }

    fn record_host<T>(
        &self,
        raw: &RawSlice,
        access: Access,
        mut function: impl FnMut(*mut T) + Send + 'static,
    ) -> GpuResult<()> {
        let own = self.use_of(bytes_of::<T>(raw), access, ("values", 0))?;
        let address = if raw.len == 0 { align_of::<T>() as u64 } else { raw.address };
        let call = HostCall::new(address, move |address| function(address as *mut T));
        let uses = if own.range.bytes() == 0 { Vec::new() } else { vec![own] };
        self.record(Work::Host(call), uses)
    }

    fn record_copy(&self, from: Bytes, to: Bytes) -> GpuResult<()> {
        let from = self.use_of(from, Access::Read, ("source", 0))?;
        let to = self.use_of(to, Access::Write, ("destination", 1))?;
        let copy = CopyWork { from: from.range.start, to: to.range };
        match to.range.bytes() {
            0 => self.record(Work::Nothing, Vec::new()),
            _ => self.record(Work::Copy(copy), vec![from, to]),
        }
    }

    fn use_of(
        &self,
        bytes: Bytes,
        access: Access,
        (argument, value): (&'static str, usize),
    ) -> GpuResult<Use> {
        if let Some(home) = bytes.home {
            home.check_device(self.builder.stream.inner().context(), argument)?;
        }
        let range = Range::new(bytes.address, bytes.len);
        Ok(Use { range, access, argument, value, is_pointer: false })
    }

    fn record(&self, work: Work, uses: Vec<Use>) -> GpuResult<()> {
        let mut nodes = self.builder.recording.lock();
        let nodes = nodes.as_mut().ok_or_else(|| self.built())?;
        if self.place.index.set(nodes.len()).is_err() {
            return Err(GraphError::Taken { node: self.name().to_owned() }.into());
        }
        nodes.push(Recorded { place: self.place.clone(), work, uses });
        Ok(())
    }

    fn built(&self) -> GpuError {
        GraphError::Built { node: self.name().to_owned() }.into()
    }
}

impl Launch for GraphNode {
    type Error = GpuError;

    unsafe fn launch(
        &self,
        kernel: &'static Kernel,
        config: LaunchConfig,
        args: &Args,
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
        args: &Args,
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
    fn lock(&self) -> MutexGuard<'_, Option<Vec<Recorded>>> {
        lock(&self.nodes)
    }
}
