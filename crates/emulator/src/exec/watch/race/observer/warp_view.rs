//! What shadow memory asks about the warp that performs an access.

use crate::exec::watch::race::clock::Tree;
use crate::exec::watch::race::lanes::Lanes;
use crate::exec::watch::race::reached::Reached;
use crate::exec::watch::race::session::RaceCheck;
use crate::exec::watch::race::shadow::{HappensBefore, ShadowAccess};
use crate::exec::watch::race::sync_cell::Reach;
use crate::isa::Scope;
use crate::machine::{Frame, Touch, lanes};
use crate::memory::access;
use std::cell::RefCell;
use std::rc::Rc;

/// The warp at hand, as the shadow sees it.
pub(super) struct WarpView<'a> {
    pub(super) check: &'a RaceCheck<'a>,
    pub(super) block: u32,
    pub(super) lanes: &'a Lanes,
    pub(super) floor: u32,
    pub(super) values: Option<&'a Values<'a>>,
    /// What the line's first byte is in this process.
    pub(super) line: u64,
    pub(super) reached: &'a ReachedCache,
}

/// What was last found to happen before a thread, and what that thread had acquired.
#[derive(Default)]
pub(super) struct ReachedCache {
    latest: RefCell<Option<(Tree, Rc<Reached>)>>,
}

impl ReachedCache {
    /// What happens before a thread that has acquired `known`.
    pub(super) fn get(&self, check: &RaceCheck<'_>, known: &Tree) -> Rc<Reached> {
        let mut latest = self.latest.borrow_mut();
        match &*latest {
            Some((tree, reached)) if tree.is(known) => Rc::clone(reached),
            _ => {
                let reached = Rc::new(check.reached(known));
                *latest = Some((known.clone(), Rc::clone(&reached)));
                reached
            }
        }
    }
}

/// What the lanes of a store write.
pub(super) struct Values<'a> {
    pub(super) frame: &'a Frame,
    pub(super) touch: &'a Touch<'a>,
}

impl Values<'_> {
    pub(super) fn element(&self, lane: usize, part: u32) -> u64 {
        let slot = self.touch.op.slots[part as usize];
        match self.touch.bytes {
            8 => self.frame.row64(slot)[lane],
            _ => u64::from(self.frame.row32(slot)[lane]),
        }
    }

    /// The byte that a lane would write at an address.
    fn byte(&self, lane: usize, address: u64) -> u8 {
        let offset = address.wrapping_sub(self.touch.at[lane]);
        let bytes = u64::from(self.touch.bytes);
        (self.element(lane, (offset / bytes) as u32) >> (offset % bytes * 8)) as u8
    }

    fn is_same(&self, lane: usize, address: u64) -> bool {
        // SAFETY: the address lies in the access at hand, which was found valid; a byte is aligned.
        let found = unsafe { access::load_u8(address) };
        found == self.byte(lane, address)
    }

    /// A lane that would write something else than the first of some lanes on the same place.
    pub(super) fn differing(&self, mask: u32) -> Option<usize> {
        let first = mask.trailing_zeros() as usize;
        lanes(mask).find(|lane| {
            (0..self.touch.elements)
                .any(|part| self.element(*lane, part) != self.element(first, part))
        })
    }
}

impl HappensBefore for WarpView<'_> {
    fn lanes(&self) -> &Lanes {
        self.lanes
    }

    fn floor(&self) -> u32 {
        self.floor
    }

    fn is_past(&self, block: u32) -> bool {
        self.check.is_past(block)
    }

    fn agree(&self, own: Scope, other: Scope, block: u32) -> bool {
        self.check.reaches(own, self.block, block) && self.check.reaches(other, block, self.block)
    }

    fn is_reached(&self, old: &ShadowAccess, old_lane: usize, known: &Tree) -> bool {
        if self.check.owns(old.block) {
            return false;
        }
        let reached = self.reached.get(self.check, known);
        let over = self.check.moment_of(old.block).is_some_and(|moment| reached.follows(&moment));
        over || reached.includes(old, old_lane)
    }

    fn stores_same(&self, lane: usize, offset: u8, end: u8) -> bool {
        self.values.is_some_and(|values| {
            (offset..end).all(|byte| values.is_same(lane, self.line + u64::from(byte)))
        })
    }
}
