//! Nodes of a graph: making them, and what they do.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::callback::HostCall;
use super::fill::Fill;
use super::graph::{self, ChildGraph, Graph};
use super::launch::Call;
use super::operation::{Empty, Operation, SharedOperation};
use super::{boxes, current, invalid, lock};
use crate::abi::{CUcontext, CUobject, In, Out};
use crate::detail::{Answer, Failure};
use crate::structs::*;

/// Adds a node that does `operation`.
pub(super) fn add(
    place: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    operation: SharedOperation,
) -> Answer {
    place.check()?;
    let graph = graph::named(graph)?;
    let behind = graph::list(dependencies, n_dependencies)?;
    place.set(graph.add(operation, &behind)?.as_ptr())
}

/// Puts another operation of the same kind into a node.
pub(super) fn put(node: CUobject, operation: SharedOperation) -> Answer {
    let node = graph::node(node)?;
    let mut place = lock(&node.operation);
    if place.node_type() != operation.node_type() {
        return Err(other_type());
    }
    *place = operation;
    Ok(())
}

fn other_type() -> Failure {
    invalid("the node is of another kind")
}

/// What a node's operation of type `T` answers; an error where the node does something else.
pub(super) fn ask<T: Operation, R>(node: CUobject, question: impl FnOnce(&T) -> R) -> Answer<R> {
    let operation = graph::node(node)?.operation();
    operation.downcast_ref().map(question).ok_or_else(other_type)
}

/// A kernel's launch as a node describes it. The function may be one of a library, too.
pub(super) fn kernel(params: In<KernelNodeParams2>, has_kernel: bool) -> Answer<SharedOperation> {
    let first = params.cast::<KernelNodeParams>().get()?;
    let function = match first.function.is_null() && has_kernel {
        true => params.get()?.kernel,
        false => first.function,
    };
    let call = Call::for_node(function, &first)?;
    Ok(Arc::new(call))
}

pub(crate) fn cuGraphAddKernelNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<KernelNodeParams>,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphKernelNodeGetParams(node: CUobject, params: Out<KernelNodeParams>) -> Answer {
    params.set(ask(node, Call::describe)?)
}

/// A copy as a node describes it.
pub(super) fn copy(params: In<Copy3D>) -> Answer<SharedOperation> {
    let copy = boxes::plan(&params.get()?)?;
    if copy.is_empty() {
        return Err(invalid("a node that copies nothing"));
    }
    copy.check()?;
    Ok(Arc::new(copy))
}

/// The context that a node names has to be there; null is the current one.
pub(super) fn check_context(context: CUcontext) -> Answer {
    if context.is_null() { current::current()?.check() } else { current::named(context)?.check() }
}

pub(crate) fn cuGraphAddMemcpyNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<Copy3D>,
    context: CUcontext,
) -> Answer {
    check_context(context)?;
    add(node, graph, dependencies, n_dependencies, copy(params)?)
}

pub(super) fn fill(params: In<MemsetNodeParams>) -> Answer<SharedOperation> {
    Ok(Arc::new(Fill::from_node(&params.get()?)?))
}

pub(crate) fn cuGraphAddMemsetNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<MemsetNodeParams>,
    context: CUcontext,
) -> Answer {
    check_context(context)?;
    add(node, graph, dependencies, n_dependencies, fill(params)?)
}

pub(super) fn host(params: In<HostNodeParams>) -> Answer<SharedOperation> {
    Ok(Arc::new(HostCall::new(params.get()?)?))
}

pub(crate) fn cuGraphAddHostNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<HostNodeParams>,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, host(params)?)
}

/// A node holds a clone of the graph, which later changes of the graph do not touch.
pub(super) fn child(parent: Option<&Graph>, child: CUobject) -> Answer<SharedOperation> {
    let child = graph::named(child)?;
    if parent.is_some_and(|parent| parent.handle == child.handle) {
        return Err(invalid("a graph cannot be a node of itself"));
    }
    Ok(Arc::new(ChildGraph(child.copy()?)))
}

pub(crate) fn cuGraphAddChildGraphNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    inner: CUobject,
) -> Answer {
    let parent = graph::named(graph)?;
    add(node, graph, dependencies, n_dependencies, child(Some(&parent), inner)?)
}

pub(crate) fn cuGraphAddEmptyNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, Arc::new(Empty))
}

pub(crate) fn cuGraphKernelNodeSetAttribute(
    node: CUobject,
    id: u32,
    value: In<AttributeValue>,
) -> Answer {
    let call = ask(node, |call: &Call| {
        let mut attributes = call.attributes.clone();
        attributes.get(id)?;
        attributes.set(id, value.get()?)?;
        call.with(attributes)
    })??;
    put(node, Arc::new(call))
}
