//! When asynchronous copies are performed, and who learns that they are done.

use crate::fault::{MbarrierFault, TrapKind};
use crate::machine::copies::{Bulk, Completion, Landing, Performed, WarpCopies};
use crate::machine::mbarrier::Mbarrier;
use crate::machine::{Cx, Fault, lanes};

impl Cx<'_> {
    /// The number of the group that bulk copies of a lane of the warp at hand belong to now.
    pub fn bulk_group(&self, lane: usize) -> Completion {
        let warp = self.warp.index;
        let number = self.block.copies[warp as usize].bulk_group[lane];
        Completion::Group { rank: self.cluster.rank, warp, lane: lane as u32, number }
    }

    /// Lanes close their groups of bulk copies.
    pub fn commit_bulk(&mut self, mask: u32) {
        let own = &mut self.block.copies[self.warp.index as usize];
        lanes(mask).for_each(|lane| own.bulk_group[lane] += 1);
    }

    /// A lane waits until at most `left` of its groups of bulk copies are not done, or have not read
    /// their sources.
    pub fn wait_bulk(&mut self, lane: usize, left: u32, read: bool) -> Result<(), Box<Fault>> {
        let Completion::Group { rank, warp, lane: own, number: open } = self.bulk_group(lane)
        else {
            return Ok(());
        };
        let due = |bulk: &Bulk| {
            matches!(bulk.completion, Completion::Group { rank: r, warp: w, lane: l, number }
                if (r, w, l) == (rank, warp, own) && number < open.saturating_sub(left))
        };
        if !read {
            return self.perform_bulk(lane, due);
        }
        for bulk in self.cluster.bulk.iter_mut().filter(|bulk| due(bulk)) {
            bulk.staged = Some(bulk.stage());
        }
        Ok(())
    }

    /// Performs the bulk copies that `due` names, in the order in which they were asked for.
    fn perform_bulk(&mut self, lane: usize, due: impl Fn(&Bulk) -> bool) -> Result<(), Box<Fault>> {
        while let Some(index) = self.cluster.bulk.iter().position(&due) {
            let Some(mut bulk) = self.cluster.bulk.remove(index) else { break };
            let cluster = |fault| Fault::new(lane, TrapKind::Cluster(fault));
            bulk.target
                .map_or(Ok(()), |rank| self.cluster.peer(rank).map(drop))
                .map_err(cluster)?;
            bulk.perform();
            bulk.pieces.iter().try_for_each(|piece| self.copy_lands(&bulk.landing(piece)))?;
            if let Completion::Mbarrier(at, bytes) = bulk.completion {
                self.update_mbarrier(lane, at, |mbarrier| mbarrier.complete(bytes))?;
            }
        }
        Ok(())
    }

    /// Changes an mbarrier, on behalf of a lane of the warp at hand. Returns what was there.
    pub fn update_mbarrier(
        &mut self,
        lane: usize,
        at: u64,
        change: impl FnOnce(&mut Mbarrier) -> Result<bool, MbarrierFault>,
    ) -> Result<u64, Box<Fault>> {
        let shared_bytes = self.block.shared_bytes;
        self.cluster.update_mbarrier(at, change).map_err(|fault| {
            let offset = self.cluster.owner(at, shared_bytes).map_or(at, |(_, offset)| offset);
            Fault::new(lane, TrapKind::Mbarrier { offset, fault })
        })
    }

    /// A lane looks at an mbarrier: the copies that signal it are performed.
    pub fn settle_mbarrier(&mut self, lane: usize, at: u64) -> Result<(), Box<Fault>> {
        let signals =
            |bulk: &Bulk| matches!(bulk.completion, Completion::Mbarrier(own, _) if own == at);
        self.perform_bulk(lane, signals)?;
        self.perform_arrivals(lane, at)
    }

    /// The block at hand ends: what it has copied arrives, but for what nobody can see any more.
    pub fn finish_copies(&mut self) -> Result<(), Box<Fault>> {
        let rank = self.cluster.rank;
        self.cluster.bulk.retain(|bulk| bulk.rank != rank || bulk.target != Some(rank));
        self.perform_bulk(0, |bulk| bulk.rank == rank)
    }

    /// The copies of the warp at hand.
    pub fn own_copies(&mut self) -> &mut WarpCopies {
        &mut self.block.copies[self.warp.index as usize]
    }

    /// Lanes wait until at most `left` of their groups are not done; or, with `None`, until nothing is.
    pub fn wait_copies(&mut self, mask: u32, left: Option<u32>) -> Result<(), Box<Fault>> {
        let own = self.own_copies();
        if left.is_none() {
            own.commit(mask);
        }
        let limits = own.limits(left.unwrap_or(0));
        let performed = own.perform(mask, &limits);
        let warp = self.warp.index;
        performed.into_iter().try_for_each(|own| match own {
            Performed::Arrival(lane, at) => self.arrive_for(lane, at),
            copy => self.lands(warp, copy, true),
        })
    }

    /// Lanes of any warp of the block arrive at an mbarrier, once what they copied before is there.
    fn perform_arrivals(&mut self, lane: usize, at: u64) -> Result<(), Box<Fault>> {
        for warp in 0..self.block.copies.len() {
            if !self.block.copies[warp].is_empty() {
                let performed = self.block.copies[warp].perform_before(at);
                performed.into_iter().try_for_each(|own| match own {
                    Performed::Arrival(_, at) => self.arrive_for(lane, at),
                    copy => self.lands(warp as u32, copy, false),
                })?;
            }
        }
        Ok(())
    }

    fn arrive_for(&mut self, lane: usize, at: u64) -> Result<(), Box<Fault>> {
        self.update_mbarrier(lane, at, |mbarrier| mbarrier.arrive(1)).map(drop)
    }

    /// Observers see that a copy of a warp's lane is done.
    fn lands(&mut self, warp: u32, copy: Performed, waited: bool) -> Result<(), Box<Fault>> {
        let Performed::Copy(lane, (to, bytes), source) = copy else { return Ok(()) };
        let thread = Some((warp, lane));
        self.copy_lands(&Landing { to, bytes, source: Some(source), thread, waited })
    }
}
