//! Lanes that wait for the barrier of their cluster, for mbarriers, or for the warps of their
//! warpgroup.

use super::{Group, Stopped, Wait, Warp};
use crate::fault::{ClusterFault, TrapKind};
use crate::machine::{Cx, Fault, Flow, lanes};
use std::sync::Arc;

impl Warp {
    /// Lanes come to wait at the barrier of the cluster. Those that it has let pass go on.
    pub(super) fn await_cluster(
        &mut self,
        cx: &mut Cx<'_>,
        group: Group,
    ) -> Result<(), Box<Fault>> {
        let elsewhere = |other: &&Group| other.wait == Wait::Cluster && other.pc != group.pc;
        let aligned = cx.launch.program.ops[group.pc as usize].imm != 0;
        if let Some(other) = self.groups.iter().find(elsewhere).filter(|_| aligned) {
            let other_line = cx.launch.program.line(other.pc);
            let kind = TrapKind::Cluster(ClusterFault::Divergent { other_line });
            return Err(Fault::new(group.mask.trailing_zeros() as usize, kind));
        }
        self.groups.push(Group { wait: Wait::Cluster, ..group });
        self.pass(cx);
        Ok(())
    }

    /// Lets the lanes go on that wait at the barrier of the cluster, once it has opened.
    pub fn pass_cluster(&mut self, cx: &mut Cx<'_>) {
        std::mem::swap(&mut self.state, &mut cx.warp);
        self.pass(cx);
        std::mem::swap(&mut self.state, &mut cx.warp);
    }

    fn pass(&mut self, cx: &mut Cx<'_>) {
        cx.warp.cluster.settle(cx.cluster.phase);
        let program = Arc::clone(cx.launch.program);
        for index in 0..self.groups.len() {
            let group = self.groups[index];
            let passed = group.mask & cx.warp.cluster.passed;
            if group.wait != Wait::Cluster || passed == 0 {
                continue;
            }
            cx.warp.cluster.passed &= !passed;
            cx.pc = group.pc;
            cx.cluster_passes(passed);
            cx.done(self.frame(group.frame), &program.ops[group.pc as usize], passed);
            let rest = group.mask & !passed;
            self.groups[index] =
                Group { pc: group.pc + 1, mask: passed, wait: Wait::Ready, ..group };
            if rest != 0 {
                self.groups.push(Group { mask: rest, ..group });
            }
        }
    }

    /// Lanes that wait for mbarriers, or for other warps, look at them again. Waits for mbarriers end
    /// with `expired` in any case.
    pub fn look_again(&mut self, cx: &mut Cx<'_>, expired: bool) -> Result<(), Stopped> {
        std::mem::swap(&mut self.state, &mut cx.warp);
        let looked = (0..self.groups.len()).try_for_each(|index| self.look(cx, index, expired));
        std::mem::swap(&mut self.state, &mut cx.warp);
        looked
    }

    fn look(&mut self, cx: &mut Cx<'_>, index: usize, expired: bool) -> Result<(), Stopped> {
        let group = self.groups[index];
        if !matches!(group.wait, Wait::Phase | Wait::Warpgroup) {
            return Ok(());
        }
        let program = Arc::clone(cx.launch.program);
        let op = &program.ops[group.pc as usize];
        cx.warp.awaited.expired = if expired { group.mask } else { 0 };
        cx.pc = group.pc;
        let flow = (op.run)(cx, self.frame(group.frame), op, group.mask);
        cx.warp.awaited.expired = 0;
        let flow = flow.map_err(|fault| Stopped { pc: group.pc, frame: group.frame, fault })?;
        if flow == Flow::Next {
            if group.wait == Wait::Phase {
                cx.forget_phases(group.mask);
            }
            cx.done(self.frame(group.frame), op, group.mask);
            self.groups[index] = Group { pc: group.pc + 1, wait: Wait::Ready, ..group };
        }
        Ok(())
    }
}

impl Cx<'_> {
    /// Lanes of the warp at hand begin to wait for mbarriers.
    pub fn await_phases(&mut self, mask: u32) {
        let at = self.warp.awaited.at;
        self.cluster.waited.extend(lanes(mask).map(|lane| at[lane]));
    }

    /// They go on.
    pub fn forget_phases(&mut self, mask: u32) {
        for lane in lanes(mask) {
            let waited = &mut self.cluster.waited;
            let own = waited.iter().position(|at| *at == self.warp.awaited.at[lane]);
            own.map(|index| waited.swap_remove(index));
        }
    }
}
