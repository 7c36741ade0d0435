//! Operations: what a stream executes, and what a node of a graph does. Each file of the emulated
//! driver implements the trait for its own operations.

use std::any::Any;
use std::sync::Arc;

use super::current::Context;
use super::gpu::Gpu;
use super::queue::{StreamQueue, SyncPoint, Task};
use crate::detail::DriverResult;

/// The type of a graph node, numbered as in `CUgraphNodeType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NodeType {
    Kernel = 0,
    Memcpy = 1,
    Memset = 2,
    Host = 3,
    Graph = 4,
    Empty = 5,
    WaitEvent = 6,
    EventRecord = 7,
    MemAlloc = 10,
    MemFree = 11,
    BatchMemOp = 12,
}

/// An operation of a stream or of a graph node. It is immutable: setting the parameters of a node
/// gives it another operation.
pub(super) trait Operation: Any + Send + Sync {
    /// The type of a node with this operation.
    fn node_type(&self) -> NodeType;

    /// A label for drawings of a graph.
    fn name(&self) -> String;

    /// Executes the operation on the device; called on the stream's thread.
    fn run(&self, gpu: &Gpu) -> DriverResult;

    /// Enqueues the operation on a stream.
    fn enqueue(
        self: Arc<Self>,
        context: &Arc<Context>,
        queue: &StreamQueue,
    ) -> DriverResult<SyncPoint> {
        let gpu = context.gpu;
        context.enqueue(queue, Task::new(move || self.run(gpu)))
    }

    /// Called for every node of a graph when the graph is launched, before any node is enqueued.
    /// With `free_first`, memory that the graph's last launch left allocated is freed first.
    fn before_launch(&self, _free_first: bool) -> DriverResult {
        Ok(())
    }
}

/// An operation that several streams and graphs can share.
pub(super) type SharedOperation = Arc<dyn Operation>;

impl dyn Operation {
    /// The operation as one of type `T`, if it is one.
    pub(super) fn downcast_ref<T: Operation>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Does nothing, but keeps its position in the order.
pub(super) struct Empty;

impl Operation for Empty {
    fn node_type(&self) -> NodeType {
        NodeType::Empty
    }

    fn name(&self) -> String {
        "empty".to_owned()
    }

    fn run(&self, _: &Gpu) -> DriverResult {
        Ok(())
    }
}
