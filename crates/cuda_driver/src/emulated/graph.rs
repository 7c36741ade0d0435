//! Graphs: operations with an order between them, to be launched as one.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::gpu::Gpu;
use super::operation::{Operation, SharedOperation};
use super::registry::{Handle, Registry};
use super::user_object::Kept;
use super::{invalid, lacking, lock};
use crate::abi::{CUobject, In};
use crate::detail::Answer;

/// A node of a graph.
pub(super) struct Node {
    pub(super) handle: Handle,
    pub(super) graph: Handle,
    pub(super) operation: Mutex<SharedOperation>,
}

impl Node {
    pub(super) fn operation(&self) -> SharedOperation {
        lock(&self.operation).clone()
    }
}

/// A graph.
pub(super) struct Graph {
    pub(super) handle: Handle,
    body: Mutex<Body>,
}

/// The operation of a node that is a graph: its nodes are launched in the node's place.
pub(super) struct ChildGraph(pub(super) Arc<Graph>);

impl Operation for ChildGraph {
    fn node_type(&self) -> i32 {
        4
    }

    fn name(&self) -> String {
        "graph".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        Ok(())
    }
}

#[derive(Default)]
struct Body {
    nodes: Vec<Arc<Node>>,
    /// From the earlier to the later one.
    edges: Vec<(Handle, Handle)>,
    /// In a clone: the clone of each node.
    clones: HashMap<Handle, Handle>,
    /// Objects of the program that live as long as the graph.
    kept: Vec<Kept>,
}

static GRAPHS: Registry<Graph> = Registry::new("graph");
static NODES: Registry<Node> = Registry::new("node");

/// How many graphs programs have, and parts of them.
pub(super) fn live() -> usize {
    GRAPHS.count(|_| true)
}

/// The graph of this handle.
pub(super) fn named(graph: CUobject) -> Answer<Arc<Graph>> {
    GRAPHS.get(graph)
}

/// The node of this handle.
pub(super) fn node(node: CUobject) -> Answer<Arc<Node>> {
    NODES.get(node)
}

/// The node of this handle with its graph.
pub(super) fn node_of(handle: CUobject) -> Answer<(Arc<Node>, Arc<Graph>)> {
    let node = NODES.get(handle)?;
    let graph = GRAPHS.get(node.graph)?;
    Ok((node, graph))
}

/// A list of handles that the program gives.
pub(super) fn list(handles: In<CUobject>, count: usize) -> Answer<Vec<Handle>> {
    if count > 0 {
        handles.get()?;
    }
    Ok((0..count).map(|at| handles.at(at).into()).collect())
}

/// Data beside edges says that a node may begin before an earlier one has ended. The emulator has
/// only whole nodes, for which all of it is zero.
pub(super) fn check_edges(edges: In<u64>, count: usize) -> Answer {
    match edges.is_null() || (0..count).all(|at| edges.at(at) == 0) {
        true => Ok(()),
        false => Err(lacking("the emulator's graphs have no edges but those of whole nodes")),
    }
}

impl Graph {
    pub(super) fn create() -> Arc<Self> {
        let handle = Handle::fresh();
        let graph = Arc::new(Self { handle, body: Mutex::default() });
        GRAPHS.put(handle, graph.clone());
        graph
    }

    /// Forgets the graph and its nodes. What was made ready from it stays.
    pub(super) fn destroy(handle: CUobject) -> Answer {
        let graph = GRAPHS.remove(handle)?;
        let nodes: Vec<_> = lock(&graph.body).nodes.clone();
        for node in nodes {
            let _ = NODES.remove(node.handle);
            if let Some(ChildGraph(child)) = node.operation().downcast_ref() {
                Self::destroy(child.handle.as_ptr())?;
            }
        }
        Ok(())
    }

    /// Another graph with the same operations and order.
    pub(super) fn copy(&self) -> Answer<Arc<Self>> {
        let copy = Self::create();
        let (nodes, edges) = self.parts();
        let mut clones = HashMap::new();
        for node in nodes {
            let mut operation = node.operation();
            if let Some(ChildGraph(child)) = operation.downcast_ref() {
                operation = Arc::new(ChildGraph(child.copy()?));
            }
            clones.insert(node.handle, copy.add(operation, &[])?);
        }
        let mut body = lock(&copy.body);
        body.edges = edges.iter().map(|(from, to)| (clones[from], clones[to])).collect();
        body.clones = clones;
        drop(body);
        Ok(copy)
    }

    /// The clone of a node of the graph that this is a clone of.
    pub(super) fn clone_of(&self, original: Handle) -> Option<Handle> {
        lock(&self.body).clones.get(&original).copied()
    }

    /// Fails unless all are nodes of this graph, each named once.
    pub(super) fn check(&self, nodes: &[Handle]) -> Answer {
        let body = lock(&self.body);
        for (at, handle) in nodes.iter().enumerate() {
            if !body.nodes.iter().any(|node| node.handle == *handle) {
                return Err(invalid("a node is not of this graph"));
            }
            if nodes[..at].contains(handle) {
                return Err(invalid("a node is named twice"));
            }
        }
        Ok(())
    }

    /// Adds a node behind others.
    pub(super) fn add(&self, operation: SharedOperation, behind: &[Handle]) -> Answer<Handle> {
        self.check(behind)?;
        let handle = Handle::fresh();
        let node = Node { handle, graph: self.handle, operation: Mutex::new(operation) };
        let node = Arc::new(node);
        NODES.put(handle, node.clone());
        let mut body = lock(&self.body);
        body.nodes.push(node);
        body.edges.extend(behind.iter().map(|from| (*from, handle)));
        Ok(handle)
    }

    /// Takes a node out, with the edges that it has.
    pub(super) fn remove(&self, handle: Handle) -> Answer {
        let gone = NODES.remove(handle)?;
        if let Some(ChildGraph(child)) = gone.operation().downcast_ref() {
            Self::destroy(child.handle.as_ptr())?;
        }
        let mut body = lock(&self.body);
        body.nodes.retain(|node| node.handle != handle);
        body.edges.retain(|(from, to)| *from != handle && *to != handle);
        Ok(())
    }

    /// Adds edges, all or none.
    pub(super) fn connect(&self, edges: &[(Handle, Handle)]) -> Answer {
        for (from, to) in edges {
            self.check(&[*from])?;
            self.check(&[*to])?;
            if from == to {
                return Err(invalid("a node cannot come after itself"));
            }
        }
        let mut body = lock(&self.body);
        if edges.iter().any(|edge| body.edges.contains(edge)) {
            return Err(invalid("an edge is there already"));
        }
        body.edges.extend(edges);
        Ok(())
    }

    /// Takes edges out, all or none.
    pub(super) fn disconnect(&self, edges: &[(Handle, Handle)]) -> Answer {
        let mut body = lock(&self.body);
        if !edges.iter().all(|edge| body.edges.contains(edge)) {
            return Err(invalid("an edge is not there"));
        }
        body.edges.retain(|edge| !edges.contains(edge));
        Ok(())
    }

    /// The nodes in the order in which they were added, and the edges.
    pub(super) fn parts(&self) -> (Vec<Arc<Node>>, Vec<(Handle, Handle)>) {
        let body = lock(&self.body);
        (body.nodes.clone(), body.edges.clone())
    }

    /// These nodes and all that come before them.
    pub(super) fn with_ancestors(&self, ends: &[Handle]) -> HashSet<Handle> {
        let (_, edges) = self.parts();
        let mut found: HashSet<Handle> = ends.iter().copied().collect();
        let mut open = ends.to_vec();
        while let Some(node) = open.pop() {
            let before = edges.iter().filter(|(_, to)| *to == node).map(|(from, _)| *from);
            open.extend(before.filter(|from| found.insert(*from)));
        }
        found
    }

    /// The nodes, each behind those that it depends on. Fails where they go round in a circle.
    pub(super) fn ordered(&self) -> Answer<Vec<Arc<Node>>> {
        let (nodes, edges) = self.parts();
        let mut waits: HashMap<Handle, usize> = HashMap::new();
        edges.iter().for_each(|(_, to)| *waits.entry(*to).or_default() += 1);
        let mut left = nodes;
        let mut order = Vec::new();
        while !left.is_empty() {
            let ready = |node: &Arc<Node>| waits.get(&node.handle).is_none_or(|count| *count == 0);
            let Some(at) = left.iter().position(ready) else {
                return Err(invalid("the graph's nodes depend on each other in a circle"));
            };
            let node = left.remove(at);
            for (_, to) in edges.iter().filter(|(from, _)| *from == node.handle) {
                waits.entry(*to).and_modify(|count| *count -= 1);
            }
            order.push(node);
        }
        Ok(order)
    }

    /// Keeps objects of the program, or gives some back.
    pub(super) fn with_kept<T>(&self, change: impl FnOnce(&mut Vec<Kept>) -> T) -> T {
        change(&mut lock(&self.body).kept)
    }
}
