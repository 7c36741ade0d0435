//! The order of nodes, found from the memory that they use.
//!
//! Memory is cut into segments at the ends of what nodes use. Each segment keeps its last writer
//! and the readers since: a reader comes after that writer, a writer after those readers too. What
//! is recorded later comes later, so these edges never lead in a circle; only those that were asked
//! for by name can.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use cuda_std::launch::Access;

/// A range of addresses: the first byte, and one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Range {
    /// All memory that there is.
    pub(super) const ALL: Self = Self { start: 0, end: u64::MAX };

    pub(super) fn new(start: u64, bytes: usize) -> Self {
        Self { start, end: start.saturating_add(bytes as u64) }
    }

    pub(super) fn holds(&self, other: &Self) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    pub(super) fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
}

#[derive(Clone, Debug, Default)]
struct Segment {
    end: u64,
    writer: Option<usize>,
    /// The nodes that have read it since.
    readers: Vec<usize>,
}

/// Nodes and what each comes after.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// By the first address; they do not overlap.
    segments: BTreeMap<u64, Segment>,
    before: Vec<Vec<usize>>,
}

/// How many nodes are looked at to find that an edge is not needed, which is harmless to keep.
const PATIENCE: usize = 1 << 10;

impl Order {
    /// The next node, with all that it uses.
    pub(super) fn add(&mut self, uses: impl Iterator<Item = (Range, Access)> + Clone) {
        let node = self.before.len();
        let mut before = BTreeSet::new();
        for (range, access) in uses.clone() {
            self.cut(range.start);
            self.cut(range.end);
            for (_, segment) in self.segments.range(range.start..range.end) {
                segment.conflicts(access, &mut before);
            }
        }
        // What it writes belongs to it, whatever else it does there.
        for access in [Access::Read, Access::Write] {
            let same = uses.clone().filter(|(_, own)| *own == access);
            same.for_each(|(range, _)| self.mark(range, access, node));
        }
        let needed = self.needed(before);
        self.before.push(needed);
    }

    /// What each node comes directly after, by their numbers.
    pub(super) fn into_edges(self) -> Vec<Vec<usize>> {
        self.before
    }

    /// Lets a segment begin at `at`, if one covers it.
    fn cut(&mut self, at: u64) {
        let Some((_, segment)) = self.segments.range_mut(..at).next_back() else { return };
        if segment.end > at {
            let behind = segment.clone();
            segment.end = at;
            self.segments.insert(at, behind);
        }
    }

    /// Notes a use of whole segments, and of what lies between them.
    fn mark(&mut self, range: Range, access: Access, node: usize) {
        let mut at = range.start;
        while at < range.end {
            let next = self.segments.range(at + 1..range.end).next();
            let next = next.map_or(range.end, |(&start, _)| start);
            let fresh = || Segment { end: next, ..Segment::default() };
            let segment = self.segments.entry(at).or_insert_with(fresh);
            segment.used(access, node);
            at = segment.end;
        }
    }

    /// Leaves out the nodes that another one comes after anyway.
    fn needed(&self, before: BTreeSet<usize>) -> Vec<usize> {
        let Some(&first) = before.first() else { return Vec::new() };
        let (mut needed, mut open) = (Vec::new(), Vec::<usize>::new());
        let mut seen = HashSet::new();
        for node in before.into_iter().rev() {
            while seen.len() < PATIENCE
                && let Some(next) = open.pop()
            {
                let earlier = self.before[next].iter().filter(|&&earlier| earlier >= first);
                open.extend(earlier.filter(|&&earlier| seen.insert(earlier)));
            }
            if seen.insert(node) {
                needed.push(node);
                open.push(node);
            }
        }
        needed.reverse();
        needed
    }
}

impl Segment {
    fn conflicts(&self, access: Access, with: &mut BTreeSet<usize>) {
        with.extend(self.writer);
        if access == Access::Write {
            with.extend(&self.readers);
        }
    }

    fn used(&mut self, access: Access, node: usize) {
        match access {
            Access::Read => self.readers.push(node),
            Access::Write => {
                self.writer = Some(node);
                self.readers.clear();
            }
        }
    }
}

/// A topological order of the nodes, or a cycle among them.
pub(super) fn sorted(before: &[Vec<usize>]) -> Result<Vec<usize>, Vec<usize>> {
    let mut behind = vec![Vec::new(); before.len()];
    let mut waits: Vec<usize> = before.iter().map(Vec::len).collect();
    for (node, earlier) in before.iter().enumerate() {
        earlier.iter().for_each(|&earlier| behind[earlier].push(node));
    }
    let mut sorted: Vec<usize> = (0..before.len()).filter(|&node| waits[node] == 0).collect();
    let mut at = 0;
    while let Some(&node) = sorted.get(at) {
        at += 1;
        for &next in &behind[node] {
            waits[next] -= 1;
            if waits[next] == 0 {
                sorted.push(next);
            }
        }
    }
    if sorted.len() == before.len() { Ok(sorted) } else { Err(circle(before, &waits)) }
}

/// One circle among the nodes that still wait.
fn circle(before: &[Vec<usize>], waits: &[usize]) -> Vec<usize> {
    let mut node = waits.iter().position(|&count| count > 0).unwrap_or(0);
    let mut path = Vec::new();
    while !path.contains(&node) {
        path.push(node);
        node = before[node].iter().copied().find(|&next| waits[next] > 0).unwrap_or(node);
    }
    let start = path.iter().position(|&other| other == node).unwrap_or(0);
    path.split_off(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const R: Access = Access::Read;
    const W: Access = Access::Write;

    /// The edges of nodes that use bytes so.
    fn edges(nodes: &[&[(u64, u64, Access)]]) -> Vec<Vec<usize>> {
        let mut order = Order::default();
        for uses in nodes {
            order.add(uses.iter().map(|&(start, end, access)| (Range { start, end }, access)));
        }
        order.into_edges()
    }

    #[test]
    fn readers_come_after_the_writer_and_the_next_writer_after_them() {
        let found = edges(&[&[(0, 8, W)], &[(0, 8, R)], &[(0, 8, R)], &[(0, 8, W)], &[(0, 8, W)]]);
        assert_eq!(found, [vec![], vec![0], vec![0], vec![1, 2], vec![3]]);
    }

    #[test]
    fn a_diamond_has_four_edges() {
        let found = edges(&[
            &[(0, 4, W)],
            &[(0, 4, R), (4, 8, W)],
            &[(0, 4, R), (8, 12, W)],
            &[(4, 8, R), (8, 12, R), (0, 4, W)],
        ]);
        assert_eq!(found, [vec![], vec![0], vec![0], vec![1, 2]]);
    }

    #[test]
    fn parts_that_do_not_meet_are_independent() {
        let found = edges(&[&[(0, 4, W)], &[(4, 8, W)], &[(2, 6, R)], &[(6, 8, W)], &[(0, 2, W)]]);
        assert_eq!(found, [vec![], vec![], vec![0, 1], vec![1], vec![0]]);
    }

    #[test]
    fn memory_between_known_parts_is_known_too() {
        let found = edges(&[&[(4, 6, R)], &[(0, 10, W)], &[(7, 8, R)], &[(0, 1, R)]]);
        assert_eq!(found, [vec![], vec![0], vec![1], vec![1]]);
    }

    #[test]
    fn who_uses_all_memory_is_between_all_others() {
        let all = (Range::ALL.start, Range::ALL.end, W);
        let found = edges(&[&[(0, 4, R)], &[(4, 8, W)], &[all], &[(0, 4, R)], &[(4, 8, R)]]);
        assert_eq!(found, [vec![], vec![], vec![0, 1], vec![2], vec![2]]);
    }

    #[test]
    fn an_order_found_by_brute_force_is_the_same() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut node = || {
            let start = random(24);
            vec![(start, start + 1 + random(8), if random(3) == 0 { W } else { R })]
        };
        let nodes: Vec<Vec<_>> = (0..200).map(|_| node()).collect();
        let uses: Vec<&[_]> = nodes.iter().map(Vec::as_slice).collect();
        let reachable = |edges: &[Vec<usize>]| {
            let mut all: Vec<HashSet<usize>> = Vec::new();
            for before in edges {
                let far = before.iter().flat_map(|&earlier| all[earlier].iter().copied());
                let own = far.chain(before.iter().copied()).collect();
                all.push(own);
            }
            all
        };
        let conflict = |a: &(u64, u64, Access), b: &(u64, u64, Access)| {
            a.0 < b.1 && b.0 < a.1 && (a.2 == W || b.2 == W)
        };
        let expected: Vec<Vec<usize>> = (0..nodes.len())
            .map(|at| (0..at).filter(|&e| conflict(&nodes[e][0], &nodes[at][0])).collect())
            .collect();
        assert_eq!(reachable(&edges(&uses)), reachable(&expected));
    }

    #[test]
    fn circles_are_found() {
        assert_eq!(sorted(&[vec![], vec![2], vec![0]]), Ok(vec![0, 2, 1]));
        let mut found = sorted(&[vec![], vec![0, 3], vec![1], vec![2], vec![3]]).unwrap_err();
        found.sort_unstable();
        assert_eq!(found, [1, 2, 3]);
        assert_eq!(sorted(&[vec![0]]), Err(vec![0]));
    }
}
