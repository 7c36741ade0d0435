//! Lanes that wait for the lanes of a mask.

use super::{Group, Wait, Warp};
use crate::machine::{Cx, Fault, Frame, LISTED, NEGATED, Op, Step, lanes};
use std::sync::Arc;

impl Warp {
    /// Executes the operations whose lanes have all come.
    pub(super) fn release_lanes(&mut self, cx: &mut Cx<'_>) -> Result<(), (u32, Box<Fault>)> {
        while let Some((pc, mask)) = self.complete_set(cx.warp.alive) {
            let program = Arc::clone(cx.launch.program);
            let op = &program.ops[pc as usize];
            self.execute_together(cx, op, pc, mask).map_err(|fault| (pc, fault))?;
            self.advance(pc, mask);
        }
        Ok(())
    }

    /// An operation, and the lanes that have come to it and wait for no others.
    fn complete_set(&mut self, alive: u32) -> Option<(u32, u32)> {
        for index in 0..self.groups.len() {
            let group = self.groups[index];
            if group.wait != Wait::Lanes {
                continue;
            }
            for lane in lanes(group.mask) {
                let members = self.members(&group, lane);
                let here = self.waiting_with(group.pc, members);
                if members & alive & !here == 0 && here >> lane & 1 != 0 {
                    return Some((group.pc, here & members));
                }
            }
        }
        None
    }

    /// The mask that a lane waits with.
    pub fn members(&mut self, group: &Group, lane: usize) -> u32 {
        let frame = self.frame(group.frame);
        let slot = frame.program.ops[group.pc as usize].slots[5];
        frame.row32(slot)[lane]
    }

    /// The lanes that wait at `pc` with that mask.
    fn waiting_with(&mut self, pc: u32, members: u32) -> u32 {
        let mut out = 0;
        for index in 0..self.groups.len() {
            let group = self.groups[index];
            if group.wait == Wait::Lanes && group.pc == pc {
                let own = |lane: &usize| self.members(&group, *lane) == members;
                out |= lanes(group.mask).filter(own).map(|lane| 1 << lane).sum::<u32>();
            }
        }
        out
    }

    /// Executes an operation for lanes that may be in different frames of one function.
    fn execute_together(
        &mut self,
        cx: &mut Cx<'_>,
        op: &Op,
        pc: u32,
        mask: u32,
    ) -> Result<(), Box<Fault>> {
        let owners: Vec<(u32, u32)> = self
            .groups
            .iter()
            .filter(|group| group.wait == Wait::Lanes && group.pc == pc && group.mask & mask != 0)
            .map(|group| (group.frame, group.mask & mask))
            .collect();
        let program = Arc::clone(cx.launch.program);
        let function = self.frame(owners[0].0).function;
        let mut scratch = Frame::new(&program, function);
        for (frame, lanes) in &owners {
            copy_slots(self.frame(*frame), &mut scratch, op, *lanes);
        }
        (cx.pc, cx.active) = (pc, mask);
        let flow: Step = (op.run)(cx, &mut scratch, op, mask);
        flow?;
        cx.done(&mut scratch, op, mask);
        for (frame, lanes) in &owners {
            copy_slots(&scratch, self.frame(*frame), op, *lanes);
        }
        Ok(())
    }

    /// Lets lanes that waited at `pc` go on.
    fn advance(&mut self, pc: u32, mask: u32) {
        let mut freed = Vec::new();
        for group in &mut self.groups {
            if group.wait == Wait::Lanes && group.pc == pc {
                let lanes = group.mask & mask;
                group.mask &= !lanes;
                freed.push(Group { pc: pc + 1, mask: lanes, wait: Wait::Ready, ..*group });
            }
        }
        self.groups.extend(freed);
        self.groups.retain(|group| group.mask != 0);
    }
}

/// Copies the registers that an operation may name, in some lanes.
fn copy_slots(from: &Frame, to: &mut Frame, op: &Op, mask: u32) {
    if from.shadow.is_some() || to.shadow.is_some() {
        to.copy_taints(from, mask);
    }
    copy(from, to, &op.slots, mask);
    for slot in op.slots {
        let index = slot.wrapping_sub(LISTED) as usize;
        if let Some(list) = from.program.lists.get(index) {
            copy(from, to, list, mask);
        }
    }
}

fn copy(from: &Frame, to: &mut Frame, slots: &[u32], mask: u32) {
    for slot in slots.iter().copied() {
        let index = slot as usize;
        if let (Some(source), Some(target)) = (from.rows32.get(index), to.rows32.get_mut(index)) {
            lanes(mask).for_each(|lane| target[lane] = source[lane]);
        }
        if let (Some(source), Some(target)) = (from.rows64.get(index), to.rows64.get_mut(index)) {
            lanes(mask).for_each(|lane| target[lane] = source[lane]);
        }
        if let (Some(source), Some(target)) =
            (from.predicates.get(index), to.predicates.get_mut(index))
        {
            *target = (*target & !mask) | (source & mask);
        }
        let index = (slot & !NEGATED) as usize;
        if let (Some(source), Some(target)) =
            (from.predicates.get(index), to.predicates.get_mut(index))
        {
            *target = (*target & !mask) | (source & mask);
        }
    }
}
