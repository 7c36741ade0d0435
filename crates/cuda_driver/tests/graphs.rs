//! Graphs made node by node: their topology, launches and updates.

mod common;

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use common::*;
use cuda_driver::*;

const NON_BLOCKING: u32 = 1;

fn graph() -> CUgraph {
    context();
    let mut graph = null_mut();
    ok!(cuGraphCreate(Out::from(&mut graph), 0));
    graph
}

fn kernel_params(function: CUfunction, params: &[HostPtr]) -> KernelNodeParams {
    let params = In::from(params);
    KernelNodeParams {
        function,
        grid: [1; 3],
        block: [1; 3],
        shared_mem_bytes: 0,
        params,
        extra: In::NULL,
    }
}

/// A node that launches `function` with one block of one thread.
fn kernel_node(
    graph: CUgraph,
    behind: &[CUgraphNode],
    function: CUfunction,
    params: &[HostPtr],
) -> CUgraphNode {
    let mut node = null_mut();
    let params = kernel_params(function, params);
    let count = behind.len();
    ok!(cuGraphAddKernelNode(
        Out::from(&mut node),
        graph,
        In::from(behind),
        count,
        In::from(&params)
    ));
    node
}

fn fill(dst: CUdeviceptr, value: u32, width: usize) -> MemsetNodeParams {
    MemsetNodeParams { dst, pitch: 0, value, element_bytes: 4, width, height: 1 }
}

fn fill_node(graph: CUgraph, behind: &[CUgraphNode], params: &MemsetNodeParams) -> CUgraphNode {
    let (mut node, count) = (null_mut(), behind.len());
    let context = context();
    ok!(cuGraphAddMemsetNode(
        Out::from(&mut node),
        graph,
        In::from(behind),
        count,
        In::from(params),
        context
    ));
    node
}

/// `bytes` from device memory to the host.
fn to_host(dst: &mut [u32], src: CUdeviceptr, bytes: usize) -> Copy3D {
    Copy3D {
        src_x_bytes: 0,
        src_y: 0,
        src_z: 0,
        src_lod: 0,
        src_memory_type: 2,
        src_host: null_mut(),
        src_device: src,
        src_array: null_mut(),
        src_context: null_mut(),
        src_pitch: bytes,
        src_height: 1,
        dst_x_bytes: 0,
        dst_y: 0,
        dst_z: 0,
        dst_lod: 0,
        dst_memory_type: 1,
        dst_host: dst.as_mut_ptr().cast(),
        dst_device: 0,
        dst_array: null_mut(),
        dst_context: null_mut(),
        dst_pitch: bytes,
        dst_height: 1,
        width_bytes: bytes,
        height: 1,
        depth: 1,
    }
}

fn instantiate(graph: CUgraph) -> CUgraphExec {
    let mut exec = null_mut();
    ok!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    exec
}

fn run(exec: CUgraphExec) {
    let stream = stream(NON_BLOCKING);
    ok!(cuGraphLaunch(exec, stream));
    ok!(cuStreamSynchronize(stream));
    ok!(cuStreamDestroy_v2(stream));
}

fn edges(graph: CUgraph) -> Vec<(CUgraphNode, CUgraphNode)> {
    let mut count = 0;
    ok!(cuGraphGetEdges(graph, Out::NULL, Out::NULL, Out::from(&mut count)));
    let (mut from, mut to) = (vec![null_mut(); count], vec![null_mut(); count]);
    if count > 0 {
        ok!(cuGraphGetEdges(
            graph,
            Out::from(&mut from[..]),
            Out::from(&mut to[..]),
            Out::from(&mut count)
        ));
    }
    from.into_iter().zip(to).collect()
}

unsafe extern "C" fn increment(data: *mut c_void) {
    // SAFETY: the test keeps the number until the stream is done.
    unsafe { *data.cast::<u32>() += 1 };
}

#[test]
fn a_graph_of_four_kinds_of_nodes_runs_in_its_order() {
    let graph = graph();
    let (kernel, cell) = (function(load(), "double_and_add"), alloc(4));
    let (mut back, mut calls) = ([0_u32], 0_u32);
    let first = fill_node(graph, &[], &fill(cell, 20, 1));
    let second = kernel_node(graph, &[first], kernel, &[host(&cell), host(&2_u32)]);
    let (copy, mut third, mut fourth) = (to_host(&mut back, cell, 4), null_mut(), null_mut());
    let context = context();
    ok!(cuGraphAddMemcpyNode(
        Out::from(&mut third),
        graph,
        In::from(&second),
        1,
        In::from(&copy),
        context
    ));
    let data = HostPtr((&raw mut calls).cast());
    let call = HostNodeParams { function: Some(increment), data };
    ok!(cuGraphAddHostNode(Out::from(&mut fourth), graph, In::from(&third), 1, In::from(&call)));
    assert_eq!(edges(graph), [(first, second), (second, third), (third, fourth)]);
    let exec = instantiate(graph);
    for round in 1..=2 {
        run(exec);
        assert_eq!((back, calls), ([42], round));
    }
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn parts_of_a_graph_are_told() {
    let graph = graph();
    let cell = alloc(16);
    let first = fill_node(graph, &[], &fill(cell, 1, 1));
    let second = fill_node(graph, &[first], &fill(cell + 4, 2, 1));
    let (mut third, behind) = (null_mut(), [first, second]);
    ok!(cuGraphAddEmptyNode(Out::from(&mut third), graph, In::from(&behind[..]), 2));
    let mut nodes = [null_mut(); 5];
    let mut count = 5;
    ok!(cuGraphGetNodes(graph, Out::from(&mut nodes[..]), Out::from(&mut count)));
    assert_eq!(count, 3);
    let mut sorted = nodes[..3].to_vec();
    sorted.sort_unstable();
    let mut expected = vec![first, second, third];
    expected.sort_unstable();
    assert_eq!((sorted, nodes[3]), (expected, null_mut()));
    let mut kind = -1;
    ok!(cuGraphNodeGetType(third, Out::from(&mut kind)));
    assert_eq!(kind, 5);
    let mut before = [null_mut(); 2];
    let mut n_before = 2;
    ok!(cuGraphNodeGetDependencies(third, Out::from(&mut before[..]), Out::from(&mut n_before)));
    before.sort_unstable();
    let mut both = behind;
    both.sort_unstable();
    assert_eq!((n_before, before), (2, both));
    let mut n_after = 0;
    ok!(cuGraphNodeGetDependentNodes(first, Out::NULL, Out::from(&mut n_after)));
    assert_eq!(n_after, 2);
    let mut roots = [null_mut(); 1];
    let mut n_roots = 1;
    ok!(cuGraphGetRootNodes(graph, Out::from(&mut roots[..]), Out::from(&mut n_roots)));
    assert_eq!((n_roots, roots), (1, [first]));
    ok!(cuGraphDestroyNode(second));
    assert_eq!(edges(graph), [(first, third)]);
    ok!(cuGraphDestroy(graph));
}

#[test]
fn edges_are_added_and_removed() {
    let graph = graph();
    let cell = alloc(8);
    let nodes = [0_u32, 1].map(|value| fill_node(graph, &[], &fill(cell, value, 1)));
    let (from, to) = (In::from(&nodes[0]), In::from(&nodes[1]));
    ok!(cuGraphAddDependencies(graph, from, to, 1));
    assert_eq!(edges(graph), [(nodes[0], nodes[1])]);
    assert_eq!(code!(cuGraphAddDependencies(graph, from, to, 1)), CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuGraphAddDependencies(graph, from, from, 1)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphRemoveDependencies(graph, from, to, 1));
    assert_eq!(edges(graph), []);
    assert_eq!(code!(cuGraphRemoveDependencies(graph, from, to, 1)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_circle_is_not_made_ready() {
    let graph = graph();
    let cell = alloc(8);
    let first = fill_node(graph, &[], &fill(cell, 1, 1));
    let second = fill_node(graph, &[first], &fill(cell, 2, 1));
    ok!(cuGraphAddDependencies(graph, In::from(&second), In::from(&first), 1));
    let mut exec = null_mut();
    let code = code!(cuGraphInstantiateWithFlags(Out::from(&mut exec), graph, 0));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphDestroy(graph));
}

#[test]
fn parameters_of_nodes_are_told_and_changed() {
    let graph = graph();
    let (kernel, cell) = (function(load(), "store"), alloc(8));
    let store = kernel_node(graph, &[], kernel, &[host(&cell), host(&5_u32)]);
    let filled = fill_node(graph, &[], &fill(cell + 4, 9, 1));
    let mut queried = kernel_params(null_mut(), &[]);
    ok!(cuGraphKernelNodeGetParams(store, Out::from(&mut queried)));
    assert_eq!((queried.function, queried.grid, queried.block), (kernel, [1; 3], [1; 3]));
    let params = [host(&cell), host(&6_u32)];
    let changed = kernel_params(kernel, &params);
    ok!(cuGraphKernelNodeSetParams(store, In::from(&changed)));
    let mut queried = fill(0, 0, 0);
    ok!(cuGraphMemsetNodeGetParams(filled, Out::from(&mut queried)));
    assert_eq!(
        (queried.dst, queried.value, queried.element_bytes, queried.width),
        (cell + 4, 9, 4, 1)
    );
    ok!(cuGraphMemsetNodeSetParams(filled, In::from(&fill(cell + 4, 10, 1))));
    let exec = instantiate(graph);
    run(exec);
    assert_eq!((read_u32(cell), read_u32(cell + 4)), (6, 10));
    let params = [host(&cell), host(&7_u32)];
    let changed = kernel_params(kernel, &params);
    ok!(cuGraphExecKernelNodeSetParams(exec, store, In::from(&changed)));
    let context = context();
    ok!(cuGraphExecMemsetNodeSetParams(exec, filled, In::from(&fill(cell + 4, 11, 1)), context));
    run(exec);
    assert_eq!((read_u32(cell), read_u32(cell + 4)), (7, 11));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn nodes_can_be_left_out() {
    let graph = graph();
    let (kernel, cell) = (function(load(), "store"), alloc(4));
    let node = kernel_node(graph, &[], kernel, &[host(&cell), host(&5_u32)]);
    let exec = instantiate(graph);
    ok!(cuMemsetD32_v2(cell, 1, 1));
    let mut enabled = 7;
    ok!(cuGraphNodeGetEnabled(exec, node, Out::from(&mut enabled)));
    assert_eq!(enabled, 1);
    ok!(cuGraphNodeSetEnabled(exec, node, 0));
    run(exec);
    assert_eq!(read_u32(cell), 1);
    ok!(cuGraphNodeSetEnabled(exec, node, 1));
    run(exec);
    assert_eq!(read_u32(cell), 5);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_ready_graph_takes_over_one_of_the_same_shape() {
    let (first, second, third) = (graph(), graph(), graph());
    let cell = alloc(4);
    fill_node(first, &[], &fill(cell, 1, 1));
    fill_node(second, &[], &fill(cell, 2, 1));
    let node = fill_node(third, &[], &fill(cell, 3, 1));
    fill_node(third, &[node], &fill(cell, 4, 1));
    let exec = instantiate(first);
    let (error_node, error_from_node) = (null_mut(), null_mut());
    let mut result = UpdateResult { result: 7, error_node, error_from_node };
    ok!(cuGraphExecUpdate_v2(exec, second, Out::from(&mut result)));
    assert_eq!(result.result, 0);
    run(exec);
    assert_eq!(read_u32(cell), 2);
    let code = code!(cuGraphExecUpdate_v2(exec, third, Out::from(&mut result)));
    assert_eq!(code, CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    // The topology changed.
    assert_eq!(result.result, 2);
    run(exec);
    ok!(cuGraphExecDestroy(exec));
    for graph in [first, second, third] {
        ok!(cuGraphDestroy(graph));
    }
}

#[test]
fn a_graph_can_be_a_node_and_be_cloned() {
    let (inner, outer) = (graph(), graph());
    let (kernel, cell) = (function(load(), "double_and_add"), alloc(4));
    let inside = kernel_node(inner, &[], kernel, &[host(&cell), host(&1_u32)]);
    let start = fill_node(outer, &[], &fill(cell, 4, 1));
    let (mut first, mut second) = (null_mut(), null_mut());
    ok!(cuGraphAddChildGraphNode(Out::from(&mut first), outer, In::from(&start), 1, inner));
    ok!(cuGraphAddChildGraphNode(Out::from(&mut second), outer, In::from(&first), 1, inner));
    // A later change of the inner graph does not reach the nodes.
    ok!(cuGraphDestroyNode(inside));
    let (mut clone, mut found, mut embedded, mut count) = (null_mut(), null_mut(), null_mut(), 0);
    ok!(cuGraphClone(Out::from(&mut clone), outer));
    ok!(cuGraphNodeFindInClone(Out::from(&mut found), second, clone));
    assert_ne!(found, second);
    ok!(cuGraphChildGraphNodeGetGraph(found, Out::from(&mut embedded)));
    ok!(cuGraphGetNodes(embedded, Out::NULL, Out::from(&mut count)));
    assert_eq!(count, 1);
    ok!(cuGraphDestroy(outer));
    let exec = instantiate(clone);
    run(exec);
    // (4 * 2 + 1) * 2 + 1
    assert_eq!(read_u32(cell), 19);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(clone));
    ok!(cuGraphDestroy(inner));
}

#[test]
fn events_lead_in_and_out_of_a_graph() {
    let graph = graph();
    let (reached, cell) = (event(), alloc(4));
    let start = fill_node(graph, &[], &fill(cell, 4, 1));
    let mut node = null_mut();
    ok!(cuGraphAddEventRecordNode(Out::from(&mut node), graph, In::from(&start), 1, reached));
    let mut queried = null_mut();
    ok!(cuGraphEventRecordNodeGetEvent(node, Out::from(&mut queried)));
    assert_eq!(queried, reached);
    ok!(cuGraphAddEventWaitNode(Out::from(&mut node), graph, In::NULL, 0, reached));
    let exec = instantiate(graph);
    run(exec);
    ok!(cuEventSynchronize(reached));
    ok!(cuEventQuery(reached));
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_graph_has_memory_of_its_own() {
    let graph = graph();
    let (kernel, cell) = (function(load(), "store"), alloc(4));
    let pool = PoolProps {
        kind: 1,
        handle_types: 0,
        location: MemLocation { kind: 1, id: 0 },
        security: null_mut(),
        max_bytes: 0,
        usage: 0,
        reserved: [0; 54],
    };
    let (access, n_access, bytes, address) = (In::NULL, 0, 4096, 0);
    let mut params = MemAllocNodeParams { pool, access, n_access, bytes, address };
    let mut node = null_mut();
    ok!(cuGraphAddMemAllocNode(Out::from(&mut node), graph, In::NULL, 0, Out::from(&mut params)));
    assert_ne!(params.address, 0);
    let scratch = params.address;
    let stored = kernel_node(graph, &[node], kernel, &[host(&scratch), host(&8_u32)]);
    let mut back = [0_u32];
    let (copy, mut copied) = (to_host(&mut back, scratch, 4), null_mut());
    let context = context();
    ok!(cuGraphAddMemcpyNode(
        Out::from(&mut copied),
        graph,
        In::from(&stored),
        1,
        In::from(&copy),
        context
    ));
    ok!(cuGraphAddMemFreeNode(Out::from(&mut node), graph, In::from(&copied), 1, scratch));
    let exec = instantiate(graph);
    run(exec);
    run(exec);
    assert_eq!(back, [8]);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
    ok!(cuMemFree_v2(cell));
}

static DESTROYED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

unsafe extern "C" fn note_destruction(_: *mut c_void) {
    DESTROYED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
}

#[test]
fn a_graph_keeps_the_programs_objects() {
    let graph = graph();
    let mut object = null_mut();
    let data = HostPtr(null_mut());
    ok!(cuUserObjectCreate(Out::from(&mut object), data, Some(note_destruction), 1, 1));
    ok!(cuGraphRetainUserObject(graph, object, 1, 0));
    ok!(cuUserObjectRelease(object, 1));
    let destroyed = || DESTROYED.load(std::sync::atomic::Ordering::SeqCst);
    assert_eq!(destroyed(), 0);
    ok!(cuGraphReleaseUserObject(graph, object, 1));
    // NVIDIA's driver calls the destructor from a thread of its own.
    for _ in 0..200 {
        if destroyed() == 1 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert_eq!(destroyed(), 1);
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_graph_is_drawn() {
    let graph = graph();
    let cell = alloc(4);
    let first = fill_node(graph, &[], &fill(cell, 4, 1));
    kernel_node(graph, &[first], function(load(), "nothing"), &[]);
    let path = std::env::temp_dir().join(format!("graph-{}.dot", std::process::id()));
    let text = CString::new(path.to_str().unwrap()).unwrap();
    ok!(cuGraphDebugDotPrint(graph, c_text(&text), 0));
    let drawn = std::fs::read_to_string(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(drawn.starts_with("digraph") && drawn.contains("->"), "{drawn}");
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_node_waits_for_all_that_it_depends_on() {
    context();
    let module = load();
    let (store, add) = (function(module, "store"), function(module, "double_and_add"));
    for slow_first in [false, true] {
        let graph = graph();
        let (cell, other) = (alloc(4), alloc(4));
        ok!(cuMemsetD32_v2(cell, 0, 1));
        ok!(cuCtxSynchronize());
        let (gate, call) = Gate::function();
        let slow = || {
            let mut held = null_mut();
            let at = Out::from(&mut held);
            ok!(cuGraphAddHostNode(at, graph, In::NULL, 0, In::from(&call)));
            kernel_node(graph, &[held], store, &[host(&cell), host(&5_u32)])
        };
        let quick = || fill_node(graph, &[], &fill(other, 0, 1));
        let before = match slow_first {
            true => [slow(), quick()],
            false => [quick(), slow()],
        };
        kernel_node(graph, &before, add, &[host(&cell), host(&1_u32)]);
        let (exec, stream) = (instantiate(graph), stream(NON_BLOCKING));
        ok!(cuGraphLaunch(exec, stream));
        // Time enough for the addition to come too early.
        std::thread::sleep(std::time::Duration::from_millis(20));
        gate.open();
        ok!(cuStreamSynchronize(stream));
        assert_eq!(read_u32(cell), 5 * 2 + 1, "slow first: {slow_first}");
        ok!(cuGraphExecDestroy(exec));
        ok!(cuGraphDestroy(graph));
    }
}

#[test]
fn a_launch_waits_for_the_one_before_also_on_another_stream() {
    let graph = graph();
    let (kernel, cell) = (function(load(), "double_and_add"), alloc(4));
    ok!(cuMemsetD32_v2(cell, 3, 1));
    ok!(cuCtxSynchronize());
    kernel_node(graph, &[], kernel, &[host(&cell), host(&1_u32)]);
    let (exec, first, second) = (instantiate(graph), stream(NON_BLOCKING), stream(NON_BLOCKING));
    let gate = Gate::close(first);
    ok!(cuGraphLaunch(exec, first));
    ok!(cuGraphLaunch(exec, second));
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(code!(cuStreamQuery(second)), CUDA_ERROR_NOT_READY);
    gate.open();
    ok!(cuStreamSynchronize(second));
    // (3 * 2 + 1) * 2 + 1
    assert_eq!(read_u32(cell), 15);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(graph));
}

#[test]
fn a_launch_of_a_graph_is_not_captured() {
    let inner = graph();
    let (cell, stream) = (alloc(4), stream(NON_BLOCKING));
    fill_node(inner, &[], &fill(cell, 1, 1));
    let (exec, mut graph) = (instantiate(inner), null_mut());
    // Relaxed: other tests allocate meanwhile.
    ok!(cuStreamBeginCapture_v2(stream, 2));
    assert_eq!(code!(cuGraphLaunch(exec, stream)), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    let code = code!(cuStreamEndCapture(stream, Out::from(&mut graph)));
    assert_eq!(code, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    ok!(cuGraphExecDestroy(exec));
    ok!(cuGraphDestroy(inner));
}

#[test]
fn nodes_that_cannot_be_are_refused() {
    let graph = graph();
    let cell = alloc(4);
    let (mut node, context) = (null_mut(), context());
    let wrong = MemsetNodeParams { element_bytes: 3, ..fill(cell, 1, 1) };
    let code = code!(cuGraphAddMemsetNode(
        Out::from(&mut node),
        graph,
        In::NULL,
        0,
        In::from(&wrong),
        context
    ));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    let params = kernel_params(function(load(), "nothing"), &[]);
    let params = KernelNodeParams { block: [2048, 1, 1], params: In::NULL, ..params };
    let code =
        code!(cuGraphAddKernelNode(Out::from(&mut node), graph, In::NULL, 0, In::from(&params)));
    assert_eq!(code, CUDA_ERROR_INVALID_VALUE);
    assert_eq!(code!(cuGraphCreate(Out::from(&mut null_mut()), 1)), CUDA_ERROR_INVALID_VALUE);
    ok!(cuGraphDestroy(graph));
}
