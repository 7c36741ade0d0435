//! Changes of single nodes of an executable graph.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::graph;
use super::graph::ChildGraph;
use super::graph_exec::set_operation;
use super::graph_nodes::{check_context, copy, kernel, memset};
use crate::abi::{CUcontext, CUgraph, CUgraphExec, CUgraphNode, In};
use crate::detail::DriverResult;
use crate::structs::*;

pub(crate) fn cuGraphExecKernelNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<KernelNodeParams>,
) -> DriverResult {
    set_operation(exec, node, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphExecMemcpyNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<Copy3D>,
    context: CUcontext,
) -> DriverResult {
    check_context(context)?;
    set_operation(exec, node, copy(params)?)
}

pub(crate) fn cuGraphExecMemsetNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<MemsetNodeParams>,
    context: CUcontext,
) -> DriverResult {
    check_context(context)?;
    set_operation(exec, node, memset(params)?)
}

pub(crate) fn cuGraphExecChildGraphNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    inner: CUgraph,
) -> DriverResult {
    let inner = graph::from_handle(inner)?.copy()?;
    let done = set_operation(exec, node, Arc::new(ChildGraph(inner.clone())));
    // The executable graph shares the operations; no handle of the clone was given out.
    graph::Graph::destroy(inner.handle.as_ptr())?;
    done
}
