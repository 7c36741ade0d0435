//! The nodes of a graph: adding them, and setting their operations.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::callback::HostCall;
use super::graph::{self, ChildGraph, Graph};
use super::launch::Call;
use super::memset::Memset;
use super::operation::{Empty, Operation, SharedOperation};
use super::{copy_pitched, current, invalid_value, lock};
use crate::abi::{CUcontext, CUgraph, CUgraphNode, In, Out};
use crate::detail::{DriverError, DriverResult};
use crate::structs::*;

/// Adds a node that does `operation`.
pub(super) fn add(
    handle: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    operation: SharedOperation,
) -> DriverResult {
    handle.check()?;
    let graph = graph::from_handle(graph)?;
    let dependencies = graph::list(dependencies, n_dependencies)?;
    handle.set(graph.add(operation, &dependencies)?.as_ptr())
}

/// Replaces the operation of a node by one of the same type.
pub(super) fn set_operation(node: CUgraphNode, operation: SharedOperation) -> DriverResult {
    let node = graph::node(node)?;
    let mut current = lock(&node.operation);
    if current.node_type() != operation.node_type() {
        return Err(other_type());
    }
    *current = operation;
    Ok(())
}

fn other_type() -> DriverError {
    invalid_value("the node has another type")
}

/// Reads something from the operation of a node, which must be of type `T`.
pub(super) fn query<T: Operation, R>(
    node: CUgraphNode,
    get: impl FnOnce(&T) -> R,
) -> DriverResult<R> {
    let operation = graph::node(node)?.operation();
    operation.downcast_ref().map(get).ok_or_else(other_type)
}

/// The operation of a kernel node. The function may be a kernel of a library, too.
pub(super) fn kernel(
    params: In<KernelNodeParamsV2>,
    has_kernel: bool,
) -> DriverResult<SharedOperation> {
    let first = params.cast::<KernelNodeParams>().get()?;
    let function = match first.function.is_null() && has_kernel {
        true => params.get()?.kernel.cast(),
        false => first.function,
    };
    let call = Call::for_node(function, &first)?;
    Ok(Arc::new(call))
}

pub(crate) fn cuGraphAddKernelNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<KernelNodeParams>,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphKernelNodeGetParams(
    node: CUgraphNode,
    params: Out<KernelNodeParams>,
) -> DriverResult {
    params.set(query(node, Call::describe)?)
}

/// The operation of a memcpy node.
pub(super) fn copy(params: In<Copy3D>) -> DriverResult<SharedOperation> {
    let copy = copy_pitched::plan_copy(&params.get()?)?;
    if copy.is_empty() {
        return Err(invalid_value("a memcpy node must not be empty"));
    }
    copy.check()?;
    Ok(Arc::new(copy))
}

/// Fails if the context that a node names cannot be used. Null is the current context.
pub(super) fn check_context(context: CUcontext) -> DriverResult {
    if context.is_null() {
        current::current()?.check()
    } else {
        current::from_handle(context)?.check()
    }
}

pub(crate) fn cuGraphAddMemcpyNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<Copy3D>,
    context: CUcontext,
) -> DriverResult {
    check_context(context)?;
    add(node, graph, dependencies, n_dependencies, copy(params)?)
}

pub(super) fn memset(params: In<MemsetNodeParams>) -> DriverResult<SharedOperation> {
    Ok(Arc::new(Memset::from_node(&params.get()?)?))
}

pub(crate) fn cuGraphAddMemsetNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<MemsetNodeParams>,
    context: CUcontext,
) -> DriverResult {
    check_context(context)?;
    add(node, graph, dependencies, n_dependencies, memset(params)?)
}

pub(super) fn host(params: In<HostNodeParams>) -> DriverResult<SharedOperation> {
    Ok(Arc::new(HostCall::new(params.get()?)?))
}

pub(crate) fn cuGraphAddHostNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<HostNodeParams>,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, host(params)?)
}

/// The operation of a child graph node: a clone of the graph, which later changes of the graph do
/// not affect.
pub(super) fn child(parent: Option<&Graph>, child: CUgraph) -> DriverResult<SharedOperation> {
    let child = graph::from_handle(child)?;
    if parent.is_some_and(|parent| parent.handle == child.handle) {
        return Err(invalid_value("a graph cannot be its own child"));
    }
    Ok(Arc::new(ChildGraph(child.copy()?)))
}

pub(crate) fn cuGraphAddChildGraphNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    inner: CUgraph,
) -> DriverResult {
    let parent = graph::from_handle(graph)?;
    add(node, graph, dependencies, n_dependencies, child(Some(&parent), inner)?)
}

pub(crate) fn cuGraphAddEmptyNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, Arc::new(Empty))
}

pub(crate) fn cuGraphKernelNodeSetAttribute(
    node: CUgraphNode,
    id: u32,
    value: In<AttributeValue>,
) -> DriverResult {
    let call = query(node, |call: &Call| {
        let mut attributes = call.attributes.clone();
        attributes.get(id)?;
        attributes.set(id, value.get()?)?;
        call.with(attributes)
    })??;
    set_operation(node, Arc::new(call))
}
