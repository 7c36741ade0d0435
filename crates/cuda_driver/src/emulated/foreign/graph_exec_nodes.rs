//! Changes of single nodes in an executable graph, and nodes of any type by one structure.
#![allow(non_snake_case)]

use std::sync::Arc;

use super::graph_nodes::{allocation, free, values};
use crate::abi::{CUdeviceptr, CUevent, CUobject, In, Out};
use crate::detail::Answer;
use crate::emulated::event::{RecordEvent, WaitEvent};
use crate::emulated::graph_exec::put;
use crate::emulated::graph_memory::GraphMemory;
use crate::emulated::graph_nodes::{self, child, copy, fill, host, kernel};
use crate::emulated::operation::{Empty, SharedOperation};
use crate::emulated::{event, graph, invalid, lacking};
use crate::structs::*;

pub(crate) fn cuGraphExecKernelNodeSetParams_v2(
    exec: CUobject,
    node: CUobject,
    params: In<KernelNodeParams2>,
) -> Answer {
    put(exec, node, kernel(params, true)?)
}

pub(crate) fn cuGraphExecHostNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<HostNodeParams>,
) -> Answer {
    put(exec, node, host(params)?)
}

pub(crate) fn cuGraphExecEventRecordNodeSetEvent(
    exec: CUobject,
    node: CUobject,
    event: CUevent,
) -> Answer {
    put(exec, node, Arc::new(RecordEvent(event::check(event)?)))
}

pub(crate) fn cuGraphExecEventWaitNodeSetEvent(
    exec: CUobject,
    node: CUobject,
    event: CUevent,
) -> Answer {
    put(exec, node, Arc::new(WaitEvent(event::check(event)?)))
}

pub(crate) fn cuGraphExecBatchMemOpNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<BatchMemOpNodeParams>,
) -> Answer {
    put(exec, node, values(params)?)
}

/// What a node of any kind does. A node that allocates has its place for the address besides.
fn any(params: &NodeParams) -> Answer<SharedOperation> {
    let at = |word: usize| In::from(&params.params[word..]);
    match params.kind {
        0 => kernel(at(0).cast(), true),
        // Flags and a context come first.
        1 => copy(at(2).cast()),
        2 => fill(at(0).cast()),
        3 => host(at(0).cast()),
        4 => child(None, at(0).cast::<CUobject>().get()?),
        5 => Ok(Arc::new(Empty)),
        6 => Ok(Arc::new(WaitEvent(event::check(at(0).cast::<CUevent>().get()?)?))),
        7 => Ok(Arc::new(RecordEvent(event::check(at(0).cast::<CUevent>().get()?)?))),
        10 => {
            let params = at(0).cast::<MemAllocNodeParams>().get()?;
            Ok(allocation(&params)?)
        }
        11 => free(at(0).cast::<CUdeviceptr>().get()?),
        12 => values(at(0).cast()),
        8 | 9 | 13 => Err(lacking("the emulator's graphs have no semaphores and no conditions")),
        odd => Err(invalid(format!("{odd} is no kind of node"))),
    }
}

pub(crate) fn cuGraphAddNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: Out<NodeParams>,
) -> Answer {
    params.check()?;
    let mut asked = params.get_at(0);
    let operation = any(&asked)?;
    if let Some(memory) = operation.downcast_ref::<GraphMemory>() {
        let place = std::mem::offset_of!(MemAllocNodeParams, address) / size_of::<u64>();
        asked.params[place] = memory.address;
    }
    graph_nodes::add(node, graph, dependencies, n_dependencies, operation)?;
    params.set(asked)
}

pub(crate) fn cuGraphAddNode_v2(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    edges: In<u64>,
    n_dependencies: usize,
    params: Out<NodeParams>,
) -> Answer {
    graph::check_edges(edges, n_dependencies)?;
    cuGraphAddNode(node, graph, dependencies, n_dependencies, params)
}

pub(crate) fn cuGraphNodeSetParams(node: CUobject, params: In<NodeParams>) -> Answer {
    graph_nodes::put(node, any(&params.get()?)?)
}

pub(crate) fn cuGraphExecNodeSetParams(
    exec: CUobject,
    node: CUobject,
    params: In<NodeParams>,
) -> Answer {
    put(exec, node, any(&params.get()?)?)
}
