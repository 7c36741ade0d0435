//! Creating and destroying graphs, and listing their nodes.
#![allow(non_snake_case)]

use super::check_flags;
use super::graph::{self, Graph};
use super::registry::Handle;
use crate::abi::{CUgraph, CUgraphNode, Out};
use crate::detail::DriverResult;

pub(crate) fn cuGraphCreate(graph: Out<CUgraph>, flags: u32) -> DriverResult {
    check_flags(flags, 0)?;
    graph.check()?;
    graph.set(Graph::create().handle.as_ptr())
}

pub(crate) fn cuGraphDestroy(graph: CUgraph) -> DriverResult {
    Graph::destroy(graph)
}

/// Writes as much of a list as there is room for, and its length. Unused room is filled with null
/// handles.
pub(super) fn write_list(
    found: &[Handle],
    out: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    count.check()?;
    if out.check().is_err() {
        return count.set(found.len());
    }
    let room = count.get_at(0);
    for at in 0..room {
        out.set_at(at, found.get(at).map_or(std::ptr::null_mut(), |handle| handle.as_ptr()));
    }
    count.set(found.len().min(room))
}

pub(crate) fn cuGraphGetNodes(
    graph: CUgraph,
    nodes: Out<CUgraphNode>,
    count: Out<usize>,
) -> DriverResult {
    let (found, _) = graph::from_handle(graph)?.parts();
    write_list(&Vec::from_iter(found.iter().map(|node| node.handle)), nodes, count)
}
