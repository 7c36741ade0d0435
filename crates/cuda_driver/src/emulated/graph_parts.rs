//! Graphs as a whole.
#![allow(non_snake_case)]

use super::check_flags;
use super::graph::{self, Graph};
use super::registry::Handle;
use crate::abi::{CUobject, Out};
use crate::detail::Answer;

pub(crate) fn cuGraphCreate(graph: Out<CUobject>, flags: u32) -> Answer {
    check_flags(flags, 0)?;
    graph.check()?;
    graph.set(Graph::create().handle.as_ptr())
}

pub(crate) fn cuGraphDestroy(graph: CUobject) -> Answer {
    Graph::destroy(graph)
}

/// Writes as much of a list as there is room for, and how long it is. Room that is left is
/// filled with nulls.
pub(super) fn write_list(found: &[Handle], places: Out<CUobject>, count: Out<usize>) -> Answer {
    count.check()?;
    if places.check().is_err() {
        return count.set(found.len());
    }
    let room = count.get_at(0);
    for at in 0..room {
        places.set_at(at, found.get(at).map_or(std::ptr::null_mut(), |handle| handle.as_ptr()));
    }
    count.set(found.len().min(room))
}

pub(crate) fn cuGraphGetNodes(graph: CUobject, nodes: Out<CUobject>, count: Out<usize>) -> Answer {
    let (found, _) = graph::named(graph)?.parts();
    write_list(&Vec::from_iter(found.iter().map(|node| node.handle)), nodes, count)
}
