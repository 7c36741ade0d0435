//! Executable graphs: instantiation, updates and launches.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use super::current::Context;
use super::graph::{self, ChildGraph, Graph};
use super::graph_launch::{BranchQueues, LaunchNode};
use super::operation::{Empty, NodeType, SharedOperation};
use super::registry::{Handle, Registry};
use super::stream::{self, Stream};
use super::{capture, invalid_value, lock, not_supported};
use crate::abi::{CUgraph, CUgraphExec, CUgraphNode, CUstream, Out};
use crate::codes::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
use crate::detail::{DriverError, DriverResult};
use crate::structs::{InstantiateParams, UpdateResult};

/// Memory that a launch leaves allocated is freed by the next launch.
const FREE_ON_LAUNCH: u64 = 1;
/// The graph is uploaded at instantiation; there is nothing to upload.
const UPLOAD: u64 = 2;
/// Kernels can launch the graph.
const DEVICE_LAUNCH: u64 = 4;
/// Kernels run with their nodes' priorities, which have no effect.
const NODE_PRIORITY: u64 = 8;

/// An executable graph: a copy of the graph at its instantiation.
pub(super) struct GraphExec {
    flags: u64,
    plan: Mutex<Plan>,
    branches: Mutex<BranchQueues>,
}

/// The nodes in a topological order, and the edges as pairs of indices in it.
#[derive(Clone)]
struct Plan {
    steps: Vec<Step>,
    edges: Vec<(usize, usize)>,
}

#[derive(Clone)]
struct Step {
    /// The node that it was made from.
    node: Handle,
    operation: SharedOperation,
    enabled: bool,
    /// The plan of a child graph node.
    child: Option<Plan>,
}

static GRAPH_EXECS: Registry<GraphExec> = Registry::new("executable graph");

/// The number of live executable graphs.
pub(super) fn live() -> usize {
    GRAPH_EXECS.count(|_| true)
}

impl Plan {
    fn new(graph: &Graph) -> DriverResult<Self> {
        let order = graph.ordered()?;
        let index_of = |handle| order.iter().position(|node| node.handle == handle);
        let (_, edges) = graph.parts();
        let edges =
            edges.iter().filter_map(|(from, to)| index_of(*from).zip(index_of(*to))).collect();
        let step = |node: &Arc<graph::Node>| {
            let operation = node.operation();
            let child = child_plan(&operation)?;
            Ok(Step { node: node.handle, operation, enabled: true, child })
        };
        Ok(Self { steps: order.iter().map(step).collect::<DriverResult<_>>()?, edges })
    }

    /// The step that was made from a node, also in child graphs.
    fn step(&mut self, node: Handle) -> Option<&mut Step> {
        let mut children = Vec::new();
        for step in &mut self.steps {
            if step.node == node {
                return Some(step);
            }
            children.extend(step.child.as_mut());
        }
        children.into_iter().find_map(|child| child.step(node))
    }

    /// Appends all nodes to `out`, those of child graphs in the place of their node. The first ones
    /// depend on the nodes `dependencies`. Returns the last ones, on which everything after this
    /// plan depends.
    fn append_nodes(&self, dependencies: &[usize], out: &mut Vec<LaunchNode>) -> Vec<usize> {
        let mut before = vec![Vec::new(); self.steps.len()];
        let mut is_last = vec![true; self.steps.len()];
        for &(from, to) in &self.edges {
            before[to].push(from);
            is_last[from] = false;
        }
        let mut ends: Vec<Vec<usize>> = Vec::new();
        for (step, before) in self.steps.iter().zip(before) {
            let mut after: Vec<usize> =
                before.iter().flat_map(|&from| ends[from].iter().copied()).collect();
            after.sort_unstable();
            after.dedup();
            if after.is_empty() {
                after.extend(dependencies);
            }
            ends.push(step.append_nodes(after, out));
        }
        let last = ends.into_iter().zip(is_last).filter(|(_, is_last)| *is_last);
        let last: Vec<usize> = last.flat_map(|(ends, _)| ends).collect();
        if last.is_empty() { dependencies.to_vec() } else { last }
    }

    /// The first difference to another plan that prevents an update: its result code, and the node.
    fn difference(&self, other: &Self) -> Option<(i32, Option<Handle>)> {
        const TOPOLOGY: i32 = 2;
        const NODE_TYPE: i32 = 3;
        if self.steps.len() != other.steps.len() || self.edges != other.edges {
            return Some((TOPOLOGY, None));
        }
        self.steps.iter().zip(&other.steps).find_map(|(own, other)| {
            if own.operation.node_type() != other.operation.node_type() {
                return Some((NODE_TYPE, Some(other.node)));
            }
            own.child.as_ref().zip(other.child.as_ref())?.0.difference(other.child.as_ref()?)
        })
    }

    /// Takes the operations of another plan of the same topology.
    fn update(&mut self, other: Self) {
        for (own, other) in self.steps.iter_mut().zip(other.steps) {
            match (&mut own.child, other.child) {
                (Some(own), Some(other)) => own.update(other),
                _ => own.operation = other.operation,
            }
        }
    }
}

/// The plan of an operation that is a child graph.
fn child_plan(operation: &SharedOperation) -> DriverResult<Option<Plan>> {
    operation.downcast_ref().map(|ChildGraph(child)| Plan::new(child)).transpose()
}

impl Step {
    /// Appends the nodes of this step to `out`. A disabled step becomes an empty node.
    fn append_nodes(&self, after: Vec<usize>, out: &mut Vec<LaunchNode>) -> Vec<usize> {
        if let Some(child) = self.child.as_ref().filter(|_| self.enabled) {
            return child.append_nodes(&after, out);
        }
        let operation = if self.enabled { self.operation.clone() } else { Arc::new(Empty) };
        out.push(LaunchNode { operation, after });
        vec![out.len() - 1]
    }
}

/// Instantiates a graph.
fn instantiate(graph: CUgraph, flags: u64) -> DriverResult<GraphExec> {
    let graph = graph::from_handle(graph)?;
    let odd = flags & !(FREE_ON_LAUNCH | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY);
    if odd != 0 {
        return Err(invalid_value(format!("flags {flags:#x} have the unknown bits {odd:#x}")));
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(not_supported("the emulator's kernels cannot launch graphs"));
    }
    Ok(GraphExec { flags, plan: Mutex::new(Plan::new(&graph)?), branches: Mutex::default() })
}

pub(crate) fn cuGraphInstantiateWithFlags(
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    flags: u64,
) -> DriverResult {
    exec.check()?;
    capture::check_unsafe()?;
    exec.set(GRAPH_EXECS.add(instantiate(graph, flags)?).as_ptr())
}

/// The error goes to the log, if there is room for it.
pub(crate) fn cuGraphInstantiate_v2(
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    log: Out<c_char>,
    log_bytes: usize,
) -> DriverResult {
    error_node.set_if_wanted(std::ptr::null_mut());
    let answer = cuGraphInstantiateWithFlags(exec, graph, 0);
    if log.check().is_ok() && log_bytes > 0 {
        let message = answer.as_ref().err().map_or("", |failure| &failure.text);
        let len = message.len().min(log_bytes - 1);
        let bytes = message.as_bytes()[..len].iter().chain([&0]);
        bytes.enumerate().for_each(|(at, byte)| log.set_at(at, *byte as c_char));
    }
    answer
}

pub(crate) fn cuGraphInstantiateWithParams(
    exec: Out<CUgraphExec>,
    graph: CUgraph,
    params: Out<InstantiateParams>,
) -> DriverResult {
    params.check()?;
    let asked = params.get_at(0);
    let answer = cuGraphInstantiateWithFlags(exec, graph, asked.flags);
    // `CUDA_GRAPH_INSTANTIATE_SUCCESS` or `CUDA_GRAPH_INSTANTIATE_INVALID_STRUCTURE`.
    let result = if answer.is_ok() { 0 } else { 2 };
    params.set(InstantiateParams { error_node: std::ptr::null_mut(), result, ..asked })?;
    answer
}

pub(crate) fn cuGraphExecGetFlags(exec: CUgraphExec, flags: Out<u64>) -> DriverResult {
    flags.set(GRAPH_EXECS.get(exec)?.flags)
}

pub(crate) fn cuGraphExecDestroy(exec: CUgraphExec) -> DriverResult {
    GRAPH_EXECS.get(exec)?;
    capture::check_unsafe()?;
    GRAPH_EXECS.remove(exec).map(drop)
}

/// There is nothing to upload, but the call keeps its position in the stream.
pub(crate) fn cuGraphUpload(exec: CUgraphExec, stream: CUstream) -> DriverResult {
    GRAPH_EXECS.get(exec)?;
    let (context, stream) = stream::from_handle(stream)?;
    capture::refuse(&stream, crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    stream::enqueue(&context, &stream, Arc::new(Empty))
}

/// A launch of a graph cannot be captured.
pub(crate) fn cuGraphLaunch(exec: CUgraphExec, stream: CUstream) -> DriverResult {
    let ready = GRAPH_EXECS.get(exec)?;
    let (context, stream) = stream::from_handle(stream)?;
    capture::refuse(&stream, crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_implicit(&context, &stream)?;
    launch(&ready, &context, &stream)
}

fn launch(ready: &Arc<GraphExec>, context: &Arc<Context>, stream: &Stream) -> DriverResult {
    let mut branches = lock(&ready.branches);
    let mut nodes = Vec::new();
    lock(&ready.plan).append_nodes(&[], &mut nodes);
    let free_first = ready.flags & FREE_ON_LAUNCH != 0;
    for node in &nodes {
        node.operation.before_launch(free_first)?;
    }
    // The graph's memory is kept until the launch has finished.
    let kept = lock(&ready.plan).clone();
    branches.launch(context, stream, nodes, kept)
}

/// Replaces the operation of a step by one of the same type.
pub(super) fn set_operation(
    exec: CUgraphExec,
    node: CUgraphNode,
    operation: SharedOperation,
) -> DriverResult {
    let ready = GRAPH_EXECS.get(exec)?;
    let mut plan = lock(&ready.plan);
    let step = plan
        .step(node.into())
        .ok_or_else(|| invalid_value("the executable graph has no such node"))?;
    if step.operation.node_type() != operation.node_type() {
        return Err(invalid_value("the node has another type"));
    }
    let child = child_plan(&operation)?;
    if let (Some(own), Some(new)) = (&step.child, &child)
        && own.difference(new).is_some()
    {
        return Err(invalid_value("the graph's topology differs from that of the node's graph"));
    }
    (step.operation, step.child) = (operation, child);
    Ok(())
}

/// Kernel, memcpy and memset nodes can be disabled.
pub(crate) fn cuGraphNodeSetEnabled(
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: u32,
) -> DriverResult {
    with_enabled_flag(exec, node, |flag| *flag = enabled != 0)
}

pub(crate) fn cuGraphNodeGetEnabled(
    exec: CUgraphExec,
    node: CUgraphNode,
    enabled: Out<u32>,
) -> DriverResult {
    enabled.check()?;
    with_enabled_flag(exec, node, |flag| enabled.set_if_wanted((*flag).into()))
}

fn with_enabled_flag(
    exec: CUgraphExec,
    node: CUgraphNode,
    act: impl FnOnce(&mut bool),
) -> DriverResult {
    let ready = GRAPH_EXECS.get(exec)?;
    let mut plan = lock(&ready.plan);
    let step = plan
        .step(node.into())
        .ok_or_else(|| invalid_value("the executable graph has no such node"))?;
    if !matches!(step.operation.node_type(), NodeType::Kernel | NodeType::Memcpy | NodeType::Memset)
    {
        return Err(invalid_value("only kernel, memcpy and memset nodes can be disabled"));
    }
    act(&mut step.enabled);
    Ok(())
}

fn update(exec: CUgraphExec, graph: CUgraph) -> DriverResult<Result<(), (i32, Option<Handle>)>> {
    let ready = GRAPH_EXECS.get(exec)?;
    let graph = graph::from_handle(graph)?;
    let new = Plan::new(&graph)?;
    let mut plan = lock(&ready.plan);
    if let Some(difference) = plan.difference(&new) {
        return Ok(Err(difference));
    }
    plan.update(new);
    Ok(Ok(()))
}

fn not_updated() -> DriverError {
    let text = "the graph's topology differs from that of the executable graph";
    DriverError::new(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, text)
}

fn pointer(node: Option<Handle>) -> CUgraphNode {
    node.map_or(std::ptr::null_mut(), Handle::as_ptr)
}

pub(crate) fn cuGraphExecUpdate(
    exec: CUgraphExec,
    graph: CUgraph,
    error_node: Out<CUgraphNode>,
    result: Out<i32>,
) -> DriverResult {
    result.check()?;
    let answer = update(exec, graph)?;
    let (code, node) = answer.err().unwrap_or((0, None));
    result.set(code)?;
    error_node.set_if_wanted(pointer(node));
    answer.map_err(|_| not_updated())
}

pub(crate) fn cuGraphExecUpdate_v2(
    exec: CUgraphExec,
    graph: CUgraph,
    result: Out<UpdateResult>,
) -> DriverResult {
    result.check()?;
    let answer = update(exec, graph)?;
    let (code, node) = answer.err().unwrap_or((0, None));
    let error_from_node = std::ptr::null_mut();
    result.set(UpdateResult { result: code, error_node: pointer(node), error_from_node })?;
    answer.map_err(|_| not_updated())
}
