//! A launch of a graph: its nodes are spread over several stream queues, so that nodes which no
//! edge orders can run concurrently, and are unordered to the race check.

use std::sync::Arc;

use super::current::Context;
use super::operation::SharedOperation;
use super::queue::{StreamQueue, SyncPoint, Task};
use super::stream::Stream;
use crate::detail::DriverResult;

/// Queues of one graph at most; nodes that would need more are ordered without an edge.
const MAX_BRANCHES: usize = 16;

/// An operation, and the indices of the nodes that it depends on, which precede it in the list.
pub(super) struct LaunchNode {
    pub(super) operation: SharedOperation,
    pub(super) after: Vec<usize>,
}

/// The queues of a graph besides the stream's own, kept from launch to launch.
#[derive(Default)]
pub(super) struct BranchQueues {
    own: Vec<Arc<StreamQueue>>,
    /// The end of the last launch, after which the next one begins.
    end: Option<SyncPoint>,
}

/// Where the nodes of a launch go.
struct Launch<'a> {
    context: &'a Arc<Context>,
    stream: &'a StreamQueue,
    branches: &'a mut BranchQueues,
    start: SyncPoint,
    /// The last node of each branch, if any; branch 0 is the stream's own queue.
    tails: Vec<Option<usize>>,
    /// For each node its branch, and the point at which it is completed.
    done: Vec<(usize, SyncPoint)>,
}

impl BranchQueues {
    /// Enqueues all nodes, and after them a task that owns `kept`.
    pub(super) fn launch(
        &mut self,
        context: &Arc<Context>,
        stream: &Stream,
        nodes: Vec<LaunchNode>,
        kept: impl Send + 'static,
    ) -> DriverResult {
        let queue = stream.queue();
        let begin = self.end.take().into_iter().fold(nothing(), Task::after);
        let start = context.enqueue(queue, begin)?;
        let tails = vec![None];
        let mut launch =
            Launch { context, stream: queue, branches: self, start, tails, done: vec![] };
        for node in nodes {
            launch.enqueue(node)?;
        }
        let ends = launch.ends();
        let queues = self.own.clone();
        let end = Task::new(move || {
            drop((kept, queues));
            Ok(())
        });
        let end = context.enqueue(queue, ends.into_iter().fold(end, Task::after))?;
        self.end = Some(end);
        Ok(())
    }
}

impl Launch<'_> {
    fn enqueue(&mut self, LaunchNode { operation, after }: LaunchNode) -> DriverResult {
        let own = after.iter().copied().find(|&node| self.tails[self.done[node].0] == Some(node));
        let (branch, is_new) = match own {
            Some(node) => (self.done[node].0, false),
            None => self.branch(),
        };
        let elsewhere = after.iter().filter(|&&node| self.done[node].0 != branch);
        let mut waits: Vec<SyncPoint> = elsewhere.map(|&node| self.done[node].1.clone()).collect();
        if is_new && branch > 0 && waits.is_empty() {
            waits.push(self.start.clone());
        }
        let queue = match branch {
            0 => self.stream,
            branch => &self.branches.own[branch - 1],
        };
        if !waits.is_empty() {
            let wait = waits.into_iter().fold(nothing(), Task::after);
            self.context.enqueue(queue, wait)?;
        }
        let point = operation.enqueue(self.context, queue)?;
        self.tails[branch] = Some(self.done.len());
        self.done.push((branch, point));
        Ok(())
    }

    /// An unused branch for the next node, or, where all are in use, any one; and whether it was
    /// unused.
    fn branch(&mut self) -> (usize, bool) {
        let used = self.tails.len();
        if self.tails[0].is_none() {
            return (0, true);
        }
        if used == MAX_BRANCHES {
            return (self.done.len() % MAX_BRANCHES, false);
        }
        self.tails.push(None);
        if self.branches.own.len() < used {
            self.branches.own.push(self.context.streams.open_queue(false));
        }
        (used, true)
    }

    /// The last points of the branches other than the stream's own.
    fn ends(&self) -> Vec<SyncPoint> {
        let lasts = self.tails[1..].iter().flatten();
        lasts.map(|&node| self.done[node].1.clone()).collect()
    }
}

/// A task that only waits.
fn nothing() -> Task {
    Task::new(|| Ok(()))
}
