//! The changes, each of them as far as it can be shown to be one that no other code sees.

use std::ops;

use cuda_std::launch::Access;

use super::Change;
use super::maps::{Map, fused};
use super::ranges::{RangeSet, meet};
use crate::error::GpuResult;
use crate::graph::buffers::{Region, RegionKind};
use crate::graph::operation::{MemoryUse, Operation};
use crate::graph::order::Range;
use crate::graph::replay::{Located, Node, NodeChange};
use crate::lock::lock;

/// Arrays that lie alike modulo this many bytes are accessed by the same instructions.
const VECTOR_BYTES: u64 = 16;

/// Changes the nodes until nothing more can be changed.
pub(super) fn run(nodes: &mut [Node], regions: &[Region]) -> GpuResult<Vec<Change>> {
    let is_ordered = ordered_by_name(nodes);
    let mut graph = Passes { nodes, regions, is_ordered, changes: Vec::new() };
    loop {
        let before = graph.changes.len();
        for at in 0..graph.nodes.len() {
            while graph.read_source(at)? {}
            graph.write_copy(at)?;
            graph.fuse(at)?;
        }
        graph.remove_dead();
        if graph.changes.len() == before {
            return Ok(graph.changes);
        }
    }
}

/// The nodes that were declared to come after others, and those others.
fn ordered_by_name(nodes: &[Node]) -> Vec<bool> {
    let mut is_ordered = vec![false; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for other in lock(&node.info.after).iter() {
            is_ordered[at] = true;
            other.index.get().into_iter().for_each(|&other| is_ordered[other] = true);
        }
    }
    is_ordered
}

struct Passes<'a> {
    nodes: &'a mut [Node],
    regions: &'a [Region],
    is_ordered: Vec<bool>,
    changes: Vec<Change>,
}

/// What is known of the results of nodes.
struct Liveness {
    /// Whether nobody reads what the node writes.
    is_dead: Vec<bool>,
    /// What is read of the memory after the last node.
    at_end: RangeSet,
}

/// What a node reads, as far as is known.
fn reads(node: &Node) -> impl Iterator<Item = Range> {
    let kills = kills(node);
    let all = node.uses.iter().map(|own| &own.part);
    // A kernel that writes memory may read it before.
    let reads =
        all.filter(move |own| own.access == Access::Read || own.is_pointer || kills.is_none());
    reads.map(|own| own.for_order().0)
}

/// What a node may write.
fn writes(node: &Node) -> impl Iterator<Item = Range> {
    let all = node.uses.iter().map(|own| own.part.for_order());
    all.filter(|(_, access)| *access == Access::Write).map(|(range, _)| range)
}

/// The memory of which a node writes each byte, before it reads any, if that is all that it writes.
fn kills(node: &Node) -> Option<Range> {
    match &node.work {
        Operation::Copy(copy) => Some(copy.to),
        Operation::Fill(fill) => Some(fill.to),
        _ => Map::of(node).map(|map| node.uses[map.output].part.range),
    }
}

fn name(node: &Node) -> String {
    node.info.name.clone()
}

impl Passes<'_> {
    /// Lets a copy or a map read what an earlier node copies, and not the copy. Whether that could be done.
    fn read_source(&mut self, at: usize) -> GpuResult<bool> {
        for own in 0..self.nodes[at].uses.len() {
            let part = &self.nodes[at].uses[own].part;
            if part.access == Access::Write || part.is_pointer {
                continue;
            }
            let Some((copy, source)) = self.source_of(at, part) else { continue };
            let before = self.save(at);
            self.move_use(at, own, source)?;
            // Reading the host's memory more often than before costs more than a copy saves.
            if self.is_of(&source, RegionKind::Host) && !self.liveness().is_dead[copy] {
                self.restore(at, before);
                continue;
            }
            let (node, copy) = (name(&self.nodes[at]), name(&self.nodes[copy]));
            self.changes.push(Change::ReadsSource { node, copy });
            return Ok(true);
        }
        Ok(false)
    }

    /// The copy that `part` of a node reads, and the memory that it has copied.
    fn source_of(&self, at: usize, part: &MemoryUse) -> Option<(usize, Range)> {
        let is_kernel = match &self.nodes[at].work {
            Operation::Copy(_) => false,
            _ => Map::of(&self.nodes[at]).map(|_| true)?,
        };
        let from = self.last_writer(at, &part.range)?;
        let Operation::Copy(copy) = &self.nodes[from].work else { return None };
        let start = copy.from + part.range.start.checked_sub(copy.to.start)?;
        let source = Range::new(start, part.range.bytes());
        let is_whole = copy.to.holds(&part.range) && !meet(&copy.to, &source);
        let is_same = !self.writes_any(from + 1..at + 1, &source);
        let suits = !is_kernel || self.suits_kernel(&source, &part.range);
        (is_whole && is_same && suits).then_some((from, source))
    }

    /// Lets a map or a fill, whose result is only copied by the node `at`, write the copy.
    fn write_copy(&mut self, at: usize) -> GpuResult<()> {
        let Operation::Copy(copy) = &self.nodes[at].work else { return Ok(()) };
        let (from, to) = (Range::new(copy.from, copy.to.bytes()), copy.to);
        let Some(writer) = self.last_writer(at, &from) else { return Ok(()) };
        let node = &self.nodes[writer];
        let output = match &node.work {
            Operation::Fill(_) => Some(0),
            _ => Map::of(node).map(|map| map.output),
        };
        let Some(output) = output.filter(|&own| node.uses[own].part.range == from) else {
            return Ok(());
        };
        let is_free = !self.is_ordered[at] && !self.is_ordered[writer];
        let is_untouched = !self.uses_any(writer..at, &to);
        let suits = self.suits_kernel(&to, &from);
        if !(is_free && is_untouched && suits && self.is_read_by_one(writer, at, &from)) {
            return Ok(());
        }
        self.move_use(writer, output, to)?;
        let (node, copy) = (name(&self.nodes[writer]), name(&self.nodes[at]));
        self.changes.push(Change::WritesCopy { node, copy });
        self.remove(at);
        Ok(())
    }

    /// Lets a map do what the one before it does, too, if nobody else reads that one's result.
    fn fuse(&mut self, at: usize) -> GpuResult<()> {
        let Some((first, source, function)) = self.fusible(at) else { return Ok(()) };
        let Some(map) = Map::of(&self.nodes[at]) else { return Ok(()) };
        let Operation::Kernel(kernel) = &self.nodes[at].work else { return Ok(()) };
        let Some(kernel) = fused(kernel, function, source.start) else { return Ok(()) };
        let before = self.save(at);
        self.move_use(at, map.inputs[0], source)?;
        self.nodes[at].work = Operation::Kernel(Box::new(kernel));
        if !self.liveness().is_dead[first] {
            self.restore(at, before);
            return Ok(());
        }
        let (node, into) = (name(&self.nodes[first]), name(&self.nodes[at]));
        self.changes.push(Change::Fused { node, into });
        self.nodes[at].change = NodeChange::Fused;
        self.remove(first);
        Ok(())
    }

    /// The map whose result the node `at` maps, what that one reads, and the function of both.
    fn fusible(&self, at: usize) -> Option<(usize, Range, super::maps::Function)> {
        let map = Map::of(&self.nodes[at])?;
        let [input] = *map.inputs else { return None };
        let between = self.nodes[at].uses[input].part.range;
        let first = self.last_writer(at, &between)?;
        let node = &self.nodes[first];
        let earlier = Map::of(node)?;
        let [source] = *earlier.inputs else { return None };
        let source = node.uses[source].part.range;
        let same = node.uses[earlier.output].part.range == between
            && source.bytes() == between.bytes()
            && !self.writes_any(first..at + 1, &source);
        let function = earlier.function.then(map.function)?;
        same.then_some((first, source, function))
    }

    /// Removes all nodes whose results nobody reads.
    fn remove_dead(&mut self) {
        let Liveness { is_dead, .. } = self.liveness();
        for at in (0..self.nodes.len()).filter(|&at| is_dead[at]) {
            if !self.nodes[at].is_removed() {
                self.changes.push(Change::Removed { node: name(&self.nodes[at]) });
                self.remove(at);
            }
        }
    }

    /// Which results are read: backwards from the end, at which all memory but the scratch is, and what a next replay reads of
    /// the scratch before it writes it.
    fn liveness(&self) -> Liveness {
        let of = |is_scratch: bool| {
            let regions = self.regions.iter();
            regions.filter(move |own| own.is_scratch == is_scratch).map(|own| own.range)
        };
        let scratch: Vec<Range> = of(true).collect();
        let mut at_end: RangeSet = of(false).collect();
        loop {
            let (mut live, mut is_dead) = (at_end.clone(), vec![false; self.nodes.len()]);
            for (at, node) in self.nodes.iter().enumerate().rev() {
                is_dead[at] = self.may_go(at) && !writes(node).any(|range| live.meets(&range));
                if !is_dead[at] {
                    kills(node).iter().for_each(|range| live.remove(range));
                    reads(node).for_each(|range| live.add(range));
                }
            }
            if !at_end.add_common(&live, &scratch) {
                return Liveness { is_dead, at_end };
            }
        }
    }

    /// Whether a node has no effect but on the memory that it writes.
    fn may_go(&self, at: usize) -> bool {
        let node = &self.nodes[at];
        let has_pointers = node.uses.iter().any(|own| own.part.is_pointer);
        let has_results = writes(node).next().is_some();
        !self.is_ordered[at]
            && match &node.work {
                Operation::Nothing | Operation::Copy(_) | Operation::Fill(_) => true,
                Operation::Kernel(_) => has_results && !has_pointers,
                Operation::Child(_) => has_results && !has_pointers && !node.work.calls_host(),
                Operation::Host(_) | Operation::Foreign(_) => false,
            }
    }

    /// Whether what `writer` writes, which is all of `range`, is read by the node `reader` alone.
    fn is_read_by_one(&self, writer: usize, reader: usize, range: &Range) -> bool {
        for (at, node) in self.nodes.iter().enumerate().skip(writer + 1) {
            if at != reader && reads(node).any(|own| meet(&own, range)) {
                return false;
            }
            if kills(node).is_some_and(|own| own.holds(range)) {
                return true;
            }
        }
        !self.liveness().at_end.meets(range)
    }

    fn last_writer(&self, at: usize, range: &Range) -> Option<usize> {
        (0..at).rev().find(|&node| self.writes_any(node..node + 1, range))
    }

    fn writes_any(&self, mut nodes: ops::Range<usize>, range: &Range) -> bool {
        nodes.any(|at| writes(&self.nodes[at]).any(|own| meet(&own, range)))
    }

    fn uses_any(&self, mut nodes: ops::Range<usize>, range: &Range) -> bool {
        let uses = |at: usize| self.nodes[at].uses.iter().map(|own| own.part.for_order().0);
        nodes.any(|at| uses(at).any(|own| meet(&own, range)))
    }

    /// Whether a kernel or a fill may use `new` in place of `old` memory, now and after an exchange of buffers: a whole allocation
    /// stays aligned.
    fn suits_kernel(&self, new: &Range, old: &Range) -> bool {
        let lies_alike = (new.start ^ old.start).is_multiple_of(VECTOR_BYTES);
        lies_alike && self.is_of(new, RegionKind::Buffer)
    }

    fn is_of(&self, range: &Range, kind: RegionKind) -> bool {
        let region = self.regions.iter().find(|region| region.range.holds(range));
        region.is_some_and(|region| region.kind == kind)
    }

    /// Lets a use of a node be of other memory.
    fn move_use(&mut self, at: usize, own: usize, to: Range) -> GpuResult<()> {
        let Node { info, work, uses, ordered, .. } = &mut self.nodes[at];
        uses[own].part.move_to(to.start, work);
        uses[own] = Located::new(uses[own].part.clone(), || info.name.clone(), self.regions)?;
        ordered.clone_from(uses);
        Ok(())
    }

    fn save(&self, at: usize) -> (Operation, Vec<Located>) {
        (self.nodes[at].work.clone(), self.nodes[at].uses.clone())
    }

    fn restore(&mut self, at: usize, (work, uses): (Operation, Vec<Located>)) {
        let node = &mut self.nodes[at];
        (node.work, node.ordered, node.uses) = (work, uses.clone(), uses);
    }

    fn remove(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        (node.work, node.change) = (Operation::Nothing, NodeChange::Removed);
        node.uses.clear();
        node.ordered.clear();
    }
}
