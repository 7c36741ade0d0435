//! Which bits of registers hold nothing that was ever written.
//!
//! A frame has a shadow only while some of its registers have such bits; nothing else costs anything.

use crate::isa::Rule;
use crate::machine::{Effect, FULL, Frame, LANES, Op, Origin, Register, Span, Taint, lanes};
use std::collections::hash_map::Entry;

impl Frame {
    /// What is known of a register, if it has bits without meaning in some lane.
    pub fn taint(&self, register: Register) -> Option<&Taint> {
        self.shadow.as_ref()?.get(&register).map(Box::as_ref)
    }

    /// The lanes of `mask` in which a register has bits without meaning.
    pub fn tainted(&self, register: Register, mask: u32) -> u32 {
        self.taint(register).map_or(0, Taint::lanes) & mask
    }

    /// Says what is known of a register in the lanes of `mask`.
    pub fn set_taint(&mut self, register: Register, taint: &Taint, mask: u32) {
        let width = u64::MAX >> (64 - register.bits());
        if lanes(mask).all(|lane| taint.bits[lane] & width == 0) {
            return self.clear_taint(register, mask);
        }
        let shadow = self.shadow.get_or_insert_default();
        let own = shadow.entry(register).or_default();
        for lane in lanes(mask) {
            own.bits[lane] = taint.bits[lane] & width;
            own.origin[lane] = taint.origin[lane];
        }
        own.computed = own.computed & !mask | taint.computed & mask;
    }

    /// Says that a register has a meaning in the lanes of `mask`.
    pub fn clear_taint(&mut self, register: Register, mask: u32) {
        let Some(shadow) = &mut self.shadow else { return };
        if let Entry::Occupied(mut own) = shadow.entry(register) {
            lanes(mask).for_each(|lane| own.get_mut().bits[lane] = 0);
            own.get_mut().computed &= !mask;
            if mask == FULL || own.get().lanes() == 0 {
                own.remove();
            }
        }
        if shadow.is_empty() {
            self.shadow = None;
        }
    }

    /// Says that no register has bits without meaning in the lanes of `mask`.
    pub fn clear_taints(&mut self, mask: u32) {
        let Some(shadow) = &self.shadow else { return };
        let registers: Vec<Register> = shadow.keys().copied().collect();
        registers.into_iter().for_each(|register| self.clear_taint(register, mask));
    }

    /// What is known of a span of parameter memory: row and taint.
    pub fn param_taints(&self, span: Span) -> Vec<(u32, Taint)> {
        if self.shadow.is_none() {
            return Vec::new();
        }
        let known = |row| Some((row, self.taint(Register::Param(span.row + row))?.clone()));
        (0..span.rows).filter_map(known).collect()
    }

    /// Gives a span of parameter memory what is known of another.
    pub fn set_param_taints(&mut self, span: Span, taints: &[(u32, Taint)], mask: u32) {
        if self.shadow.is_some() {
            (0..span.rows).for_each(|row| self.clear_taint(Register::Param(span.row + row), mask));
        }
        for (row, taint) in taints.iter().filter(|(row, _)| *row < span.rows) {
            self.set_taint(Register::Param(span.row + row), taint, mask);
        }
    }

    /// Gives this frame's registers what is known of another's, in the lanes of `mask`.
    pub fn copy_taints(&mut self, from: &Frame, mask: u32) {
        self.clear_taints(mask);
        let Some(shadow) = &from.shadow else { return };
        shadow.iter().for_each(|(register, taint)| self.set_taint(*register, taint, mask));
    }
}

/// What the operations of several lanes do.
impl Frame {
    /// A shuffle: slots are the result, a predicate, the value, and what says the lane to read from.
    /// A lane from outside of those that take part has no value; the operation is that at `pc`.
    pub fn shuffle_taint(&mut self, op: &Op, from: impl Fn(usize) -> usize, mask: u32, pc: u32) {
        let [to, predicate, value, how @ ..] = op.slots;
        let mut out = Taint::default();
        if let Some(value) = self.taint(Register::Narrow(value)) {
            for lane in lanes(mask) {
                let from = from(lane);
                (out.bits[lane], out.origin[lane]) = (value.bits[from], value.origin[from]);
                out.computed |= (value.computed >> from & 1) << lane;
            }
        }
        for lane in lanes(mask).filter(|lane| mask >> from(*lane) & 1 == 0) {
            (out.bits[lane], out.computed) = (u64::MAX, out.computed | 1 << lane);
            let lane_outside = Some((from(lane) as u8, mask));
            out.origin[lane] = Origin { pc, lane: lane_outside, ..Origin::default() };
        }
        for how in how.into_iter().filter_map(|slot| self.taint(Register::Narrow(slot))) {
            mix(&mut out, how, mask);
        }
        self.set_taint(Register::Narrow(to), &out, mask);
        self.clear_taint(Register::Predicate(predicate), mask);
    }

    /// Results of lanes of a mask, by the operands of all of them.
    pub fn gather_taint(&mut self, effect: &Effect, members: u32, mask: u32) {
        if effect.rule != Rule::Gathers {
            return;
        }
        let operands = effect.reads.iter().filter(|own| **own != Register::Narrow(members));
        let operands: Vec<Register> = operands.copied().collect();
        self.spread_taint(&operands, &effect.writes, mask);
    }

    /// Results of some lanes, by the operands of all of them.
    pub fn spread_taint(&mut self, operands: &[Register], results: &[Register], mask: u32) {
        let lacking = operands.iter().find_map(|own| {
            let lanes = self.tainted(*own, mask);
            (lanes != 0)
                .then(|| self.taint(*own).map(|own| own.origin[lanes.trailing_zeros() as usize]))
        });
        match lacking.flatten() {
            Some(origin) => {
                let (bits, computed) = ([u64::MAX; LANES], u32::MAX);
                let taint = Taint { bits, computed, origin: [origin; LANES] };
                results.iter().for_each(|own| self.set_taint(*own, &taint, mask));
            }
            None => results.iter().for_each(|own| self.clear_taint(*own, mask)),
        }
    }
}

/// Makes values that were computed with one that has bits without meaning.
pub fn mix(out: &mut Taint, with: &Taint, mask: u32) {
    for lane in lanes(with.lanes() & mask) {
        if out.bits[lane] == 0 {
            out.origin[lane] = with.origin[lane];
        }
        out.bits[lane] = u64::MAX;
        out.computed |= 1 << lane;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{FunctionInfo, Program};
    use std::sync::Arc;

    fn frame() -> Frame {
        let functions = vec![FunctionInfo { rows32: 4, rows64: 4, ..FunctionInfo::default() }];
        Frame::new(&Arc::new(Program { functions, ..Program::default() }), 0)
    }

    #[test]
    fn a_frame_has_a_shadow_only_while_bits_lack_a_meaning() {
        let mut frame = frame();
        let register = Register::Wide(3);
        let taint = Taint { bits: [0xff; LANES], computed: 3, ..Taint::default() };
        frame.set_taint(register, &taint, 0b101);
        assert_eq!(frame.tainted(register, FULL), 0b101);
        assert_eq!(frame.taint(register).unwrap().computed, 1);
        assert_eq!(frame.tainted(Register::Narrow(3), FULL), 0);
        frame.clear_taint(register, 1);
        assert_eq!(frame.tainted(register, FULL), 0b100);
        frame.clear_taints(0b100);
        assert!(frame.shadow.is_none());
        frame.set_taint(register, &Taint::default(), FULL);
        assert!(frame.shadow.is_none());
    }
}
