//! The nodes of a graph: further types of nodes, and the parameters of existing nodes.
#![allow(non_snake_case)]

use std::ptr::null_mut;
use std::sync::Arc;

use crate::abi::{CUdeviceptr, CUevent, CUgraph, CUgraphNode, HostPtr, In, MemLocation, Out};
use crate::detail::DriverResult;
use crate::emulated::callback::HostCall;
use crate::emulated::event::{RecordEvent, WaitEvent};
use crate::emulated::graph::ChildGraph;
use crate::emulated::graph_memory::{self, FreeMemory, GraphMemory};
use crate::emulated::graph_nodes::{
    add, check_context, copy, host, kernel, memset, query, set_operation,
};
use crate::emulated::launch::Call;
use crate::emulated::memory_copy::{CopyAddress, CopyEnd, DEVICE, HOST, MemoryCopy};
use crate::emulated::memset::Memset;
use crate::emulated::operation::SharedOperation;
use crate::emulated::stream_memops::MemOps;
use crate::emulated::{current, event, invalid_value, not_supported};
use crate::structs::*;

pub(crate) fn cuGraphAddKernelNode_v2(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<KernelNodeParamsV2>,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, kernel(params, true)?)
}

pub(crate) fn cuGraphKernelNodeGetParams_v2(
    node: CUgraphNode,
    params: Out<KernelNodeParamsV2>,
) -> DriverResult {
    let (kernel, context) = (std::ptr::null_mut(), std::ptr::null_mut());
    params.set(KernelNodeParamsV2 { first: query(node, Call::describe)?, kernel, context })
}

pub(crate) fn cuGraphKernelNodeSetParams(
    node: CUgraphNode,
    params: In<KernelNodeParams>,
) -> DriverResult {
    set_operation(node, kernel(params.cast(), false)?)
}

pub(crate) fn cuGraphKernelNodeSetParams_v2(
    node: CUgraphNode,
    params: In<KernelNodeParamsV2>,
) -> DriverResult {
    set_operation(node, kernel(params, true)?)
}

/// The parameters of a memcpy node with this operation.
fn describe_copy(copy: &MemoryCopy) -> Copy3D {
    if let Some(described) = copy.described {
        return described;
    }
    let side = |end: &CopyEnd| match end.address {
        CopyAddress::Device(address) => (DEVICE, null_mut(), address),
        CopyAddress::Pageable(HostPtr(pointer)) => (HOST, pointer, 0),
    };
    let ((src_memory_type, src_host, src_device), (dst_memory_type, dst_host, dst_device)) =
        (side(&copy.src), side(&copy.dst));
    Copy3D {
        src_x_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type,
        src_host,
        src_device,
        src_array: null_mut(),
        src_context: null_mut(),
        src_pitch: copy.src.pitch,
        src_height: 1,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type,
        dst_host,
        dst_device,
        dst_array: null_mut(),
        dst_context: null_mut(),
        dst_pitch: copy.dst.pitch,
        dst_height: 1,
        width_bytes: copy.bytes,
        height: copy.rows,
        depth: copy.layers,
    }
}

pub(crate) fn cuGraphMemcpyNodeGetParams(node: CUgraphNode, params: Out<Copy3D>) -> DriverResult {
    params.set(query(node, describe_copy)?)
}

pub(crate) fn cuGraphMemcpyNodeSetParams(node: CUgraphNode, params: In<Copy3D>) -> DriverResult {
    set_operation(node, copy(params)?)
}

pub(crate) fn cuGraphMemsetNodeGetParams(
    node: CUgraphNode,
    params: Out<MemsetNodeParams>,
) -> DriverResult {
    params.set(query(node, Memset::describe)?)
}

pub(crate) fn cuGraphMemsetNodeSetParams(
    node: CUgraphNode,
    params: In<MemsetNodeParams>,
) -> DriverResult {
    set_operation(node, memset(params)?)
}

pub(crate) fn cuGraphHostNodeGetParams(
    node: CUgraphNode,
    params: Out<HostNodeParams>,
) -> DriverResult {
    params.set(query(node, |call: &HostCall| call.params)?)
}

pub(crate) fn cuGraphHostNodeSetParams(
    node: CUgraphNode,
    params: In<HostNodeParams>,
) -> DriverResult {
    set_operation(node, host(params)?)
}

pub(crate) fn cuGraphChildGraphNodeGetGraph(
    node: CUgraphNode,
    graph: Out<CUgraph>,
) -> DriverResult {
    graph.set(query(node, |ChildGraph(child)| child.handle.as_ptr())?)
}

pub(crate) fn cuGraphAddEventRecordNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    event: CUevent,
) -> DriverResult {
    let record = Arc::new(RecordEvent(event::check(event)?));
    add(node, graph, dependencies, n_dependencies, record)
}

pub(crate) fn cuGraphAddEventWaitNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    event: CUevent,
) -> DriverResult {
    let wait = Arc::new(WaitEvent(event::check(event)?));
    add(node, graph, dependencies, n_dependencies, wait)
}

pub(crate) fn cuGraphEventRecordNodeGetEvent(
    node: CUgraphNode,
    event: Out<CUevent>,
) -> DriverResult {
    event.set(query(node, |RecordEvent(recorded)| recorded.as_ptr())?)
}

pub(crate) fn cuGraphEventRecordNodeSetEvent(node: CUgraphNode, event: CUevent) -> DriverResult {
    set_operation(node, Arc::new(RecordEvent(event::check(event)?)))
}

pub(crate) fn cuGraphEventWaitNodeGetEvent(node: CUgraphNode, event: Out<CUevent>) -> DriverResult {
    event.set(query(node, |WaitEvent(awaited)| awaited.as_ptr())?)
}

pub(crate) fn cuGraphEventWaitNodeSetEvent(node: CUgraphNode, event: CUevent) -> DriverResult {
    set_operation(node, Arc::new(WaitEvent(event::check(event)?)))
}

/// Returns the address in the parameters.
pub(crate) fn cuGraphAddMemAllocNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: Out<MemAllocNodeParams>,
) -> DriverResult {
    params.check()?;
    let mut asked = params.get_at(0);
    let memory = allocation(&asked)?;
    asked.address = memory.address;
    add(node, graph, dependencies, n_dependencies, memory)?;
    params.set(asked)
}

/// The memory of an allocation node.
pub(super) fn allocation(params: &MemAllocNodeParams) -> DriverResult<Arc<GraphMemory>> {
    let context = current::current()?;
    let PoolProps { kind, location, .. } = params.pool;
    if kind != 1 || location.kind != 1 || location.id != context.gpu.ordinal {
        return Err(not_supported(
            "the emulator's graphs allocate pinned memory of the current device",
        ));
    }
    if params.bytes == 0 {
        return Err(invalid_value("an allocation of 0 bytes"));
    }
    GraphMemory::new(params.bytes, &context)
}

pub(crate) fn cuGraphMemAllocNodeGetParams(
    node: CUgraphNode,
    params: Out<MemAllocNodeParams>,
) -> DriverResult {
    let (ordinal, bytes, address) =
        query(node, |memory: &GraphMemory| (memory.gpu.ordinal, memory.bytes, memory.address))?;
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

/// The operation of a free node. The address must be that of an allocation node.
pub(super) fn free(address: CUdeviceptr) -> DriverResult<SharedOperation> {
    match graph_memory::at(address) {
        Some(_) => Ok(Arc::new(FreeMemory(address))),
        None => Err(invalid_value(format!("no allocation node has the address {address:#x}"))),
    }
}

pub(crate) fn cuGraphAddMemFreeNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    address: CUdeviceptr,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, free(address)?)
}

pub(crate) fn cuGraphMemFreeNodeGetParams(
    node: CUgraphNode,
    address: Out<CUdeviceptr>,
) -> DriverResult {
    address.set(query(node, |FreeMemory(freed)| *freed)?)
}

pub(super) fn values(params: In<BatchMemOpNodeParams>) -> DriverResult<SharedOperation> {
    let BatchMemOpNodeParams { context, count, ops, flags } = params.get()?;
    check_context(context)?;
    Ok(Arc::new(MemOps::read(count, ops, flags)?))
}

pub(crate) fn cuGraphAddBatchMemOpNode(
    node: Out<CUgraphNode>,
    graph: CUgraph,
    dependencies: In<CUgraphNode>,
    n_dependencies: usize,
    params: In<BatchMemOpNodeParams>,
) -> DriverResult {
    add(node, graph, dependencies, n_dependencies, values(params)?)
}

pub(crate) fn cuGraphBatchMemOpNodeGetParams(
    node: CUgraphNode,
    params: Out<BatchMemOpNodeParams>,
) -> DriverResult {
    let (count, list) = query(node, |MemOps(ops)| (ops.len() as u32, In::from(&ops[..])))?;
    let context = std::ptr::null_mut();
    params.set(BatchMemOpNodeParams { context, count, ops: list, flags: 0 })
}

pub(crate) fn cuGraphBatchMemOpNodeSetParams(
    node: CUgraphNode,
    params: In<BatchMemOpNodeParams>,
) -> DriverResult {
    set_operation(node, values(params)?)
}

pub(crate) fn cuGraphKernelNodeGetAttribute(
    node: CUgraphNode,
    id: u32,
    value: Out<AttributeValue>,
) -> DriverResult {
    value.set(query(node, |call: &Call| call.attributes.get(id))??)
}

pub(crate) fn cuGraphKernelNodeCopyAttributes(to: CUgraphNode, from: CUgraphNode) -> DriverResult {
    let attributes = query(from, |call: &Call| call.attributes.clone())?;
    set_operation(to, Arc::new(query(to, |call: &Call| call.with(attributes))??))
}
