//! A cluster: blocks that run together on one CPU thread and reach each other's shared memory.
//!
//! A launch without clusters has clusters of one block, so that this is all that [`grid`](super::grid)
//! knows of. The shared memory of the block with rank `r` lies at `(r + 1) << 24` of the window of
//! shared memory; a block's own also lies at 0.

use super::block::{Block, Progress};
use crate::fault::{SourceLocation, Trap, TrapKind, Waiting, Waits};
use crate::machine::cluster::index_of;
use crate::machine::{ClusterState, Cx, LaunchContext, Life, Peer, Program, Schedule, Shape};

/// Instructions that a block runs before another of the cluster has its turn.
const SLICE: i64 = 1 << 13;
/// How often threads that wait for an mbarrier are told that it is not ready, and nothing else
/// happens, before that is a deadlock.
const PATIENCE: u32 = 1 << 14;

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
        self.state = ClusterState::new(index, alive);
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
