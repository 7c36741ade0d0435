//! Calls: frames that lanes share, and parameters that go in and out.

use super::group::same_lanes;
use super::{Group, Warp};
use crate::fault::TrapKind;
use crate::machine::warp::LOCAL_ALIGN;
use crate::machine::{Cx, Fault, Frame, Span, lanes};
use crate::program::is_library;
use std::sync::Arc;

impl Warp {
    /// Lanes call functions, each the one in `targets`.
    pub(super) fn enter_each(
        &mut self,
        cx: &mut Cx<'_>,
        group: Group,
        site: u32,
    ) -> Result<(), Box<Fault>> {
        let targets = cx.targets;
        let mut rest = group.mask;
        while rest != 0 {
            let function = targets[rest.trailing_zeros() as usize];
            let mask = same_lanes(rest, &targets, function);
            self.enter(cx, Group { mask, ..group }, site, function)?;
            rest &= !mask;
        }
        Ok(())
    }

    fn enter(
        &mut self,
        cx: &mut Cx<'_>,
        group: Group,
        site: u32,
        function: u32,
    ) -> Result<(), Box<Fault>> {
        let lane = group.mask.trailing_zeros() as usize;
        let child =
            self.child(cx, &group, site, function).map_err(|kind| Fault::new(lane, kind))?;
        let program = Arc::clone(cx.launch.program);
        let (args, info) =
            (&program.calls[site as usize].args, &program.functions[function as usize]);
        if args.len() != info.params.len()
            || args.iter().zip(&info.params).any(|(a, p)| a.rows != p.rows)
        {
            let address = program
                .code
                .iter()
                .find(|(_, own)| **own == function)
                .map_or(0, |(address, _)| *address);
            return Err(Fault::new(lane, TrapKind::InvalidCall { address }));
        }
        let called = self.frame(child);
        called.clear_taints(group.mask);
        cx.enters(called, group.mask);
        self.copy_params(group.frame, args, child, &info.params, group.mask);
        self.groups.push(Group { pc: info.entry, frame: child, ..group });
        Ok(())
    }

    /// The frame for a call, shared with other lanes that made the same calls.
    fn child(
        &mut self,
        cx: &mut Cx<'_>,
        group: &Group,
        site: u32,
        function: u32,
    ) -> Result<u32, TrapKind> {
        let (parent, return_to) = (group.frame, group.pc + 1);
        // What the caller has put on the stack meanwhile must not lie in the frame.
        let free = self.frame(parent).local_end;
        let same = |frame: &&Option<Box<Frame>>| {
            frame.as_ref().is_some_and(|frame| {
                frame.depth > 0
                    && frame.local_base >= free
                    && (frame.parent, frame.return_to, frame.function)
                        == (parent, return_to, function)
            })
        };
        if let Some(index) = self.frames.iter().position(|frame| same(&frame)) {
            return Ok(index as u32);
        }
        let caller = self.frame(parent);
        let mut frame = Frame::new(&Arc::clone(&caller.program), function);
        (frame.parent, frame.return_to, frame.call) = (parent, return_to, site);
        frame.called_at = match caller.program.location(group.pc) {
            Some(own) if is_library(&own.file) => caller.called_at,
            _ => group.pc + 1,
        };
        frame.depth = caller.depth + 1;
        frame.local_base = caller.local_end.next_multiple_of(LOCAL_ALIGN);
        frame.local_end += frame.local_base;
        let own = caller.program.functions[function as usize].call_bytes();
        frame.stack_bytes = caller.stack_bytes_at(caller.local_end) + own;
        let (bytes, limit) = (frame.stack_bytes, cx.launch.stack_bytes);
        if bytes > limit {
            return Err(TrapKind::StackOverflow { bytes, limit });
        }
        cx.warp.reserve_local(frame.local_end);
        self.frames.push(Some(Box::new(frame)));
        Ok(self.frames.len() as u32 - 1)
    }

    /// Lanes return to their caller.
    pub(super) fn leave(&mut self, group: Group) {
        let frame = self.frame(group.frame);
        let (parent, return_to) = (frame.parent, frame.return_to);
        let program = Arc::clone(&frame.program);
        let (site, function) = (frame.call as usize, frame.function as usize);
        let (from, to) = (&program.functions[function].returns, &program.calls[site].returns);
        self.copy_params(group.frame, from, parent, to, group.mask);
        self.groups.push(Group { pc: return_to, frame: parent, ..group });
    }

    fn copy_params(&mut self, from: u32, sources: &[Span], to: u32, targets: &[Span], mask: u32) {
        for (source, target) in sources.iter().zip(targets) {
            let taints = self.frame(from).param_taints(*source);
            self.frame(to).set_param_taints(*target, &taints, mask);
            for row in 0..source.rows.min(target.rows) {
                let values = self.frame(from).params[(source.row + row) as usize];
                let out = &mut self.frame(to).params[(target.row + row) as usize];
                lanes(mask).for_each(|lane| out[lane] = values[lane]);
            }
        }
    }
}
