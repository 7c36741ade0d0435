//! The state of a cluster that operations can access, and the shape of the clusters of a launch.

use super::copies::Bulk;
use super::mbarrier::Mbarrier;
use crate::fault::{ClusterFault, MbarrierFault};
use crate::memory::access;
use std::collections::VecDeque;

/// Blocks that a cluster may have.
pub const MAX_BLOCKS: u32 = 16;
/// Bits of an address that are an offset in the shared memory of one block.
pub const RANK_SHIFT: u32 = 24;

/// How far a block of a cluster is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Life {
    /// None of its threads has run.
    #[default]
    NotBegun,
    /// It runs.
    Runs,
    /// All of its threads have ended.
    Ended,
}

/// A block as the others of its cluster see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Peer {
    /// Number in the grid.
    pub number: u64,
    /// Address of its shared memory in this process.
    pub base: u64,
    /// How far it is.
    pub life: Life,
}

/// What operations can see of their cluster.
#[derive(Default)]
pub struct ClusterState {
    /// Index among the clusters, in each direction.
    pub index: [u32; 3],
    /// Rank of the block at hand.
    pub rank: u32,
    /// All blocks, by rank.
    pub peers: Vec<Peer>,
    /// Bulk copies that are not done.
    pub bulk: VecDeque<Bulk>,
    /// Phases of the cluster's barrier that are over.
    pub phase: u64,
    /// Phases of mbarriers that are over, and groups of `wgmma` that are committed: what lanes look at
    /// again.
    pub completions: u64,
    /// Counts what may bring waiting threads further.
    pub changes: u64,
    /// Addresses of mbarriers that lanes wait on, one for each lane.
    pub waited: Vec<u64>,
    /// Threads that have not ended.
    alive: u32,
    /// Those of them that have arrived in this phase of the cluster's barrier.
    arrived: u32,
}

impl ClusterState {
    /// A cluster that has not begun, of `alive` threads.
    pub fn new(index: [u32; 3], alive: u32) -> Self {
        Self { index, alive, ..Self::default() }
    }

    /// The block that an address of the window of shared memory lies in, and the offset there.
    pub fn split(&self, address: u64) -> Result<(u32, u64), ClusterFault> {
        let offset = address & ((1 << RANK_SHIFT) - 1);
        let rank = match (address >> RANK_SHIFT) as u32 {
            0 => self.rank,
            tag => tag - 1,
        };
        match self.peers.get(rank as usize) {
            Some(_) => Ok((rank, offset)),
            None => Err(ClusterFault::Rank { rank, blocks: self.peers.len() as u32 }),
        }
    }

    /// A block whose shared memory may be touched now.
    pub fn peer(&self, rank: u32) -> Result<&Peer, ClusterFault> {
        let peer = &self.peers[rank as usize];
        match peer.life {
            _ if rank == self.rank => Ok(peer),
            Life::NotBegun => Err(ClusterFault::PeerNotBegun { rank }),
            Life::Runs => Ok(peer),
            Life::Ended => Err(ClusterFault::PeerEnded { rank }),
        }
    }

    /// The block whose shared memory an address of this process lies in, and the offset there.
    pub fn owner(&self, address: u64, shared_bytes: u64) -> Option<(u32, u64)> {
        let within = |peer: &Peer| address.wrapping_sub(peer.base) < shared_bytes;
        let rank = self.peers.iter().position(within)?;
        Some((rank as u32, address - self.peers[rank].base))
    }

    /// Changes the mbarrier at an address of this process. Returns the word that was there.
    ///
    /// The address lies in the shared memory of a block of the cluster at hand, and is aligned.
    pub fn update_mbarrier(
        &mut self,
        at: u64,
        change: impl FnOnce(&mut Mbarrier) -> Result<bool, MbarrierFault>,
    ) -> Result<u64, MbarrierFault> {
        // SAFETY: by the contract of this function; shared memory is only touched by atomics.
        let word = unsafe { access::load_u64(at) };
        let mut mbarrier = Mbarrier::decode(word).ok_or(MbarrierFault::NotInitialised)?;
        self.completions += u64::from(change(&mut mbarrier)?);
        self.changes += 1;
        // SAFETY: as above.
        unsafe { access::store_u64(at, mbarrier.encode()) };
        Ok(word)
    }

    /// Threads arrive at the cluster's barrier.
    pub fn arrive(&mut self, threads: u32) {
        self.arrived += threads;
        self.complete();
    }

    /// Threads end, some of which have arrived in this phase.
    pub fn leave(&mut self, threads: u32, arrived: u32) {
        self.alive -= threads;
        self.arrived -= arrived;
        self.changes += 1;
        self.complete();
    }

    fn complete(&mut self) {
        if self.arrived > 0 && self.arrived == self.alive {
            self.arrived = 0;
            self.phase += 1;
            self.changes += 1;
        }
    }
}

/// The shape of a launch's clusters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Blocks of a cluster in each direction.
    pub blocks: [u32; 3],
    /// Clusters in each direction.
    pub clusters: [u32; 3],
    /// Whether the launch or the kernel asked for clusters.
    pub explicit: bool,
}

impl Shape {
    /// Splits a grid into clusters.
    ///
    /// # Errors
    /// The grid is not a whole number of clusters, they are too large, or the kernel wants others.
    pub fn new(
        grid: [u32; 3],
        launch: [u32; 3],
        kernel: Option<[u32; 3]>,
    ) -> Result<Self, ClusterFault> {
        let said = (launch != [0; 3]).then_some(launch);
        if let (Some(launch), Some(kernel)) = (said, kernel)
            && launch != kernel
        {
            return Err(ClusterFault::OtherShape { launch, kernel });
        }
        let blocks = said.or(kernel).unwrap_or([1; 3]);
        let whole = grid.iter().zip(blocks).all(|(grid, own)| own > 0 && grid.is_multiple_of(own));
        let count = blocks.iter().fold(1u32, |count, own| count.saturating_mul(*own));
        if !whole || count > MAX_BLOCKS {
            return Err(ClusterFault::Shape { grid, cluster: blocks });
        }
        let clusters = std::array::from_fn(|dim| grid[dim] / blocks[dim]);
        Ok(Self { blocks, clusters, explicit: said.or(kernel).is_some() })
    }

    /// Clusters of the grid.
    pub fn count(&self) -> u64 {
        self.clusters.iter().map(|count| u64::from(*count)).product()
    }

    /// Blocks of a cluster.
    pub fn size(&self) -> u32 {
        self.blocks.iter().product()
    }
}

/// What lies at a number in a box of that shape.
pub fn index_of(number: u64, shape: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = shape.map(u64::from);
    [number % x, number / x % y, number / x / y].map(|index| index as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_is_split_into_whole_clusters() {
        let shape = Shape::new([8, 4, 1], [2, 2, 1], None).unwrap();
        assert_eq!((shape.clusters, shape.count(), shape.size()), ([4, 2, 1], 8, 4));
        assert!(shape.explicit);
        let single = Shape::new([8, 4, 3], [0; 3], None).unwrap();
        assert_eq!((single.clusters, single.size(), single.explicit), ([8, 4, 3], 1, false));
        assert_eq!(Shape::new([8, 1, 1], [0; 3], Some([4, 1, 1])).unwrap().size(), 4);
        for (grid, launch, kernel) in [
            ([9, 1, 1], [2, 1, 1], None),
            ([32, 1, 1], [32, 1, 1], None),
            ([8, 1, 1], [2, 0, 1], None),
            ([8, 1, 1], [2, 1, 1], Some([4, 1, 1])),
        ] {
            assert!(Shape::new(grid, launch, kernel).is_err());
        }
    }

    #[test]
    fn a_phase_ends_when_all_that_live_have_arrived() {
        let mut state = ClusterState { alive: 3, ..ClusterState::default() };
        state.arrive(2);
        assert_eq!(state.phase, 0);
        state.leave(1, 0);
        assert_eq!(state.phase, 1);
        state.arrive(1);
        state.leave(1, 1);
        assert_eq!((state.phase, state.arrived), (1, 0));
    }
}
