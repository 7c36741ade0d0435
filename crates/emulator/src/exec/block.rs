//! A block: its warps, its shared memory, its barriers.

use super::warp::{Group, Pause, Stopped, Wait, Warp};
use crate::fault::{Accessor, Trap, TrapKind, Waiting, WaitsOn};
use crate::machine::block::{BARRIERS, Barrier, weight};
use crate::machine::{
    BlockState, Cx, Fault, Frame, LANES, LaunchContext, Life, Op, Program, Schedule, WarpCopies,
    lanes,
};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Instructions that a warp runs before the next one has its turn.
const SLICE: i64 = 4096;

/// How far a block came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// To its end.
    Done,
    /// Not to its end; it can go on.
    Preempted,
    /// Not to its end; it waits for others of its cluster, or for ever.
    Blocked,
}

/// A block.
pub struct Block {
    state: BlockState,
    warps: Vec<Warp>,
    next: usize,
    begun: bool,
    /// Phases of the cluster's barrier, and of mbarriers, when its warps last looked.
    phase: u64,
    completions: u64,
    /// Whether who waits for an mbarrier is to look at it again, ready or not.
    expired: bool,
}

impl Block {
    /// A block of a launch, which has not begun.
    pub fn new(launch: &LaunchContext<'_>) -> Self {
        let warps = launch.threads().div_ceil(LANES as u32);
        let program: &Arc<Program> = launch.program;
        Self {
            state: BlockState::default(),
            warps: (0..warps).map(|_| Warp::new(program)).collect(),
            next: 0,
            begun: false,
            phase: 0,
            completions: 0,
            expired: false,
        }
    }

    /// Begins the block with that index in the grid.
    pub fn start(&mut self, launch: &LaunchContext<'_>, index: [u32; 3]) {
        let ([width, height, _], [x, y, z]) = (launch.grid.map(u64::from), index.map(u64::from));
        self.state.number = x + width * (y + height * z);
        self.state.index = index;
        self.state.shared_bytes = launch.shared_bytes();
        self.state.shared.clear();
        let words = self.state.shared_bytes.div_ceil(8) as usize;
        self.state.shared.resize_with(words, AtomicU64::default);
        self.state.barriers = Default::default();
        self.state.copies.clear();
        self.state.copies.resize_with(self.warps.len(), WarpCopies::default);
        self.state.committed.clear();
        self.state.committed.resize(self.warps.len(), 0);
        self.next = match launch.schedule {
            Schedule::Reversed => self.warps.len() - 1,
            _ => 0,
        };
        (self.begun, self.expired) = (false, false);
        (self.phase, self.completions) = (0, 0);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            warp.start(index as u32, launch.block);
        }
    }

    /// Looks whether its warps are where they were before; see [`stuck`](super::stuck).
    pub fn come_round(&mut self) {
        self.warps.iter_mut().for_each(Warp::come_round);
    }

    /// Whether all of them were.
    pub fn has_come_round(&self) -> bool {
        self.warps.iter().all(Warp::has_come_round)
    }

    /// Forgets where its warps were.
    pub fn forget_rounds(&mut self) {
        self.warps.iter_mut().for_each(Warp::forget_rounds);
    }

    /// Whether copies that its threads asked for are not done.
    pub fn has_copies(&self) -> bool {
        !self.state.copies.iter().all(WarpCopies::is_empty)
    }

    /// Its number in the grid, and the address of its shared memory in this process.
    pub fn identity(&self) -> (u64, u64) {
        (self.state.number, self.state.shared.as_ptr() as u64)
    }

    /// True once all of its threads have ended.
    pub fn has_ended(&self) -> bool {
        self.warps.iter().all(|warp| warp.groups.is_empty())
    }

    /// Runs until the end, until nothing can run, or until `budget` instructions are spent.
    pub fn run(&mut self, cx: &mut Cx<'_>, budget: &mut i64) -> Result<Progress, Box<Trap>> {
        std::mem::swap(&mut self.state, &mut cx.block);
        if !std::mem::replace(&mut self.begun, true) {
            cx.cluster.peers[cx.cluster.rank as usize].life = Life::Runs;
            cx.block_begins();
        }
        let progress = self.wake(cx).and_then(|()| self.run_warps(cx, budget));
        let progress = progress.and_then(|progress| match progress {
            Progress::Done => self.end(cx).map(|()| progress),
            _ => Ok(progress),
        });
        std::mem::swap(&mut self.state, &mut cx.block);
        progress
    }

    /// All threads have ended: what they have copied arrives, but for what only they could see.
    fn end(&mut self, cx: &mut Cx<'_>) -> Result<(), Box<Trap>> {
        cx.finish_copies().map_err(|fault| {
            let stopped = Stopped { pc: cx.pc, frame: 0, fault };
            Box::new(self.trap(cx, 0, stopped))
        })?;
        cx.block_ends();
        cx.cluster.peers[cx.cluster.rank as usize].life = Life::Ended;
        Ok(())
    }

    fn run_warps(&mut self, cx: &mut Cx<'_>, budget: &mut i64) -> Result<Progress, Box<Trap>> {
        let mut idle = 0;
        while idle < self.warps.len() {
            if *budget <= 0 {
                return Ok(Progress::Preempted);
            }
            let index = self.next;
            self.next = self.following(cx, index);
            idle += 1;
            if self.warps[index].is_ready() {
                self.run_warp(cx, index, budget)?;
                self.release_barriers(cx, |barrier| barrier.threads.is_some())?;
                self.wake(cx)?;
                idle = 0;
                self.throw(cx);
            } else if idle == self.warps.len() && self.release_barriers(cx, |_| true)? {
                idle = 0;
            }
        }
        Ok(if self.has_ended() { Progress::Done } else { Progress::Blocked })
    }

    /// Lets lanes go on that wait for something of the cluster which has happened.
    fn wake(&mut self, cx: &mut Cx<'_>) -> Result<(), Box<Trap>> {
        if std::mem::replace(&mut self.phase, cx.cluster.phase) != cx.cluster.phase {
            self.warps.iter_mut().for_each(|warp| warp.pass_cluster(cx));
        }
        let expired = std::mem::take(&mut self.expired);
        let seen = std::mem::replace(&mut self.completions, cx.cluster.completions);
        if !expired && seen == cx.cluster.completions {
            return Ok(());
        }
        for index in 0..self.warps.len() {
            let looked = self.warps[index].look_again(cx, expired);
            looked.map_err(|stopped| Box::new(self.trap(cx, index, stopped)))?;
        }
        Ok(())
    }

    /// Has lanes that wait for mbarriers look at them again. Returns whether there are any.
    pub fn expire(&mut self) -> bool {
        let waits = |warp: &Warp| warp.groups.iter().any(|group| group.wait == Wait::Phase);
        self.expired = self.warps.iter().any(waits);
        self.expired
    }

    /// The warp after one, in the order of the schedule.
    fn following(&self, cx: &Cx<'_>, index: usize) -> usize {
        match cx.launch.schedule {
            Schedule::Reversed => (index + self.warps.len() - 1) % self.warps.len(),
            _ => (index + 1) % self.warps.len(),
        }
    }

    /// Lets the dice, if there are any, say which warp has the next turn.
    fn throw(&mut self, cx: &mut Cx<'_>) {
        if let Some(dice) = &mut cx.dice {
            self.next = dice.below(self.warps.len() as u64) as usize;
        }
    }

    fn run_warp(
        &mut self,
        cx: &mut Cx<'_>,
        index: usize,
        budget: &mut i64,
    ) -> Result<(), Box<Trap>> {
        let longest = cx.dice.as_mut().map_or(SLICE, |dice| dice.slice(SLICE));
        let mut slice = longest.min(*budget);
        let given = slice;
        let pause = self.warps[index].run(cx, &mut slice);
        *budget -= given - slice;
        match pause {
            Ok(Pause::Done | Pause::Blocked) => Ok(()),
            Ok(Pause::Preempted) => {
                *budget -= i64::from(given == slice);
                Ok(())
            }
            Err(stopped) => Err(Box::new(self.trap(cx, index, stopped))),
        }
    }

    /// Opens each barrier whose threads have all come. Returns whether any was opened.
    fn release_barriers(
        &mut self,
        cx: &mut Cx<'_>,
        which: impl Fn(&Barrier) -> bool,
    ) -> Result<bool, Box<Trap>> {
        let mut any = false;
        for number in 0..BARRIERS as u32 {
            let barrier = cx.block.barriers[number as usize];
            if barrier.used && which(&barrier) && self.is_complete(cx, number) {
                if barrier.threads.is_none() && !cx.launch.has_panicked() {
                    if cx.launch.strict_barriers {
                        self.check_strictly(cx, number)?;
                    }
                    if cx.launch.checks.sync {
                        self.check_whole(cx, number)?;
                    }
                }
                self.open(cx, number);
                cx.block.barriers[number as usize] = Barrier::default();
                any = true;
            }
        }
        Ok(any)
    }

    /// Finds warps that a barrier of the whole block opens for although lanes of theirs, which took
    /// part in a barrier before, have ended without it. Lanes that exit before any barrier are
    /// accepted: kernels that have more threads than work begin so.
    fn check_whole(&self, cx: &Cx<'_>, number: u32) -> Result<(), Box<Trap>> {
        for (index, warp) in self.warps.iter().enumerate() {
            let ended = warp.state.met & !warp.state.alive;
            let waiting = |group: &&Group| group.wait == Wait::Barrier(number);
            if let (true, Some(group)) = (ended != 0, warp.groups.iter().find(waiting)) {
                let kind = TrapKind::IncompleteBarrier { barrier: number, ended };
                return Err(self.at_barrier(cx, (index, group), kind));
            }
        }
        Ok(())
    }

    /// Finds threads that ended before a barrier of the whole block, and threads that it opens for
    /// at another instruction than for others: each arm of a branch has one, and the two make a
    /// pair. On a GPU both pass, and what one thread wrote before the barrier is not there for
    /// those after it.
    fn check_strictly(&self, cx: &Cx<'_>, number: u32) -> Result<(), Box<Trap>> {
        let all = self.warps.iter().enumerate();
        let mut waiting = all.flat_map(|(index, warp)| {
            let own = warp.groups.iter().filter(|group| group.wait == Wait::Barrier(number));
            own.map(move |group| (index, group))
        });
        let Some(first) = waiting.next() else { return Ok(()) };
        let left = self.warps.iter().enumerate();
        let mut left = left.filter_map(|(index, warp)| Some((index, warp.state.left?))).peekable();
        if let Some(&(index, (_, lane, pc))) = left.peek() {
            let threads = left.map(|(_, (mask, ..))| mask.count_ones()).sum();
            let first_left = Box::new(self.accessor(cx, (index, lane), pc));
            let kind = TrapKind::EarlyExit { barrier: number, threads, first: first_left };
            return Err(self.at_barrier(cx, first, kind));
        }
        match waiting.find(|(_, group)| group.pc != first.1.pc) {
            None => Ok(()),
            Some((index, group)) => {
                let lane = group.mask.trailing_zeros() as usize;
                let other = Box::new(self.accessor(cx, (index, lane), group.pc - 1));
                let kind = TrapKind::PairedBarriers { barrier: number, other };
                Err(self.at_barrier(cx, first, kind))
            }
        }
    }

    /// The trap of lanes that wait at a barrier.
    fn at_barrier(&self, cx: &Cx<'_>, (warp, group): (usize, &Group), kind: TrapKind) -> Box<Trap> {
        let fault = Fault::new(group.mask.trailing_zeros() as usize, kind);
        let stopped = Stopped { pc: group.pc - 1, frame: group.frame, fault };
        Box::new(self.trap(cx, warp, stopped))
    }

    /// A thread of the block at an operation.
    fn accessor(&self, cx: &Cx<'_>, (warp, lane): (usize, usize), pc: u32) -> Accessor {
        let program = cx.launch.program;
        Accessor {
            block: cx.block.index,
            thread: self.thread(warp, lane),
            ptx_line: program.line(pc),
            source: program.location(pc).cloned(),
        }
    }

    fn is_complete(&self, cx: &Cx<'_>, number: u32) -> bool {
        let barrier = cx.block.barriers[number as usize];
        let waiting = self.warps.iter().map(|warp| (warp.at_barrier(number).0, warp.state.alive));
        match barrier.threads {
            Some(threads) => {
                let came: u32 = waiting
                    .filter(|(mask, _)| *mask != 0)
                    .map(|(mask, alive)| weight(mask, alive))
                    .sum();
                came + barrier.passed >= threads
            }
            None => waiting.into_iter().all(|(mask, alive)| mask == alive),
        }
    }

    fn open(&mut self, cx: &mut Cx<'_>, number: u32) {
        let all: Vec<(u32, u32)> = self.warps.iter().map(|warp| warp.at_barrier(number)).collect();
        let came: u32 = all.iter().map(|(mask, _)| mask.count_ones()).sum();
        let held: u32 = all.iter().map(|(_, votes)| votes.count_ones()).sum();
        if cx.watch.is_some() {
            let waiting: Vec<u32> = all.iter().map(|(mask, _)| *mask).collect();
            cx.opens(number, &waiting);
        }
        for warp in &mut self.warps {
            warp.pass_barrier(cx, number, |frame, op, mask| give(frame, op, mask, came, held));
        }
    }

    fn trap(&self, cx: &Cx<'_>, warp: usize, stopped: Stopped) -> Trap {
        let program = cx.launch.program;
        Trap {
            kernel: program.name.clone(),
            block: cx.block.index,
            thread: self.thread(warp, stopped.fault.lane as usize),
            ptx_line: program.line(stopped.pc),
            source: self.warps[warp].source(program, (stopped.frame, stopped.pc)).cloned(),
            kind: stopped.fault.kind,
        }
    }

    fn thread(&self, warp: usize, lane: usize) -> [u32; 3] {
        self.warps[warp].state.tid.map(|row| row[lane])
    }

    /// The threads that have not ended, each with the operation it waits at.
    pub fn waiting(&mut self, cx: &Cx<'_>) -> Vec<(u32, Waiting)> {
        let mut waiting = Vec::new();
        for index in 0..self.warps.len() {
            for (lane, pc, on) in self.warps[index].waiting(cx) {
                let (block, thread) = (self.state.index, self.thread(index, lane));
                let ptx_line = cx.launch.program.line(pc);
                waiting.push((pc, Waiting { block, thread, ptx_line, on }));
            }
        }
        waiting
    }
}

/// Writes what a barrier's reduction returns: how many threads voted for it, whether all or any.
fn give(frame: &mut Frame, op: &Op, mask: u32, came: u32, held: u32) {
    use super::ops::barrier::{REDUCE_ALL, REDUCE_ANY, REDUCE_COUNT};
    match op.imm {
        REDUCE_COUNT => {
            let row = &mut frame.rows32[op.slots[0] as usize];
            lanes(mask).for_each(|lane| row[lane] = held);
        }
        REDUCE_ALL => {
            frame.set_predicate(op.slots[0], u32::from(held == came).wrapping_neg(), mask)
        }
        REDUCE_ANY => frame.set_predicate(op.slots[0], u32::from(held > 0).wrapping_neg(), mask),
        _ => {}
    }
}

impl Warp {
    /// The lanes that wait: where, and for what.
    fn waiting(&mut self, cx: &Cx<'_>) -> Vec<(usize, u32, WaitsOn)> {
        let mut out = Vec::new();
        for group in self.groups.clone() {
            for lane in lanes(group.mask) {
                match group.wait {
                    Wait::Ready => out.push(group.spins(cx, lane)),
                    Wait::Barrier(number) => {
                        out.push((lane, group.pc - 1, WaitsOn::Barrier(number)))
                    }
                    Wait::Lanes => {
                        let members = self.members(&group, lane);
                        out.push((lane, group.pc, WaitsOn::Lanes(members)));
                    }
                    Wait::Cluster => out.push((lane, group.pc, WaitsOn::Cluster)),
                    Wait::Warpgroup => out.push((lane, group.pc, WaitsOn::Warpgroup)),
                    Wait::Phase => {
                        let at = self.state.awaited.at[lane];
                        let owner = cx.cluster.owner(at, cx.launch.shared_bytes());
                        let owner = owner.unwrap_or((cx.cluster.rank, at));
                        out.push((lane, group.pc, self.state.awaited.describe(lane, owner)));
                    }
                }
            }
        }
        out
    }
}
