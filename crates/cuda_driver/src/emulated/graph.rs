//! Graphs: operations with dependencies, which are launched as a whole.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex};

use super::gpu::Gpu;
use super::operation::{NodeType, Operation, SharedOperation};
use super::registry::{Handle, Registry};
use super::user_object::UserObjectReferences;
use super::{invalid_value, lock, not_supported};
use crate::abi::{CUgraph, CUgraphNode, In};
use crate::detail::DriverResult;

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

/// The operation of a child graph node: the graph's nodes are launched in the node's place.
pub(super) struct ChildGraph(pub(super) Arc<Graph>);

impl Operation for ChildGraph {
    fn node_type(&self) -> NodeType {
        NodeType::Graph
    }

    fn name(&self) -> String {
        "graph".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        Ok(())
    }
}

#[derive(Default)]
struct Body {
    nodes: Vec<Arc<Node>>,
    /// Each from a node to one that depends on it.
    edges: Vec<(Handle, Handle)>,
    /// In a clone, maps each original node to its clone.
    clones: HashMap<Handle, Handle>,
    /// User objects that live at least as long as the graph.
    user_objects: Vec<UserObjectReferences>,
}

static GRAPHS: Registry<Graph> = Registry::new("graph");
static NODES: Registry<Node> = Registry::new("node");

/// The number of live graphs, including child graphs.
pub(super) fn live() -> usize {
    GRAPHS.count(|_| true)
}

/// The graph of this handle.
pub(super) fn from_handle(graph: CUgraph) -> DriverResult<Arc<Graph>> {
    GRAPHS.get(graph)
}

/// The node of this handle.
pub(super) fn node(node: CUgraphNode) -> DriverResult<Arc<Node>> {
    NODES.get(node)
}

/// The node of this handle with its graph.
pub(super) fn node_of(handle: CUgraphNode) -> DriverResult<(Arc<Node>, Arc<Graph>)> {
    let node = NODES.get(handle)?;
    let graph = GRAPHS.get(node.graph)?;
    Ok((node, graph))
}

/// Reads a list of handles.
pub(super) fn list(handles: In<CUgraphNode>, count: usize) -> DriverResult<Vec<Handle>> {
    if count > 0 {
        handles.get()?;
    }
    Ok((0..count).map(|at| handles.at(at).into()).collect())
}

/// The edge between two kernels of which the second one may begin before the first one has ended, and waits for it itself.
const PROGRAMMATIC: u64 = u64::from_le_bytes([1, 0, 1, 0, 0, 0, 0, 0]);

/// Edge data allows a node to begin before its predecessor has ended. The emulator has only full dependencies, for which
/// the data is zero; a programmatic one becomes such a one, which orders no less.
pub(super) fn check_edges(edges: In<u64>, count: usize) -> DriverResult {
    match edges.is_null() || (0..count).all(|at| [0, PROGRAMMATIC].contains(&edges.at(at))) {
        true => Ok(()),
        false => Err(not_supported("the emulator's graphs have only full dependencies")),
    }
}

impl Graph {
    pub(super) fn create() -> Arc<Self> {
        let handle = Handle::fresh();
        let graph = Arc::new(Self { handle, body: Mutex::default() });
        GRAPHS.put(handle, graph.clone());
        graph
    }

    /// Destroys the graph and its nodes. Executable graphs made from it are kept.
    pub(super) fn destroy(handle: CUgraph) -> DriverResult {
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

    /// Clones the graph.
    pub(super) fn copy(&self) -> DriverResult<Arc<Self>> {
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

    /// The clone of a node of the original graph.
    pub(super) fn clone_of(&self, original: Handle) -> Option<Handle> {
        lock(&self.body).clones.get(&original).copied()
    }

    /// Fails unless all are distinct nodes of this graph.
    pub(super) fn check(&self, nodes: &[Handle]) -> DriverResult {
        let body = lock(&self.body);
        for (at, handle) in nodes.iter().enumerate() {
            if !body.nodes.iter().any(|node| node.handle == *handle) {
                return Err(invalid_value("a node does not belong to this graph"));
            }
            if nodes[..at].contains(handle) {
                return Err(invalid_value("a node appears twice in the list"));
            }
        }
        Ok(())
    }

    /// Adds a node that depends on others.
    pub(super) fn add(
        &self,
        operation: SharedOperation,
        dependencies: &[Handle],
    ) -> DriverResult<Handle> {
        self.check(dependencies)?;
        let handle = Handle::fresh();
        let node = Node { handle, graph: self.handle, operation: Mutex::new(operation) };
        let node = Arc::new(node);
        NODES.put(handle, node.clone());
        let mut body = lock(&self.body);
        body.nodes.push(node);
        body.edges.extend(dependencies.iter().map(|from| (*from, handle)));
        Ok(handle)
    }

    /// Removes a node and its edges.
    pub(super) fn remove(&self, handle: Handle) -> DriverResult {
        let gone = NODES.remove(handle)?;
        if let Some(ChildGraph(child)) = gone.operation().downcast_ref() {
            Self::destroy(child.handle.as_ptr())?;
        }
        let mut body = lock(&self.body);
        body.nodes.retain(|node| node.handle != handle);
        body.edges.retain(|(from, to)| *from != handle && *to != handle);
        Ok(())
    }

    /// Adds all edges, or none on an error.
    pub(super) fn connect(&self, edges: &[(Handle, Handle)]) -> DriverResult {
        for (from, to) in edges {
            self.check(&[*from])?;
            self.check(&[*to])?;
            if from == to {
                return Err(invalid_value("a node cannot depend on itself"));
            }
        }
        let mut body = lock(&self.body);
        if edges.iter().any(|edge| body.edges.contains(edge)) {
            return Err(invalid_value("an edge exists already"));
        }
        body.edges.extend(edges);
        Ok(())
    }

    /// Removes all edges, or none on an error.
    pub(super) fn disconnect(&self, edges: &[(Handle, Handle)]) -> DriverResult {
        let mut body = lock(&self.body);
        if !edges.iter().all(|edge| body.edges.contains(edge)) {
            return Err(invalid_value("an edge does not exist"));
        }
        body.edges.retain(|edge| !edges.contains(edge));
        Ok(())
    }

    /// The nodes in the order in which they were added, and the edges.
    pub(super) fn parts(&self) -> (Vec<Arc<Node>>, Vec<(Handle, Handle)>) {
        let body = lock(&self.body);
        (body.nodes.clone(), body.edges.clone())
    }

    /// These nodes and all that they depend on.
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

    /// The nodes in a topological order. Fails if the dependencies are cyclic.
    pub(super) fn ordered(&self) -> DriverResult<Vec<Arc<Node>>> {
        let (nodes, edges) = self.parts();
        let mut waits: HashMap<Handle, usize> = HashMap::new();
        edges.iter().for_each(|(_, to)| *waits.entry(*to).or_default() += 1);
        let mut left = nodes;
        let mut order = Vec::new();
        while !left.is_empty() {
            let ready = |node: &Arc<Node>| waits.get(&node.handle).is_none_or(|count| *count == 0);
            let Some(at) = left.iter().position(ready) else {
                return Err(invalid_value("the graph's dependencies are cyclic"));
            };
            let node = left.remove(at);
            for (_, to) in edges.iter().filter(|(from, _)| *from == node.handle) {
                waits.entry(*to).and_modify(|count| *count -= 1);
            }
            order.push(node);
        }
        Ok(order)
    }

    /// Changes the graph's list of user objects.
    pub(super) fn with_user_objects<T>(
        &self,
        change: impl FnOnce(&mut Vec<UserObjectReferences>) -> T,
    ) -> T {
        change(&mut lock(&self.body).user_objects)
    }
}
