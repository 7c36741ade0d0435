//! The check of uninitialised values.
//!
//! Each byte of shared, local and device memory is known to be written or not. A load of bytes that
//! nothing wrote is no fault, nor is a copy of them, as one of a structure with padding; the bits are
//! followed through registers ([`flow`]), and a fault is their use: in a branch, an address, an atomic
//! operation, a mask, or in a computation whose result is stored. What a shuffle reads of a lane that takes
//! no part in it means nothing either. Registers that were never written count as written, because compilers
//! move undefined ones about.

mod flow;
mod marks;

use crate::fault::{Access, Nearest, RegionKind, Space, TrapKind, Use};
use crate::isa::Rule;
use crate::machine::{
    Check, Cx, Effect, Fault, Frame, LANES, Landing, NEGATED, Observer, Op, Origin, Place,
    Register, Taint, Touch, TouchRange, Verdict, lanes,
};
use crate::memory::GlobalMemory;
use flow::operands;
use marks::Marks;

/// Finds the use of values that nothing ever wrote.
pub struct InitCheck<'m> {
    memory: &'m GlobalMemory,
}

impl<'m> InitCheck<'m> {
    /// A check of launches on a memory, whose writes are tracked.
    pub fn new(memory: &'m GlobalMemory) -> Self {
        Self { memory }
    }
}

impl Check for InitCheck<'_> {
    fn observer(&self) -> Box<dyn Observer + '_> {
        Box::new(InitObserver { marks: Marks::new(self.memory) })
    }
}

struct InitObserver<'m> {
    marks: Marks<'m>,
}

impl Observer for InitObserver<'_> {
    fn block_begins(&mut self, cx: &Cx<'_>) {
        self.marks.begin(cx);
    }

    fn block_ends(&mut self, cx: &Cx<'_>) {
        self.marks.end(cx);
    }

    fn enters(&mut self, cx: &Cx<'_>, frame: &Frame, mask: u32) {
        self.marks.enter(cx, (frame.local_base, frame.local_end), mask);
    }

    fn guards(&mut self, cx: &Cx<'_>, frame: &mut Frame, op: &Op, active: u32) -> Verdict {
        let guard = Register::Predicate(op.guard & !NEGATED);
        let Some(effect) = cx.launch.program.effect(cx.pc) else { return Ok(()) };
        match frame.tainted(guard, active) {
            0 => Ok(()),
            lanes if effect.writes.is_empty() => self.report(cx, frame, guard, lanes, Use::Branch),
            _ => {
                flow::mix_results(frame, effect, &[guard], active);
                Ok(())
            }
        }
    }

    fn step(&mut self, cx: &Cx<'_>, frame: &mut Frame, op: &Op, mask: u32) -> Verdict {
        if frame.shadow.is_none() || op.weight == 0 {
            return Ok(());
        }
        let Some(effect) = cx.launch.program.effect(cx.pc) else { return Ok(()) };
        self.uses(cx, frame, op, effect, mask)?;
        flow::propagate(frame, op, effect, mask);
        Ok(())
    }

    fn touch(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        match touch.access {
            Access::Load => self.loads(cx, frame, touch),
            Access::Store => self.stores(cx, frame, touch)?,
            Access::Atomic => self.updates(cx, frame, touch)?,
        }
        Ok(())
    }

    fn touch_range(&mut self, cx: &Cx<'_>, touch: &TouchRange) -> Verdict {
        // What a copy overwrites is written when it lands, and not when it is asked for.
        if touch.access == Access::Atomic {
            self.marks.mark(cx, touch.at, touch.bytes, true);
        }
        Ok(())
    }

    fn copy_lands(&mut self, cx: &Cx<'_>, landing: &Landing) -> Verdict {
        self.marks.mark(cx, landing.to, landing.bytes, true);
        if let Some((from, bytes)) = landing.source {
            self.copies(cx, landing.to, from, bytes);
        }
        Ok(())
    }
}

impl InitObserver<'_> {
    /// What the operation decides by its registers.
    fn uses(&self, cx: &Cx<'_>, frame: &Frame, op: &Op, effect: &Effect, mask: u32) -> Verdict {
        for address in &effect.addresses {
            let lanes = frame.tainted(*address, mask);
            if lanes != 0 {
                return self.report(cx, frame, *address, lanes, Use::Address);
            }
        }
        let used = match effect.rule {
            Rule::Steers if effect.reads.is_empty() => return Ok(()),
            Rule::Steers => operands(op, effect),
            Rule::Shuffles | Rule::Gathers => &[Register::Narrow(op.slots[5])][..],
            _ => return Ok(()),
        };
        let how = if names_threads(op) { Use::Mask } else { Use::Branch };
        for register in used {
            let lanes = frame.tainted(*register, mask);
            if lanes != 0 {
                return self.report(cx, frame, *register, lanes, how);
            }
        }
        Ok(())
    }

    /// Lanes read memory.
    fn loads(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) {
        if self.marks.all_written(cx, touch) {
            return;
        }
        let Some(effect) = cx.launch.program.effect(cx.pc) else { return };
        let total = touch.bytes * touch.elements;
        let mut lacking = [0; LANES];
        for lane in lanes(touch.mask) {
            lacking[lane] = self.marks.unwritten(cx, touch.at[lane], total);
        }
        if effect.rule != Rule::Load || lacking.iter().all(|bytes| *bytes == 0) {
            return;
        }
        for (index, part) in effect.parts.iter().enumerate() {
            let Some(register) = part.register else { continue };
            let mut taint = Taint::default();
            for lane in lanes(touch.mask) {
                let at = index as u32 * touch.bytes;
                let own = lacking[lane] >> at & ((1 << touch.bytes) - 1);
                taint.bits[lane] = flow::widen(own, touch.bytes, part.signed);
                taint.origin[lane] = origin(cx, touch.at[lane] + u64::from(at), own);
            }
            frame.set_taint(register, &taint, touch.mask);
        }
    }

    /// Lanes write memory.
    fn stores(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        let effect = cx.launch.program.effect(cx.pc);
        self.marks.write_all(cx, touch);
        let (Some(effect), true) = (effect, frame.shadow.is_some()) else { return Ok(()) };
        if effect.rule != Rule::Store {
            return Ok(());
        }
        let width = u64::MAX >> (64 - 8 * touch.bytes);
        for (index, part) in effect.parts.iter().enumerate() {
            let Some(register) = part.register else { continue };
            let Some(taint) = frame.taint(register) else { continue };
            for lane in lanes(touch.mask & taint.lanes()) {
                let bits = taint.bits[lane] & width;
                let at = touch.at[lane] + u64::from(index as u32 * touch.bytes);
                // Bits of a byte that are left where they lay belong to a field of bits, whose neighbours
                // were set; left elsewhere they are a value of its own.
                let in_place = || {
                    let Origin { space, address, .. } = taint.origin[lane];
                    let own = origin(cx, at, 1);
                    own.space == space && address.wrapping_sub(own.address) < u64::from(touch.bytes)
                };
                let computed = taint.computed >> lane & 1 != 0;
                if bits != 0 && (computed || splits_a_byte(bits) && !in_place()) {
                    return self.report(cx, frame, register, 1 << lane, Use::Stored);
                }
                let lacks = |byte: &u64| bits >> (8 * byte) & 0xff == 0xff;
                (0..u64::from(touch.bytes))
                    .filter(lacks)
                    .for_each(|byte| self.marks.mark(cx, at + byte, 1, false));
            }
        }
        Ok(())
    }

    /// Lanes read and write memory in one step.
    fn updates(&mut self, cx: &Cx<'_>, frame: &mut Frame, touch: &Touch<'_>) -> Verdict {
        let Some(effect) = cx.launch.program.effect(cx.pc) else {
            self.marks.write_all(cx, touch);
            return Ok(());
        };
        let exchanges = matches!(effect.rule, Rule::Atomic { exchanges: true });
        for operand in operands(touch.op, effect) {
            let lanes = frame.tainted(*operand, touch.mask);
            let computed = frame.taint(*operand).map_or(0, |taint| taint.computed);
            if lanes != 0 && (!exchanges || computed & lanes != 0) {
                return self.report(cx, frame, *operand, lanes, Use::Atomic);
            }
        }
        for lane in lanes(touch.mask) {
            let at = touch.at[lane];
            let lacking = self.marks.unwritten(cx, at, touch.bytes * touch.elements);
            if lacking != 0 && !exchanges {
                return Err(self.fault(cx, lane, origin(cx, at, lacking), Use::Atomic));
            }
            if lacking != 0
                && let Some(result) = effect.writes.first()
            {
                let mut taint = Taint::default();
                taint.bits[lane] = flow::widen(lacking, touch.bytes, false);
                taint.origin[lane] = origin(cx, at, lacking);
                frame.set_taint(*result, &taint, 1 << lane);
            }
        }
        self.marks.write_all(cx, touch);
        Ok(())
    }

    /// A range was copied from memory to memory: what its source lacks, its target lacks.
    fn copies(&mut self, cx: &Cx<'_>, to: u64, from: u64, bytes: u64) {
        for at in (0..bytes).step_by(64) {
            let len = (bytes - at).min(64);
            let lacking = self.marks.unwritten(cx, from + at, len as u32);
            (0..len)
                .filter(|byte| lacking >> byte & 1 != 0)
                .for_each(|byte| self.marks.mark(cx, to + at + byte, 1, false));
        }
    }

    // ---- reports

    #[cold]
    fn report(
        &self,
        cx: &Cx<'_>,
        frame: &Frame,
        register: Register,
        lanes: u32,
        used: Use,
    ) -> Verdict {
        let lane = lanes.trailing_zeros() as usize;
        let origin = frame.taint(register).map_or(Origin::default(), |taint| taint.origin[lane]);
        Err(self.fault(cx, lane, origin, used))
    }

    fn fault(&self, cx: &Cx<'_>, lane: usize, origin: Origin, used: Use) -> Box<Fault> {
        let Origin { pc, bytes, space, address, lane: from } = origin;
        let program = cx.launch.program;
        if let Some((from, members)) = from {
            let (read_line, read_at) = (program.line(pc), program.location(pc).cloned());
            let kind = TrapKind::AbsentLane { used, from, members, read_line, read_at };
            return Fault::new(lane, kind);
        }
        let variable = match space {
            Space::Shared => program.shared_variable(address).map(|own| own.name.clone()),
            _ => None,
        };
        let region = match space {
            Space::Global => self.marks.spans.memory().nearest(address),
            Space::Shared => Some(whole(RegionKind::Shared, cx.block.shared_bytes, address)),
            _ => None,
        };
        let (read_line, read_at) = (program.line(pc), program.location(pc).cloned());
        Fault::new(
            lane,
            TrapKind::Uninitialised {
                used,
                space,
                address,
                bytes,
                region,
                variable,
                read_line,
                read_at,
            },
        )
    }
}

/// Whether an operation is a barrier or names lanes, rather than a branch or a call.
fn names_threads(op: &Op) -> bool {
    let form = crate::isa::forms().get(usize::from(op.form));
    form.is_some_and(|form| matches!(form.family, "warp" | "barriers"))
}

fn whole(kind: RegionKind, bytes: u64, address: u64) -> Nearest {
    Nearest { base: 0, bytes, kind, address }
}

/// Whether some byte has bits without meaning beside others.
fn splits_a_byte(bits: u64) -> bool {
    bits.to_le_bytes().iter().any(|byte| !matches!(byte, 0 | 0xff))
}

/// Where bytes were read that nothing wrote, of which the mask tells.
fn origin(cx: &Cx<'_>, at: u64, lacking: u64) -> Origin {
    let first = at + u64::from(lacking.trailing_zeros() % 64);
    let (space, address) = match cx.place(first) {
        Place::Shared(_, offset) => (Space::Shared, offset),
        Place::Local(_, offset) => (Space::Local, offset),
        Place::Param(offset) => (Space::Param, offset),
        Place::Global => (Space::Global, first),
    };
    Origin { pc: cx.pc, bytes: lacking.count_ones(), space, address, lane: None }
}
