//! The vector clocks of the lanes of a warp, their fences, and the strong reads that a later fence
//! turns into acquires.

use super::clock::{Tree, VectorClock};
use crate::isa::Scope;
use std::sync::Arc;

/// Strong reads since the last fence that are kept apart; more are taken as one.
const PENDING: usize = 64;

/// Lanes with the same vector clock.
#[derive(Clone, Debug)]
pub struct LaneGroup {
    /// Lanes.
    pub mask: u32,
    /// Their clock. Each lane's own accesses happen before its later ones besides.
    pub clock: Arc<VectorClock>,
}

/// A fence that lanes executed: their later strong writes publish the clock that they had then.
#[derive(Clone, Debug)]
pub struct Fence {
    mask: u32,
    /// Scope.
    pub scope: Scope,
    /// Whether it is a `fence.sc`.
    pub sc: bool,
    /// When.
    pub tick: u32,
    /// The clock at the fence.
    pub clock: Arc<VectorClock>,
}

/// What lanes have read by strong reads, and acquire at their next fence.
#[derive(Clone, Debug)]
pub struct Pending {
    mask: u32,
    /// The block that published it; `None` for several.
    pub by: Option<u32>,
    /// What was published.
    pub tree: Tree,
}

/// The lanes of a warp.
#[derive(Debug, Default)]
pub struct Lanes {
    /// Lanes that have not ended.
    pub alive: u32,
    groups: Vec<LaneGroup>,
    /// The lowest floor of the groups.
    floor: u32,
    fences: Vec<Fence>,
    pending: Vec<Pending>,
}

impl Lanes {
    /// Lanes that begin.
    pub fn begin(&mut self, mask: u32, clock: &Arc<VectorClock>) {
        self.alive = mask;
        self.groups.clear();
        self.groups.push(LaneGroup { mask: u32::MAX, clock: Arc::clone(clock) });
        self.floor = clock.own.floor;
        self.fences.clear();
        self.pending.clear();
    }

    /// The lanes, grouped by equal clocks.
    pub fn groups(&self) -> &[LaneGroup] {
        &self.groups
    }

    /// The clock of a lane.
    pub fn clock(&self, lane: usize) -> &Arc<VectorClock> {
        let own = self.groups.iter().find(|group| group.mask >> lane & 1 != 0);
        &own.unwrap_or(&self.groups[0]).clock
    }

    /// The tick up to which all accesses of the block happen before those of any lane.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// The clock of all lanes, where they have the same.
    pub fn only(&self) -> Option<&Arc<VectorClock>> {
        match self.groups.as_slice() {
            [group] => Some(&group.clock),
            _ => None,
        }
    }

    /// Sets the clock of lanes.
    pub fn set(&mut self, mask: u32, clock: &Arc<VectorClock>) {
        // Lanes that have ended go along, so that those left can be one group again.
        let mask = if self.alive & !mask == 0 { u32::MAX } else { mask };
        for group in &mut self.groups {
            group.mask &= !mask;
        }
        self.groups.retain(|group| group.mask != 0);
        match self.groups.iter_mut().find(|group| Arc::ptr_eq(&group.clock, clock)) {
            Some(group) => group.mask |= mask,
            None => self.groups.push(LaneGroup { mask, clock: Arc::clone(clock) }),
        }
        self.floor = self.groups.iter().map(|group| group.clock.own.floor).min().unwrap_or(0);
    }

    /// The maximum of the clocks of some lanes.
    pub fn joined(&self, mask: u32) -> VectorClock {
        let mut own = self.groups.iter().filter(|group| group.mask & mask != 0);
        let mut clock =
            own.next().map(|group| VectorClock::clone(&group.clock)).unwrap_or_default();
        own.for_each(|group| clock.join(&group.clock));
        clock
    }

    /// Each lane of `mask` learns what `lesson` teaches to a group.
    pub fn learn(&mut self, mask: u32, lesson: impl Fn(&mut VectorClock)) {
        let learners: Vec<LaneGroup> =
            self.groups.iter().filter(|group| group.mask & mask != 0).cloned().collect();
        for group in learners {
            let mut clock = VectorClock::clone(&group.clock);
            lesson(&mut clock);
            self.set(group.mask & mask, &Arc::new(clock));
        }
    }

    /// Whether any lane of `mask` has executed a fence.
    pub fn has_fenced(&self, mask: u32) -> bool {
        self.fences.iter().any(|fence| fence.mask & mask != 0)
    }

    /// The fences of a lane that still count: for each scope the last, and the last `fence.sc`.
    pub fn fences(&self, lane: usize) -> impl Iterator<Item = &Fence> {
        self.fences.iter().filter(move |fence| fence.mask >> lane & 1 != 0)
    }

    /// Lanes execute a fence that later strong writes publish by.
    pub fn fence(&mut self, mask: u32, scope: Scope, tick: u32, sc: bool) {
        for fence in &mut self.fences {
            if fence.scope <= scope && (sc || !fence.sc) {
                fence.mask &= !mask;
            }
        }
        self.fences.retain(|fence| fence.mask != 0);
        for group in &self.groups {
            let mask = group.mask & mask;
            if mask != 0 {
                self.fences.push(Fence { mask, scope, sc, tick, clock: Arc::clone(&group.clock) });
            }
        }
    }

    /// A lane has observed a write that came after a `fence.sc`; see [`VectorClock::sc`].
    pub fn hear(&mut self, lane: usize, sc: &Tree) {
        if !self.clock(lane).sc.join(sc).is(&self.clock(lane).sc) {
            self.learn(1 << lane, |clock| clock.sc.learn(sc));
        }
    }

    /// A lane has read what was published.
    pub fn note(&mut self, lane: usize, by: Option<u32>, tree: &Tree) {
        let same = |own: &&mut Pending| own.by == by && own.tree.is(tree);
        if let Some(own) = self.pending.iter_mut().find(same) {
            own.mask |= 1 << lane;
            return;
        }
        if self.pending.len() == PENDING {
            self.pool();
        }
        self.pending.push(Pending { mask: 1 << lane, by, tree: tree.clone() });
    }

    /// Makes room: each publisher's news become one.
    fn pool(&mut self) {
        let mut pooled: Vec<Pending> = Vec::new();
        for own in self.pending.drain(..) {
            match pooled.iter_mut().find(|other| other.by == own.by) {
                Some(other) => {
                    other.mask |= own.mask;
                    other.tree.learn(&own.tree);
                }
                None => pooled.push(own),
            }
        }
        if pooled.len() == PENDING {
            let all = pooled.split_off(1);
            for own in all {
                pooled[0].by = None;
                pooled[0].mask |= own.mask;
                pooled[0].tree.learn(&own.tree);
            }
        }
        self.pending = pooled;
    }

    /// What a fence of some lanes lets them know: for each piece of news the lanes that read it.
    pub fn take_pending(
        &mut self,
        mask: u32,
        counts: impl Fn(&Pending) -> bool,
    ) -> Vec<(u32, Tree)> {
        let mut out = Vec::new();
        for own in &mut self.pending {
            if own.mask & mask != 0 && counts(own) {
                out.push((own.mask & mask, own.tree.clone()));
                own.mask &= !mask;
            }
        }
        self.pending.retain(|own| own.mask != 0);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::super::clock::BlockClock;
    use super::*;

    fn clock(tick: u32) -> Arc<VectorClock> {
        Arc::new(VectorClock { own: BlockClock::all(tick), ..VectorClock::default() })
    }

    #[test]
    fn lanes_with_equal_knowledge_are_one_team() {
        let mut lanes = Lanes::default();
        lanes.begin(u32::MAX, &clock(0));
        assert!(lanes.only().is_some());
        let more = clock(4);
        lanes.set(0xff, &more);
        assert_eq!((lanes.groups().len(), lanes.floor()), (2, 0));
        assert_eq!((lanes.clock(7).own.floor, lanes.clock(8).own.floor), (4, 0));
        lanes.set(0xffff_ff00, &more);
        assert!(lanes.only().is_some_and(|clock| clock.own.floor == 4));
    }

    #[test]
    fn a_fence_replaces_narrower_ones_of_its_lanes() {
        let mut lanes = Lanes::default();
        lanes.begin(u32::MAX, &clock(0));
        lanes.fence(3, Scope::Device, 1, false);
        lanes.fence(1, Scope::Block, 2, false);
        let scopes = |lane| lanes.fences(lane).map(|own| (own.scope, own.tick)).collect::<Vec<_>>();
        assert_eq!(scopes(0), [(Scope::Device, 1), (Scope::Block, 2)]);
        assert_eq!(scopes(1), [(Scope::Device, 1)]);
        lanes.fence(1, Scope::System, 3, true);
        assert_eq!(lanes.fences(0).count(), 1);
        lanes.fence(1, Scope::System, 4, false);
        assert_eq!(lanes.fences(0).map(|own| own.sc).collect::<Vec<_>>(), [true, false]);
        assert!(lanes.has_fenced(2) && !lanes.has_fenced(4));
    }
}
