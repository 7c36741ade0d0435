//! Changes of single nodes in an executable graph.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::graph;
use super::graph::ChildGraph;
use super::graph_exec::put;
use super::graph_nodes::{check_context, copy, fill, kernel};
use crate::abi::{CUcontext, CUobject, In};
use crate::detail::Answer;
use crate::structs::*;

pub(crate) fn cuGraphExecKernelNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<KernelNodeParams>,
) -> Answer {
    put(exec, node, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphExecMemcpyNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<Copy3D>,
    context: CUcontext,
) -> Answer {
    check_context(context)?;
    put(exec, node, copy(params)?)
}

pub(crate) fn cuGraphExecMemsetNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<MemsetNodeParams>,
    context: CUcontext,
) -> Answer {
    check_context(context)?;
    put(exec, node, fill(params)?)
}

pub(crate) fn cuGraphExecChildGraphNodeSetParams(
    exec: CUobject,
    node: CUobject,
    inner: CUobject,
) -> Answer {
    let inner = graph::named(inner)?.copy()?;
    let done = put(exec, node, Arc::new(ChildGraph(inner.clone())));
    // What is launched has the operations; nobody knows their graph.
    graph::Graph::destroy(inner.handle.as_ptr())?;
    done
}
