//! Barriers: all who meet know what each of them did.

use super::{BARRIERS, RaceObserver};
use crate::exec::watch::race::clock::{BlockClock, VectorClock};
use std::sync::Arc;

impl RaceObserver<'_> {
    /// Lanes of a warp met: each knows what any of them did.
    pub(super) fn meet(&mut self, warp: u32, mask: u32) {
        let tick = self.current.tick;
        let own = &mut self.current.warps[warp as usize];
        let mut clock = own.joined(mask);
        clock.own.raise(warp, mask | !own.alive, tick);
        own.set(mask, &Arc::new(clock));
        self.current.tick += 1;
    }

    /// What some lanes of a warp bring to a barrier.
    pub(super) fn brought(&self, warp: u32, mask: u32) -> VectorClock {
        let own = &self.current.warps[warp as usize];
        let mut clock = own.joined(mask);
        clock.own.raise(warp, mask | !own.alive, self.current.tick);
        clock
    }

    pub(super) fn open(&mut self, barrier: u32, waiting: &[u32]) {
        let all = self.current.warps.iter().zip(waiting).all(|(own, mask)| own.alive == *mask);
        let early = self.current.arrived[barrier as usize % BARRIERS].take();
        let clock = match (all && early.is_none()).then(|| self.common()).flatten() {
            Some(clock) => clock,
            None => self.gathered(waiting, early, all),
        };
        let clock = Arc::new(clock);
        for (own, mask) in self.current.warps.iter_mut().zip(waiting) {
            if *mask != 0 {
                own.set(*mask, &clock);
            }
        }
        self.current.tick += 1;
    }

    /// What all know after a barrier of the whole block, where they knew the same of other blocks.
    fn common(&self) -> Option<VectorClock> {
        let mut own = self.current.warps.iter().filter(|own| own.alive != 0);
        let VectorClock { others, sc, .. } = &**own.next()?.only()?;
        let is_same = |clock: &Arc<VectorClock>| clock.others.is(others) && clock.sc.is(sc);
        own.all(|own| own.only().is_some_and(is_same)).then(|| {
            let (others, sc) = (others.clone(), sc.clone());
            VectorClock { own: BlockClock::all(self.current.tick), others, sc }
        })
    }

    fn gathered(&self, waiting: &[u32], early: Option<VectorClock>, all: bool) -> VectorClock {
        let mut clock = early.unwrap_or_default();
        for (warp, mask) in waiting.iter().enumerate().filter(|(_, mask)| **mask != 0) {
            clock.join(&self.brought(warp as u32, *mask));
        }
        if all {
            clock.own = BlockClock::all(self.current.tick);
        }
        clock
    }
}
