//! A cluster: blocks that run together on one CPU thread and reach each other's shared memory.
//!
//! A launch without clusters has clusters of one block, so that this is all that [`grid`](super::grid)
//! knows of. The shared memory of the block with rank `r` lies at `(r + 1) << 24` of the window of
//! shared memory; a block's own also lies at 0.

use super::block::{Block, Progress};
use super::copies::Bulk;
use super::schedule::Schedule;
use super::{Cx, LaunchContext};
use crate::fault::{ClusterFault, SourceLocation, Trap, TrapKind, Waiting, Waits};
use crate::program::Program;
use std::collections::VecDeque;

/// Blocks that a cluster may have.
pub const MAX_BLOCKS: u32 = 16;
/// Bits of an address that are an offset in the shared memory of one block.
pub const RANK_SHIFT: u32 = 24;
/// Instructions that a block runs before another of the cluster has its turn.
const SLICE: i64 = 1 << 13;
/// How often threads that wait for an mbarrier are told that it is not ready, and nothing else
/// happens, before that is a deadlock.
const PATIENCE: u32 = 1 << 14;

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
    /// Phases of mbarriers that are over.
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

/// The lanes of a warp at the cluster's barrier.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClusterLanes {
    /// Have arrived, in a phase that is not over.
    pub arrived: u32,
    /// Have arrived, in a phase that is over, and have not waited.
    pub passed: u32,
    /// The phase that `arrived` is about.
    pub phase: u64,
}

impl ClusterLanes {
    /// Learns that a phase is over.
    pub fn settle(&mut self, phase: u64) {
        if self.phase != phase {
            self.passed |= std::mem::take(&mut self.arrived);
            self.phase = phase;
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
    /// The grid is no whole number of them, they are too large, or the kernel wants others.
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

/// A cluster.
pub struct Cluster {
    state: ClusterState,
    blocks: Vec<Block>,
    next: usize,
    fruitless: u32,
    seen: u64,
}

impl Cluster {
    /// A cluster of a launch, which has not begun.
    pub fn new(launch: &LaunchContext<'_>) -> Self {
        Self {
            state: ClusterState::default(),
            blocks: (0..launch.clusters.size()).map(|_| Block::new(launch)).collect(),
            next: 0,
            fruitless: 0,
            seen: 0,
        }
    }

    /// Begins the cluster with that number in the grid.
    pub fn start(&mut self, launch: &LaunchContext<'_>, number: u64) {
        let Shape { blocks, clusters, .. } = launch.clusters;
        let index = index_of(number, clusters);
        let alive = launch.threads() * self.blocks.len() as u32;
        self.state = ClusterState { index, alive, ..ClusterState::default() };
        for (rank, block) in self.blocks.iter_mut().enumerate() {
            let own = index_of(rank as u64, blocks);
            block.start(launch, std::array::from_fn(|dim| index[dim] * blocks[dim] + own[dim]));
            let (number, base) = block.identity();
            self.state.peers.push(Peer { number, base, life: Life::NotBegun });
        }
        self.next = match launch.schedule {
            Schedule::Reversed => self.blocks.len() - 1,
            _ => 0,
        };
        (self.fruitless, self.seen) = (0, 0);
    }

    /// Looks whether its warps are where they were before; see [`stuck`](super::stuck).
    pub fn come_round(&mut self) {
        self.blocks.iter_mut().for_each(Block::come_round);
    }

    /// Whether all of them were.
    pub fn has_come_round(&self) -> bool {
        self.blocks.iter().all(Block::has_come_round)
    }

    /// Forgets where its warps were.
    pub fn forget_rounds(&mut self) {
        self.blocks.iter_mut().for_each(Block::forget_rounds);
    }

    /// Whether copies that its threads asked for are not done.
    pub fn has_copies(&self) -> bool {
        !self.state.bulk.is_empty() || self.blocks.iter().any(Block::has_copies)
    }

    /// Runs until the end, or until `budget` instructions are spent.
    pub fn run(&mut self, cx: &mut Cx<'_>, budget: i64) -> Result<Progress, Box<Trap>> {
        std::mem::swap(&mut self.state, &mut cx.cluster);
        // Who has waited for an mbarrier all of the last turn looks at it again.
        self.expire();
        let progress = self.run_blocks(cx, budget);
        std::mem::swap(&mut self.state, &mut cx.cluster);
        progress
    }

    fn run_blocks(&mut self, cx: &mut Cx<'_>, mut budget: i64) -> Result<Progress, Box<Trap>> {
        loop {
            let mut idle = 0;
            while idle < self.blocks.len() {
                if budget <= 0 {
                    return Ok(Progress::Preempted);
                }
                idle = if self.run_block(cx, &mut budget)? { 0 } else { idle + 1 };
            }
            if cx.cluster.peers.iter().all(|peer| peer.life == Life::Ended) {
                return Ok(Progress::Done);
            }
            if self.is_stuck(cx) {
                return Err(Box::new(self.deadlock(cx)));
            }
            budget -= 1;
        }
    }

    /// Runs the next block for a while. Returns whether it did anything.
    fn run_block(&mut self, cx: &mut Cx<'_>, budget: &mut i64) -> Result<bool, Box<Trap>> {
        let rank = self.next;
        self.next = self.following(cx);
        if cx.cluster.peers[rank].life == Life::Ended {
            return Ok(false);
        }
        cx.cluster.rank = rank as u32;
        let mut slice = if self.blocks.len() == 1 { *budget } else { SLICE.min(*budget) };
        let (given, before) = (slice, cx.warp_instructions);
        let progress = self.blocks[rank].run(cx, &mut slice)?;
        *budget -= given - slice;
        let ran = progress != Progress::Blocked || cx.warp_instructions != before;
        if let Some(dice) = cx.dice.as_mut().filter(|_| ran) {
            self.next = dice.below(self.blocks.len() as u64) as usize;
        }
        Ok(ran)
    }

    /// The block after the one whose turn it was, in the order of the schedule.
    fn following(&self, cx: &mut Cx<'_>) -> usize {
        match cx.launch.schedule {
            Schedule::Reversed => (self.next + self.blocks.len() - 1) % self.blocks.len(),
            _ => (self.next + 1) % self.blocks.len(),
        }
    }

    /// True if no thread can go on. Those that wait for mbarriers are told that these are not ready,
    /// which is what they may always be told, and what they do then may help; for so long.
    fn is_stuck(&mut self, cx: &Cx<'_>) -> bool {
        let calm = std::mem::replace(&mut self.seen, cx.cluster.changes) == cx.cluster.changes;
        self.fruitless = if calm { self.fruitless + 1 } else { 0 };
        self.fruitless > PATIENCE || !self.expire()
    }

    /// Lets threads that wait for mbarriers look at them again. Returns whether there are any.
    fn expire(&mut self) -> bool {
        self.blocks.iter_mut().map(Block::expire).filter(|any| *any).count() > 0
    }

    // ---- what went wrong

    fn deadlock(&mut self, cx: &Cx<'_>) -> Trap {
        let waiting = self.waiting_blocks(cx);
        trap_of(cx.launch.program, &waiting, |waiting| TrapKind::Deadlock { waiting })
    }

    fn waiting_blocks(&mut self, cx: &Cx<'_>) -> Vec<(u32, Waiting)> {
        self.blocks.iter_mut().flat_map(|block| block.waiting(cx)).collect()
    }

    /// The threads that have not ended, each with the operation it is at.
    pub fn waiting(&mut self, cx: &mut Cx<'_>) -> Vec<(u32, Waiting)> {
        std::mem::swap(&mut self.state, &mut cx.cluster);
        let waiting = self.waiting_blocks(cx);
        std::mem::swap(&mut self.state, &mut cx.cluster);
        waiting
    }
}

/// The trap of threads that wait, at the first of them.
pub fn trap_of(
    program: &Program,
    waiting: &[(u32, Waiting)],
    kind: impl FnOnce(Waits) -> TrapKind,
) -> Trap {
    let first = waiting.first().copied();
    let pc = first.map_or(0, |(pc, _)| pc);
    let mut places: Vec<(u32, SourceLocation)> = Vec::new();
    for (pc, own) in waiting {
        if let Some(source) = program.location(*pc)
            && places.iter().all(|(line, _)| *line != own.ptx_line)
        {
            places.push((own.ptx_line, source.clone()));
        }
    }
    let threads = waiting.iter().map(|(_, own)| *own).collect();
    Trap {
        kernel: program.name.clone(),
        block: first.map_or([0; 3], |(_, waiting)| waiting.block),
        thread: first.map_or([0; 3], |(_, waiting)| waiting.thread),
        ptx_line: program.line(pc),
        source: program.location(pc).cloned(),
        kind: kind(Waits { threads, places, ..Waits::default() }),
    }
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
