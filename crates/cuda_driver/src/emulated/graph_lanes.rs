//! A launch of a graph: its nodes on several lines of work, so that those run at the same time, and
//! count as unordered for the race check, which no edge orders.

use std::sync::Arc;

use super::current::Context;
use super::operation::SharedOperation;
use super::queue::{Line, Point, Work};
use super::stream::Stream;
use crate::detail::Answer;

/// Lines of one graph; what would need more is done in an order that nobody asked for.
const MOST: usize = 16;

/// An operation, and the ones that it comes after: earlier ones of the same list.
pub(super) struct Task {
    pub(super) operation: SharedOperation,
    pub(super) after: Vec<usize>,
}

/// The lines of a graph beside that of the stream, kept from launch to launch.
#[derive(Default)]
pub(super) struct Lanes {
    own: Vec<Arc<Line>>,
    /// The end of the last launch, behind which the next one begins.
    end: Option<Point>,
}

/// Where the tasks of a launch go.
struct Launch<'a> {
    context: &'a Arc<Context>,
    stream: &'a Line,
    lanes: &'a mut Lanes,
    start: Point,
    /// The last task of each lane, and whether it has had the start to wait for. 0 is the stream's.
    tails: Vec<Option<usize>>,
    /// Of each task its lane, and the point behind it.
    done: Vec<(usize, Point)>,
}

impl Lanes {
    /// Hands in all tasks, and something behind them that keeps `kept`.
    pub(super) fn launch(
        &mut self,
        context: &Arc<Context>,
        stream: &Stream,
        tasks: Vec<Task>,
        kept: impl Send + 'static,
    ) -> Answer {
        let line = stream.line();
        let begin = self.end.take().into_iter().fold(nothing(), Work::after);
        let start = context.submit(line, begin)?;
        let tails = vec![None];
        let mut launch = Launch { context, stream: line, lanes: self, start, tails, done: vec![] };
        for task in tasks {
            launch.submit(task)?;
        }
        let ends = launch.ends();
        let lines = self.own.clone();
        let end = Work::new(move || {
            drop((kept, lines));
            Ok(())
        });
        let end = context.submit(line, ends.into_iter().fold(end, Work::after))?;
        self.end = Some(end);
        Ok(())
    }
}

impl Launch<'_> {
    fn submit(&mut self, Task { operation, after }: Task) -> Answer {
        let own = after.iter().copied().find(|&task| self.tails[self.done[task].0] == Some(task));
        let (lane, is_new) = match own {
            Some(task) => (self.done[task].0, false),
            None => self.lane(),
        };
        let elsewhere = after.iter().filter(|&&task| self.done[task].0 != lane);
        let mut waits: Vec<Point> = elsewhere.map(|&task| self.done[task].1.clone()).collect();
        if is_new && lane > 0 && waits.is_empty() {
            waits.push(self.start.clone());
        }
        let line = match lane {
            0 => self.stream,
            lane => &self.lanes.own[lane - 1],
        };
        if !waits.is_empty() {
            let wait = waits.into_iter().fold(nothing(), Work::after);
            self.context.submit(line, wait)?;
        }
        let point = operation.submit(self.context, line)?;
        self.tails[lane] = Some(self.done.len());
        self.done.push((lane, point));
        Ok(())
    }

    /// A lane on which nothing is that the next task does not come after, if there is one left; and
    /// whether the launch has not used it.
    fn lane(&mut self) -> (usize, bool) {
        let used = self.tails.len();
        if self.tails[0].is_none() {
            return (0, true);
        }
        if used == MOST {
            return (self.done.len() % MOST, false);
        }
        self.tails.push(None);
        if self.lanes.own.len() < used {
            self.lanes.own.push(self.context.queue.open(false));
        }
        (used, true)
    }

    /// What ends the lanes that are not the stream's.
    fn ends(&self) -> Vec<Point> {
        let lasts = self.tails[1..].iter().flatten();
        lasts.map(|&task| self.done[task].1.clone()).collect()
    }
}

fn nothing() -> Work {
    Work::new(|| Ok(()))
}
