//! Nodes of a graph: the types that streams are not captured into by the host crate, and the
//! parameters of nodes that exist.
#![allow(non_snake_case)]

use std::sync::Arc;

use crate::abi::{CUdeviceptr, CUevent, CUobject, HostPtr, In, MemLocation, Out};
use crate::detail::Answer;
use crate::emulated::callback::HostCall;
use crate::emulated::event::{RecordEvent, WaitEvent};
use crate::emulated::fill::Fill;
use crate::emulated::graph::ChildGraph;
use crate::emulated::graph_memory::{self, FreeMemory, GraphMemory};
use crate::emulated::graph_nodes::{add, ask, check_context, copy, fill, host, kernel, put};
use crate::emulated::launch::Call;
use crate::emulated::operation::SharedOperation;
use crate::emulated::stream_values::MemOps;
use crate::emulated::transfer::{Copy, DEVICE, End, HOST, Place};
use crate::emulated::{current, event, invalid, lacking};
use crate::structs::*;

pub(crate) fn cuGraphAddKernelNode_v2(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<KernelNodeParams2>,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, kernel(params, true)?)
}

pub(crate) fn cuGraphKernelNodeGetParams_v2(
    node: CUobject,
    params: Out<KernelNodeParams2>,
) -> Answer {
    let (kernel, context) = (std::ptr::null_mut(), std::ptr::null_mut());
    params.set(KernelNodeParams2 { first: ask(node, Call::describe)?, kernel, context })
}

pub(crate) fn cuGraphKernelNodeSetParams(node: CUobject, params: In<KernelNodeParams>) -> Answer {
    put(node, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphKernelNodeSetParams_v2(
    node: CUobject,
    params: In<KernelNodeParams2>,
) -> Answer {
    put(node, kernel(params, true)?)
}

/// A copy that a stream was given, as a node would describe it.
fn describe_copy(copy: &Copy) -> Copy3D {
    if let Some(described) = copy.described {
        return described;
    }
    let side = |end: &End| match end.place {
        Place::Device(address) => (DEVICE, std::ptr::null_mut(), address),
        Place::Pageable(HostPtr(pointer)) => (HOST, pointer, 0),
    };
    let ((src_memory_type, src_host, src_device), (dst_memory_type, dst_host, dst_device)) =
        (side(&copy.src), side(&copy.dst));
    let null = std::ptr::null_mut();
    Copy3D {
        src_x_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type,
        src_host,
        src_device,
        src_array: null,
        src_context: null,
        src_pitch: copy.src.pitch,
        src_height: 1,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type,
        dst_host,
        dst_device,
        dst_array: null,
        dst_context: null,
        dst_pitch: copy.dst.pitch,
        dst_height: 1,
        width_bytes: copy.bytes,
        height: copy.rows,
        depth: copy.layers,
    }
}

pub(crate) fn cuGraphMemcpyNodeGetParams(node: CUobject, params: Out<Copy3D>) -> Answer {
    params.set(ask(node, describe_copy)?)
}

pub(crate) fn cuGraphMemcpyNodeSetParams(node: CUobject, params: In<Copy3D>) -> Answer {
    put(node, copy(params)?)
}

pub(crate) fn cuGraphMemsetNodeGetParams(node: CUobject, params: Out<MemsetNodeParams>) -> Answer {
    params.set(ask(node, Fill::describe)?)
}

pub(crate) fn cuGraphMemsetNodeSetParams(node: CUobject, params: In<MemsetNodeParams>) -> Answer {
    put(node, fill(params)?)
}

pub(crate) fn cuGraphHostNodeGetParams(node: CUobject, params: Out<HostNodeParams>) -> Answer {
    params.set(ask(node, |call: &HostCall| call.params)?)
}

pub(crate) fn cuGraphHostNodeSetParams(node: CUobject, params: In<HostNodeParams>) -> Answer {
    put(node, host(params)?)
}

pub(crate) fn cuGraphChildGraphNodeGetGraph(node: CUobject, graph: Out<CUobject>) -> Answer {
    graph.set(ask(node, |ChildGraph(child)| child.handle.as_ptr())?)
}

pub(crate) fn cuGraphAddEventRecordNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    event: CUevent,
) -> Answer {
    let record = Arc::new(RecordEvent(event::check(event)?));
    add(node, graph, dependencies, n_dependencies, record)
}

pub(crate) fn cuGraphAddEventWaitNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    event: CUevent,
) -> Answer {
    let wait = Arc::new(WaitEvent(event::check(event)?));
    add(node, graph, dependencies, n_dependencies, wait)
}

pub(crate) fn cuGraphEventRecordNodeGetEvent(node: CUobject, event: Out<CUevent>) -> Answer {
    event.set(ask(node, |RecordEvent(recorded)| recorded.as_ptr())?)
}

pub(crate) fn cuGraphEventRecordNodeSetEvent(node: CUobject, event: CUevent) -> Answer {
    put(node, Arc::new(RecordEvent(event::check(event)?)))
}

pub(crate) fn cuGraphEventWaitNodeGetEvent(node: CUobject, event: Out<CUevent>) -> Answer {
    event.set(ask(node, |WaitEvent(awaited)| awaited.as_ptr())?)
}

pub(crate) fn cuGraphEventWaitNodeSetEvent(node: CUobject, event: CUevent) -> Answer {
    put(node, Arc::new(WaitEvent(event::check(event)?)))
}

/// The address goes into the parameters.
pub(crate) fn cuGraphAddMemAllocNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: Out<MemAllocNodeParams>,
) -> Answer {
    params.check()?;
    let mut asked = params.get_at(0);
    let memory = allocation(&asked)?;
    asked.address = memory.address;
    add(node, graph, dependencies, n_dependencies, memory)?;
    params.set(asked)
}

/// The memory of an allocation node.
pub(super) fn allocation(params: &MemAllocNodeParams) -> Answer<Arc<GraphMemory>> {
    let context = current::current()?;
    let PoolProps { kind, location, .. } = params.pool;
    if kind != 1 || location.kind != 1 || location.id != context.gpu.ordinal {
        return Err(lacking("the emulator's graphs allocate pinned memory of the current device"));
    }
    if params.bytes == 0 {
        return Err(invalid("an allocation of no bytes"));
    }
    GraphMemory::new(params.bytes, &context)
}

pub(crate) fn cuGraphMemAllocNodeGetParams(
    node: CUobject,
    params: Out<MemAllocNodeParams>,
) -> Answer {
    let (ordinal, bytes, address) =
        ask(node, |memory: &GraphMemory| (memory.gpu.ordinal, memory.bytes, memory.address))?;
    let location = MemLocation { kind: 1, id: ordinal };
    let pool = PoolProps {
        kind: 1,
        handle_types: 0,
        location,
        security: std::ptr::null_mut(),
        max_bytes: 0,
        usage: 0,
        reserved: [0; 54],
    };
    params.set(MemAllocNodeParams { pool, access: In::NULL, n_access: 0, bytes, address })
}

/// The address has to be that of an allocation node.
pub(super) fn free(address: CUdeviceptr) -> Answer<SharedOperation> {
    match graph_memory::at(address) {
        Some(_) => Ok(Arc::new(FreeMemory(address))),
        None => Err(invalid(format!("no node of a graph allocates memory at {address:#x}"))),
    }
}

pub(crate) fn cuGraphAddMemFreeNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    address: CUdeviceptr,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, free(address)?)
}

pub(crate) fn cuGraphMemFreeNodeGetParams(node: CUobject, address: Out<CUdeviceptr>) -> Answer {
    address.set(ask(node, |FreeMemory(freed)| *freed)?)
}

pub(super) fn values(params: In<BatchMemOpNodeParams>) -> Answer<SharedOperation> {
    let BatchMemOpNodeParams { context, count, ops, flags } = params.get()?;
    check_context(context)?;
    Ok(Arc::new(MemOps::read(count, ops, flags)?))
}

pub(crate) fn cuGraphAddBatchMemOpNode(
    node: Out<CUobject>,
    graph: CUobject,
    dependencies: In<CUobject>,
    n_dependencies: usize,
    params: In<BatchMemOpNodeParams>,
) -> Answer {
    add(node, graph, dependencies, n_dependencies, values(params)?)
}

pub(crate) fn cuGraphBatchMemOpNodeGetParams(
    node: CUobject,
    params: Out<BatchMemOpNodeParams>,
) -> Answer {
    let (count, list) = ask(node, |MemOps(ops)| (ops.len() as u32, In::from(&ops[..])))?;
    let context = std::ptr::null_mut();
    params.set(BatchMemOpNodeParams { context, count, ops: list, flags: 0 })
}

pub(crate) fn cuGraphBatchMemOpNodeSetParams(
    node: CUobject,
    params: In<BatchMemOpNodeParams>,
) -> Answer {
    put(node, values(params)?)
}

pub(crate) fn cuGraphKernelNodeGetAttribute(
    node: CUobject,
    id: u32,
    value: Out<AttributeValue>,
) -> Answer {
    value.set(ask(node, |call: &Call| call.attributes.get(id))??)
}

pub(crate) fn cuGraphKernelNodeCopyAttributes(to: CUobject, from: CUobject) -> Answer {
    let attributes = ask(from, |call: &Call| call.attributes.clone())?;
    put(to, Arc::new(ask(to, |call: &Call| call.with(attributes))??))
}
