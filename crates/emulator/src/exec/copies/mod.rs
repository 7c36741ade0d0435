//! Asynchronous copies that are under way.
//!
//! A GPU may perform an asynchronous copy at any moment between its instruction and the wait for it. Here
//! that is the last possible one: when a thread waits for the copy's group, tests the mbarrier that the
//! copy signals, or when its block ends. So a kernel that reads the target too early always finds
//! what was there before, and one that overwrites the source too early always copies the new bytes.

mod bytes;
mod threads;

pub use bytes::{Reduction, reduction};
pub use threads::{Request, WarpCopies};

use super::mbarrier;
use super::watch::Landing;
use super::{Cx, Fault};
use crate::fault::TrapKind;

/// Where the bytes of a piece come from.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    /// Memory, at an address of this process.
    Memory(u64),
    /// These eight bytes, over and over.
    Fill(u64),
}

/// A contiguous part of a bulk copy.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Address of the target in this process.
    pub to: u64,
    /// Source.
    pub from: Source,
    /// Bytes.
    pub bytes: u32,
}

/// Who learns that a bulk copy is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// An mbarrier, at an address of this process, that so many bytes have come.
    Mbarrier(u64, u32),
    /// The thread itself, when it waits for its group of copies, or an mbarrier that it arrives at then.
    Thread,
    /// The lane of a warp of a block of the cluster, when it waits for its group with that number.
    Group {
        /// Rank of the block.
        rank: u32,
        /// Warp.
        warp: u32,
        /// Lane.
        lane: u32,
        /// Group.
        number: u32,
    },
}

/// A bulk copy that is not done.
pub struct Bulk {
    /// Its parts, in order.
    pub pieces: Vec<Piece>,
    /// How the target is changed, where it is not just overwritten.
    pub reduction: Option<Reduction>,
    /// Who learns that it is done.
    pub completion: Completion,
    /// Rank of the block that asked for it.
    pub rank: u32,
    /// Rank of the block whose shared memory it writes to.
    pub target: Option<u32>,
    /// What it has read.
    pub staged: Option<Vec<u8>>,
}

impl Bulk {
    /// What observers are told once a part of it is done.
    fn landing(&self, piece: &Piece) -> Landing {
        let bytes = piece.bytes.into();
        let source = match piece.from {
            Source::Memory(from) if self.reduction.is_none() => Some((from, bytes)),
            _ => None,
        };
        Landing { to: piece.to, bytes, source, thread: None, waited: false }
    }

    /// Reads all of its source.
    fn stage(&mut self) -> Vec<u8> {
        if let Some(data) = self.staged.take() {
            return data;
        }
        let mut data = vec![0; self.pieces.iter().map(|piece| piece.bytes as usize).sum()];
        let mut rest = data.as_mut_slice();
        for piece in &self.pieces {
            let (own, others) = rest.split_at_mut(piece.bytes as usize);
            match piece.from {
                // SAFETY: the range was found valid when the copy was asked for, and lives as long as the
                // cluster; all accesses are atomic.
                Source::Memory(at) => unsafe { bytes::read(at, own) },
                Source::Fill(pattern) => {
                    let pattern = pattern.to_le_bytes();
                    own.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
                }
            }
            rest = others;
        }
        data
    }

    /// Does it.
    fn perform(&mut self) {
        let data = self.stage();
        let mut rest = data.as_slice();
        for piece in &self.pieces {
            let (own, others) = rest.split_at(piece.bytes as usize);
            // SAFETY: as for the source.
            unsafe {
                match self.reduction {
                    None => bytes::write(piece.to, own),
                    Some(reduction) => reduction.apply(piece.to, own),
                }
            }
            rest = others;
        }
    }
}

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
        super::frame::lanes(mask).for_each(|lane| own.bulk_group[lane] += 1);
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
        change: impl FnOnce(&mut mbarrier::Mbarrier) -> Result<bool, crate::fault::MbarrierFault>,
    ) -> Result<u64, Box<Fault>> {
        let shared_bytes = self.block.shared_bytes;
        mbarrier::update(&mut self.cluster, at, change).map_err(|fault| {
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
}
