//! A graph that is ready: launches of it, and its buffers.

use std::fmt;
use std::mem;
use std::sync::Arc;

use cuda_std::launch::{Access, LaunchConfig};

use super::buffers::{GraphBuffers, GraphMemory, Region, homes};
use super::builder::{GraphNode, NodeInfo, RecordedNode};
use super::child::ChildOperation;
use super::dot;
use super::exec::Driver;
use super::operation::{MemoryUse, Operation};
use super::order::{Order, Range, sorted};
use crate::context::Context;
use crate::error::{GpuContext, GpuResult, GraphError};
use crate::lock::lock;
use crate::stream::{AsStream, Stream, StreamInner};

/// Nodes in an order, with the buffers `B` that they use, to be launched as one, any number of times.
///
/// Each launch is in order with all other uses of the buffers, on whatever streams, as a launch of a
/// single kernel is. Dropping it waits for the last launch.
pub struct Graph<B: GraphBuffers> {
    parts: Parts,
    buffers: B,
    /// The memory that the nodes have now.
    regions: Vec<Region>,
    homes: Vec<Arc<StreamInner>>,
    /// Whether the buffers may be others than those that the nodes have.
    is_stale: bool,
}

/// What does not depend on the type of the buffers.
pub(super) struct Parts {
    pub(super) id: u64,
    pub(super) stream: Stream,
    pub(super) nodes: Vec<Node>,
    /// What each node comes directly after.
    pub(super) before: Vec<Vec<usize>>,
    /// The nodes in topological order.
    sorted: Vec<usize>,
    pub(super) driver: Driver,
    /// The launches of kernels, each kind once.
    launches: Vec<(&'static str, LaunchConfig)>,
    /// The nodes that have host callbacks.
    hosts: Vec<usize>,
    /// Where it was launched last.
    last: Option<Arc<StreamInner>>,
    /// Whether nodes do other things than what was recorded.
    pub(super) is_optimized: bool,
}

/// A node of the graph.
pub(super) struct Node {
    pub(super) info: Arc<NodeInfo>,
    pub(super) work: Operation,
    pub(super) uses: Vec<Located>,
    /// What it used when the order was found: it must never use more.
    pub(super) ordered: Vec<Located>,
    /// Whether the driver's node has older parameters than these.
    is_stale: bool,
    pub(super) change: NodeChange,
}

/// What an optimisation has made of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum NodeChange {
    /// It does what was recorded, perhaps with other memory.
    #[default]
    None,
    /// It does what another node did, too.
    Fused,
    /// It is not in the driver's graph.
    Removed,
}

impl Node {
    pub(super) fn is_removed(&self) -> bool {
        self.change == NodeChange::Removed
    }
}

/// A use, as a part of what the graph has.
#[derive(Clone)]
pub(super) struct Located {
    pub(super) part: MemoryUse,
    /// The graph's region that it is in, and the offset there.
    pub(super) region: usize,
    offset: u64,
}

impl<B: GraphBuffers> Graph<B> {
    pub(super) fn new(
        stream: &Stream,
        id: u64,
        recorded: Vec<RecordedNode>,
        buffers: B,
    ) -> GpuResult<Self> {
        let (graph, ()) = Self::changed_by(stream, id, recorded, buffers, |_, _| Ok(()))?;
        Ok(graph)
    }

    /// A graph whose nodes `change` has changed before it was made.
    pub(super) fn changed_by<R>(
        stream: &Stream,
        id: u64,
        recorded: Vec<RecordedNode>,
        buffers: B,
        change: impl FnOnce(&mut [Node], &[Region]) -> GpuResult<R>,
    ) -> GpuResult<(Self, R)> {
        let regions = GraphMemory::of(&buffers);
        let homes = homes(&regions);
        let context = stream.inner().context();
        homes.iter().try_for_each(|home| home.check_device(context, "a buffer of the graph"))?;
        let mut nodes = located(recorded, &regions)?;
        let changes = change(&mut nodes, &regions)?;
        let parts = Parts::new(stream, id, nodes)?;
        Ok((Self { parts, buffers, regions, homes, is_stale: false }, changes))
    }

    /// Queues all nodes. Does not wait.
    ///
    /// # Errors
    /// [`BufferChanged`](GraphError::BufferChanged) if a buffer was exchanged for one of another size,
    /// [`HostPanic`](GraphError::HostPanic) for a function that panicked before, or what the driver
    /// answers.
    pub fn launch(&mut self, on: &impl AsStream) -> GpuResult<()> {
        #[cfg(feature = "nvtx")]
        let _range = crate::nvtx::range("graph");
        self.refresh()?;
        self.parts.check_host()?;
        let stream = on.as_stream().inner();
        stream.check_device(self.parts.context(), "the graph")?;
        let parts = &mut self.parts;
        parts.last = Some(stream.clone());
        for (kernel, config) in &parts.launches {
            stream.note_launch(kernel, config);
        }
        // SAFETY: the graph keeps its buffers and functions until this launch is over, and what is
        // borrowed is in the order of its home.
        let mut launch = || unsafe { parts.driver.launch(stream.handle()) };
        let launched = match self.homes.as_slice() {
            [] => launch(),
            [home] if Arc::ptr_eq(home, stream) => launch(),
            homes => {
                let homes: Vec<_> = homes.iter().map(|home| &**home).collect();
                stream.ordered(&homes, launch)
            }
        };
        launched.gpu_context("launching a graph")
    }

    /// Waits for the last launch, and lends the buffers.
    ///
    /// # Errors
    /// The fault or the panic of a kernel, or the panic of a host callback.
    pub fn wait(&self) -> GpuResult<&B> {
        if let Some(last) = &self.parts.last {
            last.synchronize()?;
        }
        self.parts.check_host()?;
        Ok(&self.buffers)
    }

    /// The buffers. Reading them on the host waits for the last launch.
    #[must_use]
    pub fn buffers(&self) -> &B {
        &self.buffers
    }

    /// The buffers, to be changed: to be filled, or exchanged for others of the same sizes, which the
    /// next launch uses in their place. Kernels that get tensor maps, such as Hopper's matrix products, keep their
    /// memory: to exchange it makes the next launch return [`OtherMemory`](GraphError::OtherMemory).
    #[must_use]
    pub fn buffers_mut(&mut self) -> &mut B {
        self.is_stale = true;
        &mut self.buffers
    }

    /// Gives the buffers back.
    #[must_use]
    pub fn into_buffers(self) -> B {
        self.buffers
    }

    /// The first node of that name. A launch that was given none has the name of its kernel.
    ///
    /// # Errors
    /// [`NoNode`](GraphError::NoNode).
    pub fn node(&self, name: &str) -> GpuResult<GraphNode> {
        let nodes = || self.parts.present();
        let found = nodes().find(|node| node.info.name == name);
        let found = found.ok_or_else(|| GraphError::NoNode {
            node: name.to_owned(),
            known: nodes().map(|node| node.info.name.clone()).collect(),
        })?;
        Ok(GraphNode::of(&self.parts.stream, &found.info))
    }

    /// The names of the nodes that `node` comes directly after, in the order in which they were made.
    ///
    /// # Errors
    /// [`OtherGraph`](GraphError::OtherGraph).
    pub fn predecessors(&self, node: &GraphNode) -> GpuResult<Vec<&str>> {
        let at = self.parts.index(node)?;
        let name = |&at: &usize| self.parts.nodes[at].info.name.as_str();
        Ok(self.parts.before[at].iter().map(name).collect())
    }

    /// The number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.parts.present().count()
    }

    /// Whether there are no nodes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The graph in Graphviz's language: nodes with their names and what they do, and the order.
    #[must_use]
    pub fn to_dot(&self) -> String {
        dot::write(&self.parts.nodes, &self.parts.before)
    }

    pub(super) fn parts(&self) -> &Parts {
        &self.parts
    }

    pub(super) fn parts_mut(&mut self) -> &mut Parts {
        &mut self.parts
    }

    pub(super) fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The parts and the buffers, which may be exchanged.
    pub(super) fn parts_and_buffers(&mut self) -> (&mut Parts, &mut B) {
        self.is_stale = true;
        (&mut self.parts, &mut self.buffers)
    }

    /// Whether the driver's node is up to date. If the driver refused the change, the next launch
    /// tries again.
    pub(super) fn told(&mut self, updated: GpuResult<()>) -> GpuResult<()> {
        self.is_stale |= updated.is_err();
        updated
    }

    /// Gives the nodes the buffers that the graph has now.
    pub(super) fn refresh(&mut self) -> GpuResult<()> {
        if !self.is_stale {
            return Ok(());
        }
        let now = GraphMemory::of(&self.buffers);
        same_sizes(&self.regions, &now)?;
        let homes = homes(&now);
        let (context, what) = (self.parts.context(), "a buffer of the graph");
        homes.iter().try_for_each(|home| home.check_device(context, what))?;
        self.parts.relocate(&now)?;
        (self.regions, self.homes, self.is_stale) = (now, homes, false);
        Ok(())
    }
}

/// An error unless both have the same number of regions, of the same sizes.
fn same_sizes(before: &[Region], now: &[Region]) -> Result<(), GraphError> {
    if before.len() != now.len() {
        return Err(GraphError::BufferCount { expected: before.len(), found: now.len() });
    }
    for (index, (before, now)) in before.iter().zip(now).enumerate() {
        let (expected, found) = (before.range.bytes(), now.range.bytes());
        if expected != found {
            return Err(GraphError::BufferChanged { index, expected, found });
        }
    }
    Ok(())
}

impl Parts {
    fn new(stream: &Stream, id: u64, nodes: Vec<Node>) -> GpuResult<Self> {
        let before = edges(&nodes)?;
        let names = |circle: Vec<usize>| {
            let nodes = circle.iter().map(|&at| nodes[at].info.name.clone()).collect();
            GraphError::Cycle { nodes }
        };
        let mut sorted = sorted(&before).map_err(names)?;
        sorted.retain(|&at| !nodes[at].is_removed());
        let parts: Vec<(&str, &Operation)> =
            nodes.iter().map(|node| (node.info.name.as_str(), &node.work)).collect();
        let driver = Driver::new(stream.inner().context(), &parts, &before, &sorted)?;
        let is_host = |&at: &usize| nodes[at].work.calls_host();
        let (hosts, stream) = ((0..nodes.len()).filter(is_host).collect(), stream.clone());
        let (launches, last, is_optimized) = (Vec::new(), None, false);
        let mut own =
            Self { id, stream, nodes, before, sorted, driver, launches, hosts, last, is_optimized };
        (0..own.nodes.len()).for_each(|at| own.note_launch(at));
        Ok(own)
    }

    pub(super) fn context(&self) -> &Arc<Context> {
        self.stream.inner().context()
    }

    /// What all nodes do, as one.
    pub(super) fn as_child(&self) -> ChildOperation {
        ChildOperation::new(&self.nodes, &self.before, &self.sorted)
    }

    /// The nodes that were not removed.
    fn present(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.is_removed())
    }

    /// An error if the node cannot be launched again, because others were changed on the assumption that it does what
    /// it did.
    pub(super) fn check_relaunch(&self, node: &GraphNode) -> Result<(), GraphError> {
        let optimized = || GraphError::Optimized { node: node.name().to_owned() };
        if self.is_optimized { Err(optimized()) } else { Ok(()) }
    }

    /// An error if the parameters of the node are not its own any more.
    pub(super) fn check_parameters(&self, at: usize) -> Result<(), GraphError> {
        let Node { info, change, .. } = &self.nodes[at];
        let optimized = || GraphError::Optimized { node: info.name.clone() };
        if *change == NodeChange::None { Ok(()) } else { Err(optimized()) }
    }

    /// Which of the graph's nodes it is.
    pub(super) fn index(&self, node: &GraphNode) -> Result<usize, GraphError> {
        let info = node.info();
        let index = info.index.get().filter(|_| info.graph == self.id);
        let other = || GraphError::OtherGraph { node: info.name.clone() };
        index.copied().ok_or_else(other)
    }

    /// Notes what the node launches now.
    pub(super) fn note_launch(&mut self, at: usize) {
        let launches = &mut self.launches;
        self.nodes[at].work.visit("", &mut |_, work| {
            let Operation::Kernel(kernel) = work else { return };
            let launch = (kernel.kernel.name, kernel.config);
            if !launches.contains(&launch) {
                launches.push(launch);
            }
        });
    }

    fn check_host(&self) -> Result<(), GraphError> {
        let mut panic = None;
        for node in self.hosts.iter().map(|&at| &self.nodes[at]) {
            node.work.visit(&node.info.name, &mut |name, work| {
                if panic.is_none()
                    && let Operation::Host(call) = work
                {
                    panic = call.take_panic().map(|message| (name.to_owned(), message));
                }
            });
        }
        panic.map_or(Ok(()), |(node, message)| Err(GraphError::HostPanic { node, message }))
    }

    /// Lets each node use the memory that the graph has now.
    fn relocate(&mut self, now: &[Region]) -> GpuResult<()> {
        let moves =
            |own: &Located| own.part.range.start != now[own.region].range.start + own.offset;
        for node in &self.nodes {
            let fixed = |own: &&Located| node.work.is_fixed(own.part.value) && moves(own);
            if let Some(own) = node.uses.iter().find(fixed) {
                let (node, argument) = (node.info.name.clone(), own.part.argument);
                return Err(GraphError::OtherMemory { node, argument }.into());
            }
        }
        let of_host = |&at: &usize| self.nodes[at].uses.iter().any(moves);
        if self.hosts.iter().any(of_host)
            && let Some(last) = &self.last
        {
            last.synchronize()?;
        }
        for at in 0..self.nodes.len() {
            let node = &mut self.nodes[at];
            node.is_stale |= node.uses.iter_mut().fold(false, |moved, own| {
                let to = now[own.region].range.start + own.offset;
                own.part.move_to(to, &mut node.work) || moved
            });
            if node.is_stale {
                self.update(at).with_gpu_context(|| self.what(at, "giving", "other memory"))?;
            }
        }
        Ok(())
    }

    /// Tells the driver what a node does now.
    pub(super) fn update(&mut self, at: usize) -> GpuResult<()> {
        let node = &mut self.nodes[at];
        node.is_stale = true;
        self.driver.update(at, &node.work)?;
        node.is_stale = false;
        Ok(())
    }

    pub(super) fn what(&self, at: usize, doing: &str, what: &str) -> String {
        format!("{doing} node `{}` of a graph {what}", self.nodes[at].info.name)
    }

    /// Waits for the last launch. Whether it is over: it is, or nothing of it will run any more.
    fn settle(&self) -> bool {
        self.last
            .as_ref()
            .is_none_or(|last| last.try_synchronize() || self.context().lost().is_some())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        if !self.settle() {
            // What a replay may still call leaks.
            mem::forget(mem::take(&mut self.nodes));
        }
    }
}

impl Located {
    /// Finds the region that holds what a node uses.
    pub(super) fn new(
        part: MemoryUse,
        node: impl FnOnce() -> String,
        regions: &[Region],
    ) -> Result<Self, GraphError> {
        let holds = |region: &Region| region.range.holds(&part.range);
        let argument = part.argument;
        let Some(region) = regions.iter().position(holds) else {
            return Err(GraphError::NotOwned { node: node(), argument });
        };
        // It is unknown whether a raw pointer is written through, so it counts as written.
        if regions[region].is_shared && part.access == Access::Write && !part.is_pointer {
            return Err(GraphError::WritesShared { node: node(), argument });
        }
        let offset = part.range.start - regions[region].range.start;
        Ok(Self { part, region, offset })
    }

    /// Whether an order that was found from this use holds for `other` too.
    pub(super) fn holds(&self, other: &Self) -> bool {
        let same = self.region == other.region && self.part.is_pointer == other.part.is_pointer;
        let access = self.part.access == Access::Write || other.part.access == Access::Read;
        same && access && (self.part.is_pointer || self.within().holds(&other.within()))
    }

    /// Where in its region it is.
    fn within(&self) -> Range {
        Range::new(self.offset, self.part.range.bytes())
    }
}

/// The nodes with the regions that they use.
fn located(recorded: Vec<RecordedNode>, regions: &[Region]) -> Result<Vec<Node>, GraphError> {
    let node = |RecordedNode { info, work, uses }| {
        let located = |part: MemoryUse| {
            let value = part.value;
            Located::new(part, || work.name_of(value, &info.name), regions)
        };
        let uses = uses.into_iter().map(located).collect::<Result<Vec<_>, _>>()?;
        let (ordered, is_stale, change) = (uses.clone(), false, NodeChange::None);
        Ok(Node { info, work, ordered, uses, is_stale, change })
    };
    recorded.into_iter().map(node).collect()
}

/// What each node comes directly after: by its memory, and by its own word.
pub(super) fn edges(nodes: &[Node]) -> Result<Vec<Vec<usize>>, GraphError> {
    let mut order = Order::default();
    nodes.iter().for_each(|node| order.add(node.uses.iter().map(|own| own.part.for_order())));
    let mut edges = order.into_edges();
    for (node, before) in nodes.iter().zip(&mut edges) {
        for other in lock(&node.info.after).iter() {
            let empty = || GraphError::Empty { node: other.name.clone() };
            let other = *other.index.get().ok_or_else(empty)?;
            if !before.contains(&other) {
                before.push(other);
            }
        }
    }
    Ok(edges)
}

impl<B: GraphBuffers> fmt::Debug for Graph<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let edges: usize = self.parts.before.iter().map(Vec::len).sum();
        write!(f, "Graph({} nodes, {edges} edges)", self.len())
    }
}
