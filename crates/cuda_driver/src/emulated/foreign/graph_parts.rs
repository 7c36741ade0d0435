//! Clones of graphs, the order between their nodes, and pictures of them.
#![allow(non_snake_case)]

use std::ffi::c_char;
use std::fmt::Write as _;

use crate::abi::{CUobject, In, Out, text};
use crate::codes::{CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_FOUND, CUDA_ERROR_OPERATING_SYSTEM};
use crate::detail::{Answer, Failure};
use crate::emulated::graph::{self, ChildGraph, Graph};
use crate::emulated::graph_parts::write_list;
use crate::emulated::registry::Handle;
use crate::emulated::{check_flags, invalid};

/// All that a picture of a graph may show besides its shape.
const DOT_FLAGS: u32 = 0xffff;

pub(crate) fn cuGraphClone(clone: Out<CUobject>, original: CUobject) -> Answer {
    clone.check()?;
    clone.set(graph::named(original)?.copy()?.handle.as_ptr())
}

pub(crate) fn cuGraphNodeFindInClone(
    node: Out<CUobject>,
    original: CUobject,
    clone: CUobject,
) -> Answer {
    let found = graph::named(clone)?.clone_of(original.into());
    let text = "the graph has no clone of this node";
    node.set(found.ok_or_else(|| Failure::new(CUDA_ERROR_INVALID_VALUE, text))?.as_ptr())
}

pub(crate) fn cuGraphNodeGetType(node: CUobject, kind: Out<i32>) -> Answer {
    kind.set(graph::node(node)?.operation().node_type())
}

pub(crate) fn cuGraphGetRootNodes(
    graph: CUobject,
    nodes: Out<CUobject>,
    count: Out<usize>,
) -> Answer {
    let (found, edges) = graph::named(graph)?.parts();
    let is_root = |handle: &Handle| !edges.iter().any(|(_, to)| to == handle);
    write_list(&Vec::from_iter(found.iter().map(|node| node.handle).filter(is_root)), nodes, count)
}

pub(crate) fn cuGraphGetEdges(
    graph: CUobject,
    from: Out<CUobject>,
    to: Out<CUobject>,
    count: Out<usize>,
) -> Answer {
    let (_, edges) = graph::named(graph)?.parts();
    if from.check().is_ok() != to.check().is_ok() {
        return Err(invalid("one end of the edges has no place"));
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
    graph: CUobject,
    from: Out<CUobject>,
    to: Out<CUobject>,
    data: Out<u64>,
    count: Out<usize>,
) -> Answer {
    cuGraphGetEdges(graph, from, to, count)?;
    clear(data, from, count);
    Ok(())
}

/// Data of edges is zero.
fn clear(data: Out<u64>, list: Out<CUobject>, count: Out<usize>) {
    if data.check().is_ok() && list.check().is_ok() {
        (0..count.get_at(0)).for_each(|at| data.set_at(at, 0));
    }
}

pub(crate) fn cuGraphNodeGetDependencies(
    node: CUobject,
    nodes: Out<CUobject>,
    count: Out<usize>,
) -> Answer {
    let (node, graph) = graph::node_of(node)?;
    let (_, edges) = graph.parts();
    let before = edges.iter().filter(|(_, to)| *to == node.handle).map(|(from, _)| *from);
    write_list(&Vec::from_iter(before), nodes, count)
}

pub(crate) fn cuGraphNodeGetDependencies_v2(
    node: CUobject,
    nodes: Out<CUobject>,
    data: Out<u64>,
    count: Out<usize>,
) -> Answer {
    cuGraphNodeGetDependencies(node, nodes, count)?;
    clear(data, nodes, count);
    Ok(())
}

pub(crate) fn cuGraphNodeGetDependentNodes(
    node: CUobject,
    nodes: Out<CUobject>,
    count: Out<usize>,
) -> Answer {
    let (node, graph) = graph::node_of(node)?;
    let (_, edges) = graph.parts();
    let after = edges.iter().filter(|(from, _)| *from == node.handle).map(|(_, to)| *to);
    write_list(&Vec::from_iter(after), nodes, count)
}

pub(crate) fn cuGraphNodeGetDependentNodes_v2(
    node: CUobject,
    nodes: Out<CUobject>,
    data: Out<u64>,
    count: Out<usize>,
) -> Answer {
    cuGraphNodeGetDependentNodes(node, nodes, count)?;
    clear(data, nodes, count);
    Ok(())
}

fn pairs(from: In<CUobject>, to: In<CUobject>, count: usize) -> Answer<Vec<(Handle, Handle)>> {
    Ok(graph::list(from, count)?.into_iter().zip(graph::list(to, count)?).collect())
}

pub(crate) fn cuGraphAddDependencies(
    graph: CUobject,
    from: In<CUobject>,
    to: In<CUobject>,
    count: usize,
) -> Answer {
    graph::named(graph)?.connect(&pairs(from, to, count)?)
}

pub(crate) fn cuGraphAddDependencies_v2(
    graph: CUobject,
    from: In<CUobject>,
    to: In<CUobject>,
    data: In<u64>,
    count: usize,
) -> Answer {
    graph::check_edges(data, count)?;
    cuGraphAddDependencies(graph, from, to, count)
}

pub(crate) fn cuGraphRemoveDependencies(
    graph: CUobject,
    from: In<CUobject>,
    to: In<CUobject>,
    count: usize,
) -> Answer {
    graph::named(graph)?.disconnect(&pairs(from, to, count)?)
}

pub(crate) fn cuGraphRemoveDependencies_v2(
    graph: CUobject,
    from: In<CUobject>,
    to: In<CUobject>,
    data: In<u64>,
    count: usize,
) -> Answer {
    graph::check_edges(data, count)?;
    cuGraphRemoveDependencies(graph, from, to, count)
}

pub(crate) fn cuGraphDestroyNode(node: CUobject) -> Answer {
    let (node, graph) = graph::node_of(node)?;
    graph.remove(node.handle)
}

/// Writes a picture of the graph, in the language of Graphviz.
pub(crate) fn cuGraphDebugDotPrint(graph: CUobject, path: In<c_char>, flags: u32) -> Answer {
    let graph = graph::named(graph)?;
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
        Failure::new(code, format!("cannot write `{path}`: {error}"))
    })
}

/// A box for a graph with one for each node in it; graphs that are nodes have boxes of their own.
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
