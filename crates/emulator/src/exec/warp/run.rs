//! Running the groups of a warp.

use super::choose::{QUANTUM, QUANTUM_POLLING};
use super::group::same_lanes;
use super::{Group, Wait, Warp};
use crate::machine::{ALWAYS, Cx, Fault, Flow, Frame, Op, Row32};

/// How many instructions one counts for in the budget of a group that polls, since the sooner
/// others run the sooner it can go on.
const POLLING_COST: i64 = 8;

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

impl Warp {
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
            Flow::AwaitWarpgroup => self.groups.push(Group { wait: Wait::Warpgroup, ..group }),
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
}
