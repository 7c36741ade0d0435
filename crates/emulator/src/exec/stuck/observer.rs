//! Sees whether what is executed changes anything, and depends on nothing else than what it may.

use crate::fault::Access;
use crate::isa::{self, Form, Order};
use crate::machine::{
    Cx, Frame, LANES, Landing, Observer, Op, Place, Row64, Touch, TouchRange, Verdict, lanes,
};
use crate::memory::access;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::LazyLock;

/// What was seen.
#[derive(Default)]
pub struct Seen {
    /// Memory changed, or may have; or something was read that this launch alone does not decide.
    pub changed: bool,
    /// What each warp read last, by block, warp and lane.
    pub reads: HashMap<(u64, u32), Box<[Option<Read>; LANES]>>,
    /// A write that is under way.
    write: Option<Write>,
    /// The allocation of device memory that was touched last: its first byte, and the one behind it.
    own: (u64, u64),
}

/// A load, or an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The operation.
    pub pc: u32,
    /// The first byte.
    pub address: u64,
    /// Whether it is strong, so that a GPU would see a change.
    pub strong: bool,
}

/// A store or an atomic, and the bytes before it.
struct Write {
    mask: u32,
    at: Row64,
    bytes: u32,
    before: Vec<u8>,
    /// For an atomic of 8 bytes at most: what each lane found has to be what the last one left.
    is_update: bool,
}

/// Writes down what it sees.
pub struct Witness(pub Rc<RefCell<Seen>>);

impl Witness {
    fn change(&self) {
        self.0.borrow_mut().changed = true;
    }
}

impl Observer for Witness {
    fn step(&mut self, _: &Cx<'_>, _: &mut Frame, op: &Op, _: u32) -> Verdict {
        let mut seen = self.0.borrow_mut();
        // A write that was not looked at when it was done may have changed something.
        seen.changed |= !is_harmless(op) || seen.write.take().is_some();
        Ok(())
    }

    fn touch(&mut self, cx: &Cx<'_>, _: &mut Frame, touch: &Touch<'_>) -> Verdict {
        let mut seen = self.0.borrow_mut();
        let bytes = touch.bytes * touch.elements;
        let is_own = lanes(touch.mask).all(|lane| seen.is_own(cx, touch.at[lane]));
        seen.changed |= !is_own || seen.write.take().is_some();
        if seen.changed {
            return Ok(());
        }
        if touch.access != Access::Store {
            seen.note(cx, touch);
        }
        if touch.access != Access::Load {
            let before = contents(touch.at, touch.mask, bytes);
            let is_update = touch.access == Access::Atomic && touch.bytes <= 8;
            let (mask, at) = (touch.mask, *touch.at);
            // What lanes put at one place, one after the other, could be seen in between.
            seen.changed |= !is_update && is_shared(&at, mask);
            seen.write = Some(Write { mask, at, bytes, before, is_update });
        }
        Ok(())
    }

    fn done(&mut self, _: &Cx<'_>, frame: &mut Frame, op: &Op, _: u32) {
        let mut seen = self.0.borrow_mut();
        let Some(write) = seen.write.take() else { return };
        seen.changed |= !write.left_all_as_it_was(frame, op);
    }

    fn touch_range(&mut self, _: &Cx<'_>, _: &TouchRange) -> Verdict {
        self.change();
        Ok(())
    }

    fn block_begins(&mut self, _: &Cx<'_>) {
        self.change();
    }

    fn block_ends(&mut self, _: &Cx<'_>) {
        self.change();
    }

    fn copy_lands(&mut self, _: &Cx<'_>, _: &Landing) -> Verdict {
        self.change();
        Ok(())
    }

    fn arrives(&mut self, _: &Cx<'_>, _: u32) {
        self.change();
    }

    fn opens(&mut self, _: &Cx<'_>, _: u32, _: &[u32]) {
        self.change();
    }

    fn cluster_arrives(&mut self, _: &Cx<'_>, _: u32) {
        self.change();
    }

    fn cluster_passes(&mut self, _: &Cx<'_>, _: u32) {
        self.change();
    }

    fn exits(&mut self, _: &Cx<'_>, _: u32) {
        self.change();
    }
}

impl Seen {
    /// Whether only launches and copies can change what lies there, and not the host by itself.
    fn is_own(&mut self, cx: &Cx<'_>, address: u64) -> bool {
        if (self.own.0..self.own.1).contains(&address) || cx.place(address) != Place::Global {
            return true;
        }
        let own = cx.cursor.memory().own_span(address);
        self.own = own.unwrap_or_default();
        own.is_some()
    }

    /// Notes what lanes read. A strong read is what a loop waits by, whatever it reads beside.
    fn note(&mut self, cx: &Cx<'_>, touch: &Touch<'_>) {
        let strong = touch.op.order != Order::WEAK;
        let reads = self.reads.entry((cx.block.number, cx.warp.index)).or_default();
        for lane in lanes(touch.mask) {
            if strong || reads[lane].is_none_or(|read| !read.strong) {
                reads[lane] = Some(Read { pc: cx.pc, address: touch.at[lane], strong });
            }
        }
    }
}

impl Write {
    /// Where lanes update one place, each has to have left what it found: then all of them found the same,
    /// which is there still.
    fn left_all_as_it_was(&self, frame: &Frame, op: &Op) -> bool {
        let found = |lane: usize| match self.bytes {
            8 => frame.row64(op.slots[0])[lane],
            _ => frame.row32(op.slots[0])[lane].into(),
        };
        let is_there = |lane: usize| {
            let mut word = [0; 8];
            read(self.at[lane], &mut word[..self.bytes as usize]);
            u64::from_le_bytes(word) == found(lane)
        };
        contents(&self.at, self.mask, self.bytes) == self.before
            && (!self.is_update
                || !is_shared(&self.at, self.mask)
                || lanes(self.mask).all(is_there))
    }
}

/// Whether lanes have an address in common.
fn is_shared(at: &Row64, mask: u32) -> bool {
    lanes(mask).any(|lane| lanes(mask).any(|other| other < lane && at[other] == at[lane]))
}

/// What lies at the addresses of lanes.
fn contents(at: &Row64, mask: u32, bytes: u32) -> Vec<u8> {
    let mut out = vec![0; (mask.count_ones() * bytes) as usize];
    for (own, lane) in out.chunks_exact_mut(bytes as usize).zip(lanes(mask)) {
        read(at[lane], own);
    }
    out
}

fn read(at: u64, out: &mut [u8]) {
    for (byte, address) in out.iter_mut().zip(at..) {
        // SAFETY: the access that is watched was found valid for these bytes; all accesses are atomic.
        *byte = unsafe { access::load_u8(address) };
    }
}

/// Whether an operation does no more than to compute, to read, to write what [`Observer::touch`] is told of,
/// and to meet the lanes of its warp. What only its handler knows it says by [`Cx::unsteady`].
fn is_harmless(op: &Op) -> bool {
    static HARMLESS: LazyLock<Vec<bool>> =
        LazyLock::new(|| isa::forms().iter().map(is_harmless_form).collect());
    HARMLESS.get(op.form as usize).copied().unwrap_or(false)
}

fn is_harmless_form(form: &Form) -> bool {
    match form.family {
        "integer arithmetic" | "video" | "logic and shifts" | "floating point" => true,
        "half precision" | "conversion" | "comparison and selection" => true,
        "moves and addresses" | "memory" | "control" | "atomics" | "warp" => true,
        "clusters" => matches!(form.opcode, "mapa" | "getctarank" | "griddepcontrol"),
        "mbarriers" => form.modifiers.contains("test_wait") || form.modifiers.contains("pending"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_on_more_than_registers_is_not_harmless() {
        let of = |opcode: &str| {
            let forms = isa::forms().iter().filter(|form| form.opcode == opcode);
            forms.map(is_harmless_form).collect::<Vec<_>>()
        };
        for opcode in ["ld", "atom", "setp", "shfl", "bra", "nanosleep", "membar"] {
            assert!(of(opcode).iter().all(|own| *own), "{opcode}");
        }
        for opcode in ["cp", "barrier", "wgmma", "mma", "stmatrix", "tensormap"] {
            assert!(!of(opcode).is_empty() && of(opcode).iter().all(|own| !own), "{opcode}");
        }
        // `st.async` and `red.async` are copies, and of `bar` only that of the warp has its lanes meet.
        assert_eq!(of("st").iter().filter(|own| !**own).count(), 1);
        assert_eq!(of("red").iter().filter(|own| !**own).count(), 1);
        assert_eq!(of("bar").iter().filter(|own| **own).count(), 1);
        // Only the tests of a phase, and the count in a state.
        assert_eq!(of("mbarrier").iter().filter(|own| **own).count(), 2);
    }
}
