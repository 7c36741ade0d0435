//! What a stream does next, or a node of a graph does: one interface for both. Each room of the
//! emulated driver implements it for its own operations.

use std::any::Any;
use std::sync::Arc;

use super::current::Context;
use super::gpu::Gpu;
use super::queue::{Line, Point, Work};
use crate::detail::Answer;

/// An operation of a stream, or of a node of a graph. It never changes: a node whose parameters
/// are set gets another one.
pub(super) trait Operation: Any + Send + Sync {
    /// The type of a node that does this, as `CUgraphNodeType` numbers it.
    fn node_type(&self) -> i32;

    /// In words, for pictures of a graph.
    fn name(&self) -> String;

    /// Does it on the device, on the stream's thread.
    fn run(&self, gpu: &Gpu) -> Answer;

    /// Enqueues it on a stream.
    fn submit(self: Arc<Self>, context: &Arc<Context>, line: &Line) -> Answer<Point> {
        let gpu = context.gpu;
        context.submit(line, Work::new(move || self.run(gpu)))
    }

    /// Is called for every node of a graph before any of them is enqueued. `free_first` says that
    /// memory which the graph's last launch left allocated is freed first.
    fn before_launch(&self, _free_first: bool) -> Answer {
        Ok(())
    }
}

/// An operation that streams and graphs share.
pub(super) type SharedOperation = Arc<dyn Operation>;

impl dyn Operation {
    /// The operation as one of type `T`, where it is one.
    pub(super) fn downcast_ref<T: Operation>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }
}

/// Does nothing, but has its turn in the order.
pub(super) struct Empty;

impl Operation for Empty {
    fn node_type(&self) -> i32 {
        5
    }

    fn name(&self) -> String {
        "empty".to_owned()
    }

    fn run(&self, _: &Gpu) -> Answer {
        Ok(())
    }
}
