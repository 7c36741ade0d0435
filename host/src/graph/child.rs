//! Graphs as nodes of others.

use std::sync::Arc;

use super::exec::Drawing;
use super::operation::{MemoryUse, Operation};
use super::replay::Node;
use crate::context::Context;
use crate::error::GpuResult;

/// What a graph did when it became a node of another one.
#[derive(Clone, Debug)]
pub(super) struct ChildOperation {
    steps: Vec<Step>,
    /// What each of them comes directly after.
    before: Vec<Vec<usize>>,
    /// The steps, each behind those that it comes after.
    sorted: Vec<usize>,
    /// Of each use of the whole, in their order: the step that it is of, and which of its uses it is.
    parts: Vec<(usize, usize)>,
}

/// A node of the child.
#[derive(Clone, Debug)]
struct Step {
    name: String,
    work: Operation,
    uses: Vec<MemoryUse>,
}

impl ChildOperation {
    pub(super) fn new(nodes: &[Node], before: &[Vec<usize>], sorted: &[usize]) -> Self {
        let steps: Vec<_> = nodes.iter().map(Step::of).collect();
        let parts = steps.iter().enumerate();
        let parts = parts.flat_map(|(at, step)| (0..step.uses.len()).map(move |part| (at, part)));
        let parts = parts.collect();
        Self { steps, before: before.to_vec(), sorted: sorted.to_vec(), parts }
    }

    /// The number of nodes.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The memory that the whole uses: all that its nodes do.
    pub(super) fn uses(&self) -> Vec<MemoryUse> {
        let part = |(value, &(at, part)): (usize, &(usize, usize))| MemoryUse {
            value,
            ..self.steps[at].uses[part].clone()
        };
        self.parts.iter().enumerate().map(part).collect()
    }

    /// The name of the node that has a use of the whole, below that of the child.
    pub(super) fn name_of(&self, value: usize, child: &str) -> String {
        let (at, part) = self.parts[value];
        let Step { name, work, uses } = &self.steps[at];
        format!("{child}/{}", work.name_of(uses[part].value, name))
    }

    /// Whether the memory of a use of the whole can be no other.
    pub(super) fn is_fixed(&self, value: usize) -> bool {
        let (at, part) = self.parts[value];
        let Step { work, uses, .. } = &self.steps[at];
        work.is_fixed(uses[part].value)
    }

    /// Lets a use of the whole be of the memory at `start`.
    pub(super) fn move_to(&mut self, value: usize, start: u64) {
        let (at, part) = self.parts[value];
        let Step { work, uses, .. } = &mut self.steps[at];
        uses[part].move_to(start, work);
    }

    /// Shows what its nodes do, with their names below `child`.
    pub(super) fn visit<'a>(&'a self, child: &str, see: &mut dyn FnMut(&str, &'a Operation)) {
        for Step { name, work, .. } in &self.steps {
            work.visit(&format!("{child}/{name}"), see);
        }
    }

    /// The driver's graph of it.
    pub(super) fn draw(&self, context: &Arc<Context>) -> GpuResult<Drawing> {
        let steps: Vec<_> =
            self.steps.iter().map(|step| (step.name.as_str(), &step.work)).collect();
        Drawing::new(context, &steps, &self.before, &self.sorted)
    }
}

impl Step {
    fn of(node: &Node) -> Self {
        let (name, work, uses) = (node.info.name.clone(), node.work.clone(), &node.uses);
        Self { name, work, uses: uses.iter().map(|own| own.part.clone()).collect() }
    }
}
