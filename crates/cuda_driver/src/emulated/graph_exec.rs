//! Graphs made ready, and launched.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::sync::{Arc, Mutex};

use super::current::Context;
use super::graph::{self, ChildGraph, Graph};
use super::graph_lanes::{Lanes, Task};
use super::operation::{Empty, SharedOperation};
use super::registry::{Handle, Registry};
use super::stream::{self, Stream};
use super::{capture, invalid, lacking, lock};
use crate::abi::{CUobject, CUstream, Out};
use crate::codes::CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
use crate::detail::{Answer, Failure};
use crate::structs::{InstantiateParams, UpdateResult};

/// Memory that the last launch left is freed by the next.
const FREE_ON_LAUNCH: u64 = 1;
/// The graph goes to the device at once: it is there.
const UPLOAD: u64 = 2;
/// Kernels launch the graph.
const DEVICE_LAUNCH: u64 = 4;
/// Kernels have the priorities of their nodes: streams have none here.
const NODE_PRIORITY: u64 = 8;

/// A graph made ready: a copy of what it was.
pub(super) struct Ready {
    flags: u64,
    plan: Mutex<Plan>,
    lanes: Mutex<Lanes>,
}

/// The nodes in an order in which they can be done, and the edges by places in it.
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
    /// The steps of a node that is a graph.
    child: Option<Plan>,
}

static READY: Registry<Ready> = Registry::new("executable graph");

/// How many programs have.
pub(super) fn live() -> usize {
    READY.count(|_| true)
}

impl Plan {
    fn new(graph: &Graph) -> Answer<Self> {
        let order = graph.ordered()?;
        let place = |handle| order.iter().position(|node| node.handle == handle);
        let (_, edges) = graph.parts();
        let edges = edges.iter().filter_map(|(from, to)| place(*from).zip(place(*to))).collect();
        let step = |node: &Arc<graph::Node>| {
            let operation = node.operation();
            let child = child_plan(&operation)?;
            Ok(Step { node: node.handle, operation, enabled: true, child })
        };
        Ok(Self { steps: order.iter().map(step).collect::<Answer<_>>()?, edges })
    }

    /// The step that was made from a node, in graphs that are nodes too.
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

    /// All tasks, those of graphs that are nodes in their place; the first ones come after `behind`.
    /// Returns the last ones, after which comes what comes after all.
    fn tasks(&self, behind: &[usize], out: &mut Vec<Task>) -> Vec<usize> {
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
                after.extend(behind);
            }
            ends.push(step.tasks(after, out));
        }
        let last = ends.into_iter().zip(is_last).filter(|(_, is_last)| *is_last);
        let last: Vec<usize> = last.flat_map(|(ends, _)| ends).collect();
        if last.is_empty() { behind.to_vec() } else { last }
    }

    /// Where another graph of the same shape differs from this one.
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

    /// Takes over the operations of another graph of the same shape.
    fn update(&mut self, other: Self) {
        for (own, other) in self.steps.iter_mut().zip(other.steps) {
            match (&mut own.child, other.child) {
                (Some(own), Some(other)) => own.update(other),
                _ => own.operation = other.operation,
            }
        }
    }
}

/// The plan of an operation that is a graph.
fn child_plan(operation: &SharedOperation) -> Answer<Option<Plan>> {
    operation.downcast_ref().map(|ChildGraph(child)| Plan::new(child)).transpose()
}

impl Step {
    /// The same of one step. One that is left out has only its place in the order.
    fn tasks(&self, after: Vec<usize>, out: &mut Vec<Task>) -> Vec<usize> {
        if let Some(child) = self.child.as_ref().filter(|_| self.enabled) {
            return child.tasks(&after, out);
        }
        let operation = if self.enabled { self.operation.clone() } else { Arc::new(Empty) };
        out.push(Task { operation, after });
        vec![out.len() - 1]
    }
}

/// A graph made ready.
fn ready(graph: CUobject, flags: u64) -> Answer<Ready> {
    let graph = graph::named(graph)?;
    let odd = flags & !(FREE_ON_LAUNCH | UPLOAD | DEVICE_LAUNCH | NODE_PRIORITY);
    if odd != 0 {
        return Err(invalid(format!("flags {flags:#x} have the unknown bits {odd:#x}")));
    }
    if flags & DEVICE_LAUNCH != 0 {
        return Err(lacking("the emulator's kernels do not launch graphs"));
    }
    Ok(Ready { flags, plan: Mutex::new(Plan::new(&graph)?), lanes: Mutex::default() })
}

pub(crate) fn cuGraphInstantiateWithFlags(
    exec: Out<CUobject>,
    graph: CUobject,
    flags: u64,
) -> Answer {
    exec.check()?;
    capture::check_unsafe()?;
    exec.set(READY.add(ready(graph, flags)?).as_ptr())
}

/// The log says what is wrong, where there is room for it.
pub(crate) fn cuGraphInstantiate_v2(
    exec: Out<CUobject>,
    graph: CUobject,
    error_node: Out<CUobject>,
    log: Out<c_char>,
    log_bytes: usize,
) -> Answer {
    error_node.set_if_wanted(std::ptr::null_mut());
    let answer = cuGraphInstantiateWithFlags(exec, graph, 0);
    if log.check().is_ok() && log_bytes > 0 {
        let words = answer.as_ref().err().map_or("", |failure| &failure.text);
        let len = words.len().min(log_bytes - 1);
        let bytes = words.as_bytes()[..len].iter().chain([&0]);
        bytes.enumerate().for_each(|(at, byte)| log.set_at(at, *byte as c_char));
    }
    answer
}

pub(crate) fn cuGraphInstantiateWithParams(
    exec: Out<CUobject>,
    graph: CUobject,
    params: Out<InstantiateParams>,
) -> Answer {
    params.check()?;
    let asked = params.get_at(0);
    let answer = cuGraphInstantiateWithFlags(exec, graph, asked.flags);
    // Success, or a structure that is not valid.
    let result = if answer.is_ok() { 0 } else { 2 };
    params.set(InstantiateParams { error_node: std::ptr::null_mut(), result, ..asked })?;
    answer
}

pub(crate) fn cuGraphExecGetFlags(exec: CUobject, flags: Out<u64>) -> Answer {
    flags.set(READY.get(exec)?.flags)
}

pub(crate) fn cuGraphExecDestroy(exec: CUobject) -> Answer {
    READY.get(exec)?;
    capture::check_unsafe()?;
    READY.remove(exec).map(drop)
}

/// There is nothing to bring to the device; it keeps its place in the stream.
pub(crate) fn cuGraphUpload(exec: CUobject, stream: CUstream) -> Answer {
    READY.get(exec)?;
    let (context, stream) = stream::named(stream)?;
    capture::refuse(&stream, crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    stream::enqueue(&context, &stream, Arc::new(Empty))
}

/// A launch of a graph cannot be captured.
pub(crate) fn cuGraphLaunch(exec: CUobject, stream: CUstream) -> Answer {
    let ready = READY.get(exec)?;
    let (context, stream) = stream::named(stream)?;
    capture::refuse(&stream, crate::codes::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)?;
    capture::check_implicit(&context, &stream)?;
    launch(&ready, &context, &stream)
}

fn launch(ready: &Arc<Ready>, context: &Arc<Context>, stream: &Stream) -> Answer {
    let mut lanes = lock(&ready.lanes);
    let mut tasks = Vec::new();
    lock(&ready.plan).tasks(&[], &mut tasks);
    let free_first = ready.flags & FREE_ON_LAUNCH != 0;
    for task in &tasks {
        task.operation.before_launch(free_first)?;
    }
    // The graph's memory is kept until all of it is done.
    let kept = lock(&ready.plan).clone();
    lanes.launch(context, stream, tasks, kept)
}

/// Puts another operation of the same kind into a step.
pub(super) fn put(exec: CUobject, node: CUobject, operation: SharedOperation) -> Answer {
    let ready = READY.get(exec)?;
    let mut plan = lock(&ready.plan);
    let step = plan.step(node.into()).ok_or_else(|| invalid("the graph has no such node"))?;
    if step.operation.node_type() != operation.node_type() {
        return Err(invalid("the node is of another kind"));
    }
    let child = child_plan(&operation)?;
    if let (Some(own), Some(new)) = (&step.child, &child)
        && own.difference(new).is_some()
    {
        return Err(invalid("the graph has another shape than the node's"));
    }
    (step.operation, step.child) = (operation, child);
    Ok(())
}

/// Nodes that do kernels, copies and fills can be left out.
pub(crate) fn cuGraphNodeSetEnabled(exec: CUobject, node: CUobject, enabled: u32) -> Answer {
    with_switch(exec, node, |place| *place = enabled != 0)
}

pub(crate) fn cuGraphNodeGetEnabled(exec: CUobject, node: CUobject, enabled: Out<u32>) -> Answer {
    enabled.check()?;
    with_switch(exec, node, |place| enabled.set_if_wanted((*place).into()))
}

fn with_switch(exec: CUobject, node: CUobject, act: impl FnOnce(&mut bool)) -> Answer {
    let ready = READY.get(exec)?;
    let mut plan = lock(&ready.plan);
    let step = plan.step(node.into()).ok_or_else(|| invalid("the graph has no such node"))?;
    if step.operation.node_type() > 2 {
        return Err(invalid("only kernels, copies and fills can be left out"));
    }
    act(&mut step.enabled);
    Ok(())
}

fn update(exec: CUobject, graph: CUobject) -> Answer<Result<(), (i32, Option<Handle>)>> {
    let ready = READY.get(exec)?;
    let graph = graph::named(graph)?;
    let new = Plan::new(&graph)?;
    let mut plan = lock(&ready.plan);
    if let Some(difference) = plan.difference(&new) {
        return Ok(Err(difference));
    }
    plan.update(new);
    Ok(Ok(()))
}

fn not_updated() -> Failure {
    let text = "the graph has another shape than the one that was made ready";
    Failure::new(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, text)
}

fn pointer(node: Option<Handle>) -> CUobject {
    node.map_or(std::ptr::null_mut(), Handle::as_ptr)
}

pub(crate) fn cuGraphExecUpdate(
    exec: CUobject,
    graph: CUobject,
    error_node: Out<CUobject>,
    result: Out<i32>,
) -> Answer {
    result.check()?;
    let answer = update(exec, graph)?;
    let (code, node) = answer.err().unwrap_or((0, None));
    result.set(code)?;
    error_node.set_if_wanted(pointer(node));
    answer.map_err(|_| not_updated())
}

pub(crate) fn cuGraphExecUpdate_v2(
    exec: CUobject,
    graph: CUobject,
    result: Out<UpdateResult>,
) -> Answer {
    result.check()?;
    let answer = update(exec, graph)?;
    let (code, node) = answer.err().unwrap_or((0, None));
    let error_from_node = std::ptr::null_mut();
    result.set(UpdateResult { result: code, error_node: pointer(node), error_from_node })?;
    answer.map_err(|_| not_updated())
}
