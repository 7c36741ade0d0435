//! Clones of graphs, the dependencies between nodes, and drawings of graphs.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::fmt::Write as _;

use crate::abi::{CUgraph, CUgraphNode, In, Out, text};
use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OPERATING_SYSTEM};
use crate::detail::{DriverError, DriverResult};
use crate::emulated::graph::{self, ChildGraph, Graph};
use crate::emulated::graph_topology::write_list;
use crate::emulated::registry::Handle;
use crate::emulated::{check_flags, invalid_value};

/// All flags of a drawing, which select what it shows besides the topology.
const DOT_FLAGS: u32 = 0xffff;

pub(crate) fn cuGraphClone(clone: Out<CUgraph>, original: CUgraph) -> DriverResult {
    clone.check()?;
    clone.set(graph::from_handle(original)?.copy()?.handle.as_ptr())
}

pub(crate) fn cuGraphNodeFindInClone(
    node: Out<CUgraphNode>,
    original: CUgraphNode,
    clone: CUgraph,
) -> DriverResult {
    let found = graph::from_handle(clone)?.clone_of(original.into());
    let text = "the graph has no clone of this node";
    node.set(found.ok_or_else(|| DriverError::new(CUDA_ERROR_INVALID_VALUE, text))?.as_ptr())
}

pub(crate) fn cuGraphNodeGetType(node: CUgraphNode, kind: Out<i32>) -> DriverResult {
    kind.set(graph::node(node)?.operation().node_type() as i32)
}

pub(crate) fn cuGraphGetRootNodes(
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    let (found, edges) = graph::from_handle(graph)?.parts();
    let is_root = |handle: &Handle| !edges.iter().any(|(_, to)| to == handle);
    write_list(&Vec::from_iter(found.iter().map(|node| node.handle).filter(is_root)), nodes, count)
}

pub(crate) fn cuGraphGetEdges(
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    let (_, edges) = graph::from_handle(graph)?.parts();
    if from.check().is_ok() != to.check().is_ok() {
        return Err(invalid_value("one of the two lists for edges is null"));
    }
    let (first, last): (Vec<_>, Vec<_>) = edges.into_iter().unzip();
    count.check()?;
    let room = count.get_at(0);
    write_list(&first, from, count)?;
    if to.check().is_ok() {
        count.set(room)?;
    }
    write_list(&last, to, count)
}

pub(crate) fn cuGraphGetEdges_v2(
    graph: CUgraph,
    from: Out<CUgraphNode>,
    to: Out<CUgraphNode>,
    data: Out<u64>,
    count: Out<usize>,
) -> DriverResult {
    cuGraphGetEdges(graph, from, to, count)?;
    clear(data, from, count);
    Ok(())
}

/// Writes the data of edges, which is zero.
fn clear(data: Out<u64>, list: Out<CUgraphNode>, count: Out<usize>) {
    if data.check().is_ok() && list.check().is_ok() {
        (0..count.get_at(0)).for_each(|at| data.set_at(at, 0));
    }
}

pub(crate) fn cuGraphNodeGetDependencies(
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    let (node, graph) = graph::node_of(node)?;
    let (_, edges) = graph.parts();
    let before = edges.iter().filter(|(_, to)| *to == node.handle).map(|(from, _)| *from);
    write_list(&Vec::from_iter(before), nodes, count)
}

pub(crate) fn cuGraphNodeGetDependencies_v2(
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    data: Out<u64>,
    count: Out<usize>,
) -> DriverResult {
    cuGraphNodeGetDependencies(node, nodes, count)?;
    clear(data, nodes, count);
    Ok(())
}

pub(crate) fn cuGraphNodeGetDependentNodes(
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    let (node, graph) = graph::node_of(node)?;
    let (_, edges) = graph.parts();
    let after = edges.iter().filter(|(from, _)| *from == node.handle).map(|(_, to)| *to);
    write_list(&Vec::from_iter(after), nodes, count)
}

pub(crate) fn cuGraphNodeGetDependentNodes_v2(
    node: CUgraphNode,
    nodes: Out<CUgraphNode>,
    data: Out<u64>,
    count: Out<usize>,
) -> DriverResult {
    cuGraphNodeGetDependentNodes(node, nodes, count)?;
    clear(data, nodes, count);
    Ok(())
}

fn pairs(
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> DriverResult<Vec<(Handle, Handle)>> {
    Ok(graph::list(from, count)?.into_iter().zip(graph::list(to, count)?).collect())
}

pub(crate) fn cuGraphAddDependencies(
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> DriverResult {
    graph::from_handle(graph)?.connect(&pairs(from, to, count)?)
}

pub(crate) fn cuGraphAddDependencies_v2(
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<u64>,
    count: usize,
) -> DriverResult {
    graph::check_edges(data, count)?;
    cuGraphAddDependencies(graph, from, to, count)
}

pub(crate) fn cuGraphRemoveDependencies(
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    count: usize,
) -> DriverResult {
    graph::from_handle(graph)?.disconnect(&pairs(from, to, count)?)
}

pub(crate) fn cuGraphRemoveDependencies_v2(
    graph: CUgraph,
    from: In<CUgraphNode>,
    to: In<CUgraphNode>,
    data: In<u64>,
    count: usize,
) -> DriverResult {
    graph::check_edges(data, count)?;
    cuGraphRemoveDependencies(graph, from, to, count)
}

pub(crate) fn cuGraphDestroyNode(node: CUgraphNode) -> DriverResult {
    let (node, graph) = graph::node_of(node)?;
    graph.remove(node.handle)
}

/// Writes a drawing of the graph in the DOT language of Graphviz.
pub(crate) fn cuGraphDebugDotPrint(graph: CUgraph, path: In<c_char>, flags: u32) -> DriverResult {
    let graph = graph::from_handle(graph)?;
    check_flags(flags, DOT_FLAGS)?;
    let path = text(path)?.to_string_lossy();
    let mut out = String::from("digraph dot {\n");
    draw(&graph, "graph_0", &mut out);
    out.push_str("}\n");
    std::fs::write(&*path, out).map_err(|error| {
        let code = match error.kind() {
            std::io::ErrorKind::NotFound => CUDA_ERROR_NOT_FOUND,
            _ => CUDA_ERROR_OPERATING_SYSTEM,
        };
        DriverError::new(code, format!("cannot write `{path}`: {error}"))
    })
}

/// Writes a graph as a cluster with its nodes, and child graphs as further clusters.
fn draw(graph: &Graph, name: &str, out: &mut String) {
    let (nodes, edges) = graph.parts();
    let number = |handle: Handle| nodes.iter().position(|node| node.handle == handle);
    let _ = writeln!(out, "subgraph cluster_{name} {{\nlabel=\"{name}\"");
    for (at, node) in nodes.iter().enumerate() {
        let operation = node.operation();
        let _ = writeln!(out, "\"{name}_node_{at}\" [label=\"{at}: {}\"];", operation.name());
        if let Some(ChildGraph(child)) = operation.downcast_ref() {
            draw(child, &format!("{name}_{at}"), out);
        }
    }
    for (from, to) in &edges {
        if let (Some(from), Some(to)) = (number(*from), number(*to)) {
            let _ = writeln!(out, "\"{name}_node_{from}\" -> \"{name}_node_{to}\";");
        }
    }
    out.push_str("}\n");
}
