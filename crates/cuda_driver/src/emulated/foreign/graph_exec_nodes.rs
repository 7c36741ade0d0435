//! Changes of single nodes of an executable graph, and `cuGraphAddNode` and its kin, which take
//! nodes of any type.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::graph_nodes::{allocation, free, values};
use crate::abi::{CUdeviceptr, CUevent, CUgraph, CUgraphExec, CUgraphNode, In, Out};
use crate::detail::DriverResult;
use crate::emulated::event::{RecordEvent, WaitEvent};
use crate::emulated::graph_exec::set_operation;
use crate::emulated::graph_memory::GraphMemory;
use crate::emulated::graph_nodes::{self, child, copy, host, kernel, memset};
use crate::emulated::operation::{Empty, SharedOperation};
use crate::emulated::{event, graph, invalid_value, not_supported};
use crate::structs::*;

pub(crate) fn cuGraphExecKernelNodeSetParams_v2(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<KernelNodeParamsV2>,
) -> DriverResult {
    set_operation(exec, node, kernel(params, true)?)
}

pub(crate) fn cuGraphExecHostNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<HostNodeParams>,
) -> DriverResult {
    set_operation(exec, node, host(params)?)
}

pub(crate) fn cuGraphExecEventRecordNodeSetEvent(
    exec: CUgraphExec,
    node: CUgraphNode,
    event: CUevent,
) -> DriverResult {
    set_operation(exec, node, Arc::new(RecordEvent(event::check(event)?)))
}

pub(crate) fn cuGraphExecEventWaitNodeSetEvent(
    exec: CUgraphExec,
    node: CUgraphNode,
    event: CUevent,
) -> DriverResult {
    set_operation(exec, node, Arc::new(WaitEvent(event::check(event)?)))
}

pub(crate) fn cuGraphExecBatchMemOpNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<BatchMemOpNodeParams>,
) -> DriverResult {
    set_operation(exec, node, values(params)?)
}

/// The operation of a node of any type.
fn any(params: &NodeParams) -> DriverResult<SharedOperation> {
    let at = |word: usize| In::from(&params.params[word..]);
    match params.kind {
        0 => kernel(at(0).cast(), true),
        // Preceded by flags and a context.
        1 => copy(at(2).cast()),
        2 => memset(at(0).cast()),
        3 => host(at(0).cast()),
        4 => child(None, at(0).cast::<CUgraph>().get()?),
        5 => Ok(Arc::new(Empty)),
        6 => Ok(Arc::new(WaitEvent(event::check(at(0).cast::<CUevent>().get()?)?))),
        7 => Ok(Arc::new(RecordEvent(event::check(at(0).cast::<CUevent>().get()?)?))),
        10 => {
            let params = at(0).cast::<MemAllocNodeParams>().get()?;
            Ok(allocation(&params)?)
        }
        11 => free(at(0).cast::<CUdeviceptr>().get()?),
        12 => values(at(0).cast()),
        8 | 9 | 13 => Err(not_supported(
            "the emulator's graphs have no semaphore nodes and no conditional nodes",
        )),
        odd => Err(invalid_value(format!("{odd} is not a node type"))),
    }
}

pub(crate) fn cuGraphAddNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: Out<NodeParams>,
) -> DriverResult {
    params.check()?;
    let mut asked = params.get_at(0);
    let operation = any(&asked)?;
    if let Some(memory) = operation.downcast_ref::<GraphMemory>() {
        let word = std::mem::offset_of!(MemAllocNodeParams, address) / size_of::<u64>();
        asked.params[word] = memory.address;
    }
    graph_nodes::add(node, graph, dependencies, n_dependencies, operation)?;
    params.set(asked)
}

pub(crate) fn cuGraphAddNode_v2(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    edges: In<u64>,
    n_dependencies: usize,
    params: Out<NodeParams>,
) -> DriverResult {
    graph::check_edges(edges, n_dependencies)?;
    cuGraphAddNode(node, graph, dependencies, n_dependencies, params)
}

pub(crate) fn cuGraphNodeSetParams(node: CUgraphNode, params: In<NodeParams>) -> DriverResult {
    graph_nodes::set_operation(node, any(&params.get()?)?)
}

pub(crate) fn cuGraphExecNodeSetParams(
    exec: CUgraphExec,
    node: CUgraphNode,
    params: In<NodeParams>,
) -> DriverResult {
    set_operation(exec, node, any(&params.get()?)?)
}
