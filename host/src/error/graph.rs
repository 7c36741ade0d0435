//! What can be wrong with a graph.

use thiserror::Error;

/// What can be wrong with a [`Graph`](crate::Graph), each with the node where it is.
#[derive(Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GraphError {
    /// A node uses memory that the graph was not given.
    #[error(
        "node `{node}` of the graph uses memory as `{argument}` that the graph does not have: pass \
         every buffer that a node uses, or a borrow of it, to `build`"
    )]
    NotOwned {
        /// The node.
        node: String,
        /// What the memory is to it.
        argument: &'static str,
    },

    /// A node writes memory that the graph shares with others.
    #[error(
        "node `{node}` of the graph writes `{argument}`, which the graph shares with others: \
         pass the buffer itself or a `&mut` of it to `build`, instead of an `Arc` or a `&`"
    )]
    WritesShared {
        /// The node.
        node: String,
        /// What the memory is to it.
        argument: &'static str,
    },

    /// The dependencies of nodes form a cycle.
    #[error("the dependencies of the nodes {} of the graph form a cycle", among(nodes))]
    Cycle {
        /// The nodes, each of which waits for the next, and the last for the first.
        nodes: Vec<String>,
    },

    /// A node has no operation.
    #[error("node `{node}` of the graph has no operation: launch a kernel on it, or drop it")]
    Empty {
        /// The node.
        node: String,
    },

    /// The operation of a node was set twice.
    #[error("node `{node}` of the graph has an operation already: make another node")]
    NodeAlreadySet {
        /// The node.
        node: String,
    },

    /// The operation of a node was set after its graph was built.
    #[error("node `{node}` was set after its graph was built")]
    AlreadyBuilt {
        /// The node.
        node: String,
    },

    /// A node or a parameter of another graph.
    #[error("`{node}` belongs to another graph")]
    OtherGraph {
        /// The node.
        node: String,
    },

    /// No node has that name.
    #[error("the graph has no node `{node}`; it has {}", among(known))]
    NoNode {
        /// The name that was asked for.
        node: String,
        /// The names that there are.
        known: Vec<String>,
    },

    /// A node has no parameter of that name.
    #[error("node `{node}` of the graph has no parameter `{parameter}`; it has {}", among(known))]
    NoParameter {
        /// The node.
        node: String,
        /// The name that was asked for.
        parameter: String,
        /// The values that it takes by copy.
        known: Vec<String>,
    },

    /// A parameter has another type.
    #[error("`{parameter}` of node `{node}` of the graph is of type `{expected}`, not `{found}`")]
    WrongType {
        /// The node.
        node: String,
        /// The parameter.
        parameter: String,
        /// Its type.
        expected: &'static str,
        /// The type asked for.
        found: &'static str,
    },

    /// A parameter of an `unsafe` kernel was set by safe code.
    #[error(
        "node `{node}` of the graph runs `{kernel}`, whose launch is unsafe, since not every value of a parameter is valid: \
         use `relaunch`, or `set_unchecked`"
    )]
    UnsafeKernel {
        /// The node.
        node: String,
        /// The kernel.
        kernel: &'static str,
    },

    /// The graph's buffers were exchanged for others of another size.
    #[error(
        "buffer {index} of the graph had {expected} bytes and has {found} now: \
         exchange it for one of the same size, or build another graph"
    )]
    BufferChanged {
        /// Its place among the buffers, from 0.
        index: usize,
        /// The size that it had.
        expected: usize,
        /// The size that it has.
        found: usize,
    },

    /// The graph has another number of buffers than when it was built.
    #[error("the graph had {expected} buffers and has {found} now")]
    BufferCount {
        /// How many it had.
        expected: usize,
        /// How many it has.
        found: usize,
    },

    /// A node is to run another kernel.
    #[error("node `{node}` of the graph runs `{expected}`, not `{found}`: build another graph")]
    OtherKernel {
        /// The node.
        node: String,
        /// What it does.
        expected: &'static str,
        /// The kernel that was launched on it.
        found: &'static str,
    },

    /// A node is to use other memory than the graph was made for: than its order allows, or where only the node itself knows all addresses,
    /// such as those in tensor maps.
    #[error(
        "node `{node}` of the graph would use other memory as `{argument}` than the graph \
         was made for: build another graph"
    )]
    OtherMemory {
        /// The node.
        node: String,
        /// What the memory is to it.
        argument: &'static str,
    },

    /// A node that runs a kernel is to run nothing.
    #[error("node `{node}` of the graph cannot be given a grid without blocks")]
    EmptyGrid {
        /// The node.
        node: String,
    },

    /// A call in a capture that would happen now, and in no replay.
    #[error(
        "{operation} cannot be captured: it would happen once, now, and in no replay. A capture takes \
         launches, copies on the device and fills; do the rest before it or after it"
    )]
    NotCapturable {
        /// The driver's function, or what was to be done.
        operation: &'static str,
    },

    /// A graph with work of other libraries cannot be optimised.
    #[error(
        "node `{node}` of the graph holds work of another library, and what its parts use is unknown: build the graph \
         without `optimize`, or make that node part of another graph"
    )]
    NotOptimizable {
        /// The node.
        node: String,
    },

    /// A node cannot be changed any more, because its graph was optimised.
    #[error(
        "node `{node}` cannot be changed after `optimize` has fused or removed nodes of its graph: use `build` in its \
         place, or set the parameters when the node is made"
    )]
    Optimized {
        /// The node.
        node: String,
    },

    /// The function of a foreign node enqueued nothing on its stream.
    #[error(
        "the function of node `{node}` of the graph enqueued nothing: let it use the stream that it \
         is called with"
    )]
    NothingCaptured {
        /// The node.
        node: String,
    },

    /// A host callback panicked in a replay.
    #[error("node `{node}` of the graph panicked: {message}")]
    HostPanic {
        /// The node.
        node: String,
        /// What the panic says.
        message: String,
    },
}

/// Names for a sentence: "`a`, `b`".
fn among(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        rest => format!("{} and {rest} more", shown.join(", ")),
    }
}
