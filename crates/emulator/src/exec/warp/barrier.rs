//! Lanes at the barriers of their block.

use super::{Group, Wait, Warp};
use crate::fault::TrapKind;
use crate::machine::{Cx, Fault, Frame, Op};

impl Warp {
    pub(super) fn arrive(&mut self, cx: &mut Cx<'_>, group: &mut Group) -> Result<(), Box<Fault>> {
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
