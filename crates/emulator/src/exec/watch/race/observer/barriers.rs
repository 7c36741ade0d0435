//! Barriers: all who meet know what each of them did.

use super::{BARRIERS, RaceObserver};
use crate::exec::watch::race::clock::{BlockKnow, Know};
use std::sync::Arc;

impl RaceObserver<'_> {
    /// Lanes of a warp met: each knows what any of them did.
    pub(super) fn meet(&mut self, warp: u32, mask: u32) {
        let tick = self.team.tick;
        let own = &mut self.team.warps[warp as usize];
        let mut know = own.joined(mask);
        know.own.raise(warp, mask | !own.alive, tick);
        own.set(mask, &Arc::new(know));
        self.team.tick += 1;
    }

    /// What some lanes of a warp bring to a barrier.
    pub(super) fn brought(&self, warp: u32, mask: u32) -> Know {
        let own = &self.team.warps[warp as usize];
        let mut know = own.joined(mask);
        know.own.raise(warp, mask | !own.alive, self.team.tick);
        know
    }

    pub(super) fn open(&mut self, barrier: u32, waiting: &[u32]) {
        let all = self.team.warps.iter().zip(waiting).all(|(own, mask)| own.alive == *mask);
        let early = self.team.arrived[barrier as usize % BARRIERS].take();
        let know = match (all && early.is_none()).then(|| self.common()).flatten() {
            Some(know) => know,
            None => self.gathered(waiting, early, all),
        };
        let know = Arc::new(know);
        for (own, mask) in self.team.warps.iter_mut().zip(waiting) {
            if *mask != 0 {
                own.set(*mask, &know);
            }
        }
        self.team.tick += 1;
    }

    /// What all know after a barrier of the whole block, where they knew the same of other blocks.
    fn common(&self) -> Option<Know> {
        let mut own = self.team.warps.iter().filter(|own| own.alive != 0);
        let Know { others, sc, .. } = &**own.next()?.only()?;
        let is_same = |know: &Arc<Know>| know.others.is(others) && know.sc.is(sc);
        own.all(|own| own.only().is_some_and(is_same)).then(|| {
            let (others, sc) = (others.clone(), sc.clone());
            Know { own: BlockKnow::all(self.team.tick), others, sc }
        })
    }

    fn gathered(&self, waiting: &[u32], early: Option<Know>, all: bool) -> Know {
        let mut know = early.unwrap_or_default();
        for (warp, mask) in waiting.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            know.join(&self.brought(warp as u32, *mask));
        }
        if all {
            know.own = BlockKnow::all(self.team.tick);
        }
        know
    }
}
