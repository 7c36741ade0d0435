//! Graphs without what changes no result: see [`GraphBuilder::optimize`](super::GraphBuilder::optimize).
//!
//! The order in which nodes were recorded is one in which they could run one by one: nodes that share memory run in it. So
//! what holds for that sequence holds for the graph, and the order of the changed nodes is found from the memory that they
//! use then.

mod maps;
mod passes;
mod ranges;

use std::fmt;

#[cfg(doc)]
use super::buffers::Scratch;
use super::buffers::{GraphBuffers, Region};
use super::builder::GraphBuilder;
#[cfg(doc)]
use super::builder::GraphNode;
use super::dot;
use super::operation::Operation;
use super::replay::{Graph, Node, edges};
use crate::error::{GpuResult, GraphError};

/// What [`GraphBuilder::optimize`](super::GraphBuilder::optimize) has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Optimization {
    changes: Vec<Change>,
    nodes_before: usize,
    dot_before: String,
}

/// One change of a graph, with the names of its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// `node` reads what `copy` copies, and not the copy.
    ReadsSource {
        /// A copy, or a map.
        node: String,
        /// The earlier copy.
        copy: String,
    },
    /// `node` writes what `copy` would have copied its result to; the copy is removed.
    WritesCopy {
        /// A map, or a fill.
        node: String,
        /// The later copy.
        copy: String,
    },
    /// `node` is removed, and `into` does what it did, too.
    Fused {
        /// The earlier map.
        node: String,
        /// The later one.
        into: String,
    },
    /// `node` is removed: its results are not read.
    Removed {
        /// The node.
        node: String,
    },
}

impl Optimization {
    /// The changes, in the order in which they were made.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.changes
    }

    /// How many changes there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Whether the graph is as it was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The number of nodes that were recorded.
    #[must_use]
    pub fn nodes_before(&self) -> usize {
        self.nodes_before
    }

    /// The graph as it was recorded, in Graphviz's language. [`Graph::to_dot`](super::Graph::to_dot) is what it became.
    #[must_use]
    pub fn dot_before(&self) -> &str {
        &self.dot_before
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadsSource { node, copy } => write!(f, "`{node}` reads what `{copy}` copies"),
            Self::WritesCopy { node, copy } => write!(f, "`{node}` writes in place of `{copy}`"),
            Self::Fused { node, into } => write!(f, "`{node}` is part of `{into}`"),
            Self::Removed { node } => write!(f, "`{node}` is removed"),
        }
    }
}

impl fmt::Display for Optimization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} changes of {} nodes", self.len(), self.nodes_before)?;
        self.changes.iter().try_for_each(|change| write!(f, "\n{change}"))
    }
}

impl GraphBuilder {
    /// Builds the graph as [`build`](Self::build) does, without what changes no result that other code can see:
    ///
    /// - Copies of copies read the first source, and so do the maps of [`ops::map`](mod@crate::ops::map) that read a copy, as long
    ///   as nothing has changed it meanwhile.
    /// - A map or a fill whose result is only copied writes the copy itself.
    /// - Neighbouring maps become one where that gives the same bits: [`negate`](crate::ops::map::negate) and
    ///   [`abs`](crate::ops::map::abs) of one size, in any order; [`scale`](crate::ops::map::scale) after `scale` where one
    ///   of the factors is 1 or -1. Others would round once where two maps round twice, or need a kernel that is not there.
    /// - Nodes whose results are not read go: copies, fills, child graphs without host callbacks, and kernels that take no raw
    ///   pointer, which then cannot panic any more. Read is whatever a later node reads, in this replay or the next, and
    ///   what is left in the buffers at the end, but for those in [`Scratch`].
    ///
    /// Nodes with an explicit order ([`GraphNode::after`]) stay. The parameters of a fused node cannot be set, and in a graph that
    /// was changed no node can be [launched again](Graph::relaunch): both are [`Optimized`](GraphError::Optimized).
    /// Buffers can be exchanged as in any graph.
    ///
    /// ```no_run
    /// # use ferrowarp::graph::{GraphBuilder, Scratch};
    /// # use ferrowarp::{DeviceBuffer, GpuResult};
    /// # fn example(
    /// #     builder: GraphBuilder, x: DeviceBuffer<f32>, mut t: DeviceBuffer<f32>, mut y: DeviceBuffer<f32>,
    /// # ) -> GpuResult<()> {
    /// builder.node("in").copy(&x, &mut t)?;
    /// builder.node("out").copy(&t, &mut y)?;
    /// let (graph, changes) = builder.optimize((x, Scratch::new(t), y))?;
    /// println!("{changes}"); // `out` reads what `in` copies; `in` is removed
    /// std::fs::write("before.dot", changes.dot_before()).unwrap();
    /// std::fs::write("after.dot", graph.to_dot()).unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`build`](Self::build); [`NotOptimizable`](GraphError::NotOptimizable) if a node holds work of other libraries,
    /// of which it is unknown which node of theirs uses what.
    pub fn optimize<B: GraphBuffers>(self, buffers: B) -> GpuResult<(Graph<B>, Optimization)> {
        let (stream, id, nodes) = self.into_nodes()?;
        let (mut graph, changes) = Graph::changed_by(&stream, id, nodes, buffers, run)?;
        graph.parts_mut().is_optimized = !changes.is_empty();
        Ok((graph, changes))
    }
}

/// Changes `nodes`, which use memory of `regions`.
fn run(nodes: &mut [Node], regions: &[Region]) -> GpuResult<Optimization> {
    nodes.iter().try_for_each(check)?;
    let (nodes_before, dot_before) = (nodes.len(), dot::write(nodes, &edges(nodes)?));
    let changes = passes::run(nodes, regions)?;
    Ok(Optimization { changes, nodes_before, dot_before })
}

/// An error for a node of which it is unknown what its parts use.
fn check(node: &Node) -> Result<(), GraphError> {
    let mut foreign = None;
    node.work.visit(&node.info.name, &mut |name, work| {
        if matches!(work, Operation::Foreign(_)) {
            foreign.get_or_insert_with(|| name.to_owned());
        }
    });
    foreign.map_or(Ok(()), |node| Err(GraphError::NotOptimizable { node }))
}
