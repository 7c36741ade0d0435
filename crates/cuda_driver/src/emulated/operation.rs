//! What a stream does next, or a node of a graph does: one description for both.

use std::sync::Arc;

use super::callback::HostCall;
use super::current::Context;
use super::event;
use super::fill::Fill;
use super::graph::Graph;
use super::graph_memory::GraphMemory;
use super::launch::Call;
use super::queue::{Line, Point, Work};
use super::registry::Handle;
use super::stream_values::MemOps;
use super::transfer::Copy;
use crate::detail::Answer;

/// Something that a stream does.
#[derive(Clone)]
pub(super) enum Operation {
    Kernel(Arc<Call>),
    Copy(Box<Copy>),
    Fill(Fill),
    Host(HostCall),
    /// Another graph's nodes.
    Child(Arc<Graph>),
    Empty,
    /// Waits for an event that is recorded outside of the graph.
    Wait(Handle),
    /// Records an event for those outside of the graph.
    Record(Handle),
    Alloc(Arc<GraphMemory>),
    Free(u64),
    Values(MemOps),
}

impl Operation {
    /// The driver API's number of a node that does this.
    pub(super) fn node_type(&self) -> i32 {
        match self {
            Self::Kernel(_) => 0,
            Self::Copy(_) => 1,
            Self::Fill(_) => 2,
            Self::Host(_) => 3,
            Self::Child(_) => 4,
            Self::Empty => 5,
            Self::Wait(_) => 6,
            Self::Record(_) => 7,
            Self::Alloc(_) => 10,
            Self::Free(_) => 11,
            Self::Values(_) => 12,
        }
    }

    /// In words, for pictures of a graph.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Kernel(call) => format!("kernel {}", call.kernel.entry.name),
            Self::Copy(copy) => copy.name(),
            Self::Fill(_) => "memset".to_owned(),
            Self::Host(_) => "host function".to_owned(),
            Self::Child(_) => "graph".to_owned(),
            Self::Empty => "empty".to_owned(),
            Self::Wait(_) => "event wait".to_owned(),
            Self::Record(_) => "event record".to_owned(),
            Self::Alloc(memory) => format!("allocation of {} bytes", memory.bytes),
            Self::Free(address) => format!("free of {address:#x}"),
            Self::Values(_) => "memory operations".to_owned(),
        }
    }

    /// Hands it to a stream's line.
    pub(super) fn submit(self, context: &Arc<Context>, line: &Line) -> Answer<Point> {
        let work = match self {
            Self::Record(event) => return event::record_on(event, context, line),
            Self::Wait(event) => event::wait_for(event)?,
            Self::Host(call) => Work::new(move || call.run()),
            Self::Values(ops) => {
                let gpu = context.gpu;
                Work::new(move || ops.run(gpu))
            }
            other => Work::new(move || other.run()),
        };
        context.queue.submit(context, line, work)
    }

    /// Does what needs nothing but its description.
    fn run(&self) -> Answer {
        match self {
            Self::Kernel(call) => call.run(),
            Self::Copy(copy) => copy.run(),
            Self::Fill(fill) => fill.run(),
            Self::Free(address) => super::graph_memory::free_at_run(*address),
            _ => Ok(()),
        }
    }
}
