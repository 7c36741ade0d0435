//! Copies of single threads (`cp.async`) that are not complete.
//!
//! Such a copy may read its source and write its target at any moment until its thread has waited
//! for it, or an mbarrier that it signals has been tested. Until then a write to its source and any
//! access to its target race with it, including those of the thread that issued it.

use crate::fault::Access;
use crate::machine::RegisterHasher;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// Copies of threads have at most 16 bytes, aligned to their size, so that each lies in one line.
const LINE: u64 = 128;

/// What a copy that is under way reads, or what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingCopy {
    /// First byte, in this process.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Load or store.
    pub access: Access,
    /// Block, among all launches.
    pub block: u32,
    /// Warp of the block.
    pub warp: u32,
    /// Lane.
    pub lane: usize,
    /// The operation that asked for it.
    pub pc: u32,
}

/// All that the threads of the resident blocks have under way.
#[derive(Default)]
pub struct PendingCopies {
    lines: HashMap<u64, Vec<PendingCopy>, BuildHasherDefault<RegisterHasher>>,
}

impl PendingCopies {
    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// A copy begins.
    pub fn begin(&mut self, copy: PendingCopy) {
        self.lines.entry(copy.start / LINE).or_default().push(copy);
    }

    /// What a thread had begun at an address is done.
    pub fn end(
        &mut self,
        start: u64,
        is_own: impl Fn(&PendingCopy) -> bool,
    ) -> Option<PendingCopy> {
        let line = self.lines.get_mut(&(start / LINE))?;
        let index = line.iter().position(|own| own.start == start && is_own(own))?;
        let copy = line.swap_remove(index);
        if line.is_empty() {
            self.lines.remove(&(start / LINE));
        }
        Some(copy)
    }

    /// A block has ended: no thread can observe its pending copies any more.
    pub fn forget(&mut self, block: u32) {
        self.lines.retain(|_, line| {
            line.retain(|own| own.block != block);
            !line.is_empty()
        });
    }

    /// The first that an access to a range races with.
    pub fn find(&self, start: u64, end: u64, access: Access) -> Option<&PendingCopy> {
        let lines = (start / LINE..=(end - 1) / LINE).filter_map(|line| self.lines.get(&line));
        lines.flatten().find(|own| {
            own.start < end
                && start < own.end
                && (access != Access::Load || own.access != Access::Load)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_met_until_its_own_thread_ends_it() {
        let own = |start, access, lane| {
            let end = start + 16;
            PendingCopy { start, end, access, block: 3, warp: 1, lane, pc: 9 }
        };
        let mut all = PendingCopies::default();
        all.begin(own(0x1070, Access::Store, 4));
        all.begin(own(0x2000, Access::Load, 4));
        assert!(all.find(0x1000, 0x1071, Access::Load).is_some());
        assert!(all.find(0x107f, 0x1100, Access::Store).is_some());
        assert!(all.find(0x1000, 0x1070, Access::Store).is_none());
        assert!(all.find(0x1080, 0x1100, Access::Store).is_none());
        assert!(all.find(0x2000, 0x2004, Access::Load).is_none());
        assert!(all.find(0x2000, 0x2004, Access::Atomic).is_some());
        assert!(all.end(0x1070, |own| own.lane == 5).is_none());
        assert!(all.end(0x1070, |own| own.lane == 4).is_some());
        assert!(all.find(0x1000, 0x1100, Access::Store).is_none() && !all.is_empty());
        all.forget(3);
        assert!(all.is_empty());
    }
}
