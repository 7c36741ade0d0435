//! A warp: a program counter for each lane, kept as groups of lanes that are at the same place.
//!
//! Of several groups, the one in the deepest call and then at the lowest place runs, which brings
//! lanes together again where their paths meet. A group that is passed over for long gets its turn,
//! so that a lane which spins on what another lane of its warp will do does not wait for ever.

mod calls;
mod cluster;
mod rounds;
mod together;

pub use calls::reserve_local;

use super::cluster::ClusterLanes;
use super::frame::{Frame, lanes};
use super::mbarrier::Awaited;
use super::{Cx, Fault, Flow, Seen};
use crate::fault::{SourceLocation, TrapKind, WaitsOn};
use crate::isa::Order;
use crate::program::{ALWAYS, LANES, Op, Program, Row32, is_library};
use rounds::Rounds;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Instructions after which a passed-over group gets its turn, where the others touch memory that
/// lanes communicate by.
const QUANTUM_POLLING: u64 = 512;
/// The same where they do not.
const QUANTUM: u64 = 1 << 15;
/// Reads of one place in a row, by one instruction, that are taken for waiting.
const SPINS: u32 = 8;
/// How many instructions one counts for in the budget of a group that polls, since the sooner
/// others run the sooner it can go on.
const POLLING_COST: i64 = 8;

/// What a group of lanes waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// Nothing: it can run.
    Ready,
    /// The lanes that a mask names, at an operation that it has not executed yet.
    Lanes,
    /// A barrier of the block, whose instruction is the one before.
    Barrier(u32),
    /// The barrier of the cluster, at an operation that is done once it opens.
    Cluster,
    /// An mbarrier, at an operation that looks at it.
    Phase,
}

/// Lanes at the same place, by the same calls.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Next operation.
    pub pc: u32,
    /// Frame.
    pub frame: u32,
    /// Lanes.
    pub mask: u32,
    /// What it waits for.
    pub wait: Wait,
    /// The lanes that voted for a barrier's reduction.
    pub votes: u32,
    /// What it last read.
    seen: Seen,
    /// When it last ran.
    stamp: u64,
}

impl Group {
    /// Where a lane that can run is, and what it keeps reading, if it does.
    pub fn spins(&self, cx: &Cx<'_>, lane: usize) -> (usize, u32, WaitsOn) {
        let base = cx.launch.program.ops.as_ptr() as usize;
        let pc = (self.seen.op.wrapping_sub(base) / size_of::<Op>()) as u32;
        match cx.launch.program.ops.get(pc as usize) {
            Some(op) if self.seen.times >= SPINS => {
                let strong = op.order != Order::WEAK;
                (lane, pc, WaitsOn::Change { address: self.seen.address, strong })
            }
            _ => (lane, self.pc, WaitsOn::Turn),
        }
    }
}

/// What operations can see of their warp.
#[derive(Default)]
pub struct WarpState {
    /// Number in the block.
    pub index: u32,
    /// Lanes that have not exited.
    pub alive: u32,
    /// Lanes that took part in a barrier of the block.
    pub met: u32,
    /// Lanes that have ended, and the first of them with the operation that it ended at.
    pub left: Option<(u32, usize, u32)>,
    /// Thread indices x, y, z.
    pub tid: [Row32; 3],
    /// Local memory of all lanes, one after the other.
    pub local: Vec<AtomicU64>,
    /// Bytes of each lane's.
    pub local_stride: u64,
    /// Its lanes at the barrier of the cluster.
    pub cluster: ClusterLanes,
    /// The mbarriers that its lanes wait for.
    pub awaited: Awaited,
}

/// Why a warp stopped running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// All lanes have exited.
    Done,
    /// All lanes wait.
    Blocked,
    /// It ran long enough.
    Preempted,
}

/// A fault, and the operation that it happened at.
#[derive(Debug)]
pub struct Stopped {
    /// Operation.
    pub pc: u32,
    /// Frame that it ran in.
    pub frame: u32,
    /// Fault.
    pub fault: Box<Fault>,
}

/// A warp.
pub struct Warp {
    /// What operations can see.
    pub state: WarpState,
    /// Its lanes.
    pub groups: Vec<Group>,
    frames: Vec<Option<Box<Frame>>>,
    tick: u64,
    favoured: Option<(u32, u64)>,
    rounds: Rounds,
}

impl Warp {
    /// A warp with a frame for the kernel.
    pub fn new(program: &Arc<Program>) -> Self {
        let frame = Box::new(Frame::new(program, 0));
        Self {
            state: WarpState::default(),
            groups: Vec::new(),
            frames: vec![Some(frame)],
            tick: 0,
            favoured: None,
            rounds: Rounds::default(),
        }
    }

    /// Begins the warp `index` of a block of that shape.
    pub fn start(&mut self, index: u32, block: [u32; 3]) {
        let threads: u32 = block.iter().product();
        self.state.index = index;
        (self.state.alive, self.state.met, self.state.left) = (0, 0, None);
        for lane in 0..LANES as u32 {
            let thread = index * LANES as u32 + lane;
            let tid =
                [thread % block[0], thread / block[0] % block[1], thread / block[0] / block[1]];
            for (row, own) in self.state.tid.iter_mut().zip(tid) {
                row[lane as usize] = own;
            }
            self.state.alive |= u32::from(thread < threads) << lane;
        }
        self.groups.clear();
        (self.state.cluster, self.state.awaited.expired) = (ClusterLanes::default(), 0);
        self.frames.iter_mut().flatten().for_each(|frame| frame.shadow = None);
        let frame = self.frame(0);
        let pc = frame.program.functions[0].entry;
        let local_end = frame.local_end;
        calls::reserve_local(&mut self.state, local_end);
        let mask = self.state.alive;
        self.groups.push(Group {
            pc,
            frame: 0,
            mask,
            wait: Wait::Ready,
            votes: 0,
            seen: Seen::default(),
            stamp: 0,
        });
        (self.tick, self.favoured) = (0, None);
        self.forget_rounds();
    }

    /// A frame that is not running.
    pub fn frame(&mut self, index: u32) -> &mut Frame {
        self.frames[index as usize]
            .get_or_insert_with(|| unreachable!("a frame is lent to one run at a time"))
    }

    /// The source line of an operation: the innermost on the way of calls to it that lies in no library,
    /// or else its own.
    pub fn source<'a>(&self, program: &'a Program, at: (u32, u32)) -> Option<&'a SourceLocation> {
        let (mut frame, mut pc) = at;
        loop {
            match program.location(pc) {
                Some(own) if !is_library(&own.file) => return Some(own),
                _ => {}
            }
            match self.frames[frame as usize].as_ref() {
                Some(called) if called.depth > 0 => {
                    (frame, pc) = (called.parent, called.return_to - 1);
                }
                _ => return program.location(at.1),
            }
        }
    }

    /// True if some lanes can run.
    pub fn is_ready(&self) -> bool {
        self.groups.iter().any(|group| group.wait == Wait::Ready)
    }

    /// Runs until nothing can run or `budget` instructions are spent.
    pub fn run(&mut self, cx: &mut Cx<'_>, budget: &mut i64) -> Result<Pause, Stopped> {
        std::mem::swap(&mut self.state, &mut cx.warp);
        let pause = self.run_groups(cx, budget);
        std::mem::swap(&mut self.state, &mut cx.warp);
        pause
    }

    fn run_groups(&mut self, cx: &mut Cx<'_>, budget: &mut i64) -> Result<Pause, Stopped> {
        loop {
            let Some(index) = self.pick() else {
                return Ok(if self.groups.is_empty() { Pause::Done } else { Pause::Blocked });
            };
            if *budget <= 0 {
                return Ok(Pause::Preempted);
            }
            let group = self.groups.swap_remove(index);
            self.run_group(cx, group, budget)?;
        }
    }

    // ---- choosing

    /// The group to run next.
    fn pick(&mut self) -> Option<usize> {
        if let [only] = self.groups.as_slice() {
            return (only.wait == Wait::Ready).then_some(0);
        }
        self.merge();
        let best = self.first_in_order()?;
        self.starving(best).or(Some(best))
    }

    fn first_in_order(&self) -> Option<usize> {
        let order = |index: &usize| {
            let group = &self.groups[*index];
            (u32::MAX - self.depth(group.frame), group.pc)
        };
        (0..self.groups.len())
            .filter(|index| self.groups[*index].wait == Wait::Ready)
            .min_by_key(order)
    }

    fn depth(&self, frame: u32) -> u32 {
        self.frames[frame as usize].as_ref().map_or(0, |frame| frame.depth)
    }

    /// The group that has its turn out of order, if one has.
    fn starving(&mut self, best: usize) -> Option<usize> {
        if let Some((lane, until)) = self.favoured {
            let own = |group: &Group| group.wait == Wait::Ready && group.mask >> lane & 1 != 0;
            match self.groups.iter().position(own) {
                Some(index) if self.tick < until => return Some(index),
                _ => self.favoured = None,
            }
        }
        let ready = |index: &usize| self.groups[*index].wait == Wait::Ready && *index != best;
        let oldest =
            (0..self.groups.len()).filter(ready).min_by_key(|index| self.groups[*index].stamp)?;
        if self.tick - self.groups[oldest].stamp < QUANTUM {
            return None;
        }
        let lane = self.groups[oldest].mask.trailing_zeros();
        self.favoured = Some((lane, self.tick + QUANTUM));
        Some(oldest)
    }

    /// Joins groups that are at the same place.
    fn merge(&mut self) {
        let mut index = 0;
        while index < self.groups.len() {
            let own = self.groups[index];
            let same = |other: &Group| {
                (other.frame, other.pc, other.wait) == (own.frame, own.pc, own.wait)
            };
            match self.groups[..index].iter().position(same) {
                Some(into) => {
                    self.groups.swap_remove(index);
                    let into = &mut self.groups[into];
                    into.mask |= own.mask;
                    into.votes |= own.votes;
                    into.stamp = into.stamp.max(own.stamp);
                }
                None => index += 1,
            }
        }
    }

    /// The next place where another group waits to be joined.
    fn stop(&self, group: &Group) -> u32 {
        let ahead = |other: &&Group| {
            other.wait == Wait::Ready && other.frame == group.frame && other.pc > group.pc
        };
        self.groups.iter().filter(ahead).map(|other| other.pc).min().unwrap_or(u32::MAX)
    }

    // ---- running

    fn run_group(
        &mut self,
        cx: &mut Cx<'_>,
        mut group: Group,
        budget: &mut i64,
    ) -> Result<(), Stopped> {
        let Some(mut frame) = self.frames[group.frame as usize].take() else {
            unreachable!("a frame is lent to one run at a time")
        };
        let before = cx.warp_instructions;
        self.rounds.ran |= group.mask;
        cx.seen = group.seen;
        let result = match cx.watch {
            None => self.run_lanes::<false>(cx, &mut frame, &mut group, budget),
            Some(_) => self.run_lanes::<true>(cx, &mut frame, &mut group, budget),
        };
        self.frames[group.frame as usize] = Some(frame);
        let spent = cx.warp_instructions - before;
        // A group that polls brings the others' turn closer.
        let polled = std::mem::take(&mut cx.polled);
        cx.cluster.changes += u64::from(polled);
        self.tick += if polled && !self.groups.is_empty() {
            (spent + 1) * (QUANTUM / QUANTUM_POLLING)
        } else {
            spent + 1
        };
        *budget -= if polled { spent as i64 * POLLING_COST } else { spent as i64 };
        group.seen = cx.seen;
        group.stamp = self.tick;
        let stopped = |(pc, fault)| Stopped { pc, frame: group.frame, fault };
        match result {
            Ok((Flow::Yield, mask)) => {
                *budget = 0;
                self.after(cx, group, (Flow::Yield, mask)).map_err(stopped)
            }
            Ok(flow) => self.after(cx, group, flow).map_err(stopped),
            Err(fault) => Err(stopped((group.pc, fault))),
        }
    }

    /// Runs a group until something beyond it has to be decided. The flow comes with the lanes that
    /// it is about; `group.pc` is then at the operation.
    fn run_lanes<const WATCHED: bool>(
        &mut self,
        cx: &mut Cx<'_>,
        frame: &mut Frame,
        group: &mut Group,
        budget: &mut i64,
    ) -> Result<(Flow, u32), Box<Fault>> {
        let launch = cx.launch;
        let ops: &[Op] = &launch.program.ops;
        let stop = self.stop(group);
        let alone = self.groups.is_empty();
        let end = cx.warp_instructions as i64 + *budget;
        let active = group.mask;
        let steps = WATCHED && cx.watch.as_ref().is_some_and(|own| own.sees_steps);
        let mut pc = group.pc;
        let flow = loop {
            let op = &ops[pc as usize];
            let mask = active & frame.predicate(op.guard);
            if WATCHED && frame.shadow.is_some() && op.guard != ALWAYS {
                (cx.pc, group.pc) = (pc, pc);
                cx.guards(frame, op, active)?;
            }
            cx.warp_instructions += u64::from(op.weight);
            if mask == 0 {
                if WATCHED {
                    (cx.pc, cx.active) = (pc, active);
                    if steps {
                        cx.skips(frame, op);
                    }
                }
                pc += 1;
            } else {
                cx.lane_instructions += u64::from(mask.count_ones() * u32::from(op.weight));
                group.pc = pc;
                if WATCHED {
                    (cx.pc, cx.active) = (pc, active);
                    if steps {
                        cx.step(frame, op, mask)?;
                    }
                }
                let flow = (op.run)(cx, frame, op, mask)?;
                if steps && !flow.waits() {
                    cx.done(frame, op, mask);
                }
                match flow {
                    Flow::Next => pc += 1,
                    Flow::Jump(target)
                        if mask == active && alone && (cx.warp_instructions as i64) < end =>
                    {
                        pc = target;
                    }
                    Flow::Jump(target) if mask == active => {
                        group.pc = target;
                        break (Flow::Next, 0);
                    }
                    flow => break (flow, mask),
                }
            }
            if pc == stop {
                group.pc = pc;
                break (Flow::Next, 0);
            }
        };
        Ok(flow)
    }

    /// Acts on what a run ended with.
    fn after(
        &mut self,
        cx: &mut Cx<'_>,
        mut group: Group,
        (flow, mask): (Flow, u32),
    ) -> Result<(), (u32, Box<Fault>)> {
        if flow == Flow::Next {
            self.groups.push(group);
            return Ok(());
        }
        let pc = group.pc;
        if group.mask != mask {
            self.groups.push(Group { pc: pc + 1, mask: group.mask & !mask, ..group });
            group.mask = mask;
        }
        match flow {
            Flow::Next => self.groups.push(group),
            Flow::Jump(target) => self.groups.push(Group { pc: target, ..group }),
            Flow::Yield => {
                self.groups.push(Group { pc: pc + 1, ..group });
                self.tick += QUANTUM;
            }
            Flow::Scatter => self.scatter(group, &cx.targets),
            Flow::Exit => self.exit(cx, pc, mask)?,
            Flow::Return if self.depth(group.frame) == 0 => self.exit(cx, pc, mask)?,
            Flow::Return => self.leave(group),
            Flow::Call(site) => self.enter_each(cx, group, site).map_err(|fault| (pc, fault))?,
            Flow::AwaitLanes => {
                group.wait = Wait::Lanes;
                self.groups.push(group);
                self.release_lanes(cx)?;
            }
            Flow::Barrier => {
                self.arrive(cx, &mut group).map_err(|fault| (pc, fault))?;
                self.groups.push(group);
            }
            Flow::AwaitCluster => self.await_cluster(cx, group).map_err(|fault| (pc, fault))?,
            Flow::AwaitPhase => {
                cx.await_phases(mask);
                self.groups.push(Group { wait: Wait::Phase, ..group });
            }
        }
        Ok(())
    }

    /// Lanes go on at different places.
    fn scatter(&mut self, group: Group, targets: &Row32) {
        let mut rest = group.mask;
        while rest != 0 {
            let pc = targets[rest.trailing_zeros() as usize];
            let mask = same_lanes(rest, targets, pc);
            self.groups.push(Group { pc, mask, ..group });
            rest &= !mask;
        }
    }

    /// Lanes end.
    fn exit(&mut self, cx: &mut Cx<'_>, pc: u32, mask: u32) -> Result<(), (u32, Box<Fault>)> {
        cx.warp.alive &= !mask;
        cx.warp.left.get_or_insert((0, mask.trailing_zeros() as usize, pc)).0 |= mask;
        cx.leave_cluster(mask);
        cx.exits(mask);
        self.release_lanes(cx)
    }

    // ---- barriers of the block

    fn arrive(&mut self, cx: &mut Cx<'_>, group: &mut Group) -> Result<(), Box<Fault>> {
        let arrival = cx.arrival;
        let lane = group.mask.trailing_zeros() as usize;
        let pc = group.pc;
        let elsewhere =
            |other: &&Group| other.wait == Wait::Barrier(arrival.barrier) && other.pc != pc + 1;
        let strict = arrival.aligned && cx.launch.checks.sync && !cx.launch.has_panicked();
        if let Some(other) = self.groups.iter().find(elsewhere).filter(|_| strict) {
            let other_line = cx.launch.program.line(other.pc - 1);
            return Err(Fault::new(
                lane,
                TrapKind::DivergentBarrier { barrier: arrival.barrier, other_line },
            ));
        }
        cx.pc = pc;
        cx.arrives(group.mask);
        cx.block
            .arrive(arrival, group.mask, cx.warp.alive)
            .map_err(|kind| Fault::new(lane, kind))?;
        group.pc = pc + 1;
        group.votes = arrival.votes & group.mask;
        if arrival.waits {
            group.wait = Wait::Barrier(arrival.barrier);
        }
        Ok(())
    }

    /// The lanes that wait at a barrier, and those whose predicate held.
    pub fn at_barrier(&self, barrier: u32) -> (u32, u32) {
        let waiting = self.groups.iter().filter(|group| group.wait == Wait::Barrier(barrier));
        waiting.fold((0, 0), |(mask, votes), group| (mask | group.mask, votes | group.votes))
    }

    /// Lets the lanes at a barrier go on. `give` writes what a reduction returns.
    pub fn pass_barrier(
        &mut self,
        cx: &mut Cx<'_>,
        barrier: u32,
        give: impl Fn(&mut Frame, &Op, u32),
    ) {
        std::mem::swap(&mut self.state, &mut cx.warp);
        for index in 0..self.groups.len() {
            let group = self.groups[index];
            if group.wait == Wait::Barrier(barrier) {
                let frame = self.frame(group.frame);
                let op = frame.program.ops[group.pc as usize - 1];
                give(frame, &op, group.mask);
                cx.warp.met |= group.mask;
                (cx.pc, cx.active) = (group.pc - 1, group.mask);
                cx.done(frame, &op, group.mask);
                self.groups[index].wait = Wait::Ready;
            }
        }
        std::mem::swap(&mut self.state, &mut cx.warp);
    }
}

/// The lanes of `rest` whose value is `value`.
fn same_lanes(rest: u32, values: &Row32, value: u32) -> u32 {
    lanes(rest).filter(|lane| values[*lane] == value).map(|lane| 1 << lane).sum()
}
