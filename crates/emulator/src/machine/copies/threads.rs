//! Copies that threads ask for one by one (`cp.async`), and wait for by groups of their own.

use super::bytes;
use crate::machine::slots::{LANES, Row32, Row64, lanes};

/// Something that lanes of a warp asked for.
struct Entry {
    /// Lanes for which it is not done.
    mask: u32,
    /// Address of the target, or of an mbarrier, in this process.
    to: Row64,
    what: What,
}

enum What {
    /// A copy.
    Copy(Box<Copying>),
    /// Arrival at an mbarrier once the copies before are done.
    Arrive,
}

/// A copy of so many bytes for each lane, of which some come from the source and the others are zero.
struct Copying {
    from: Row64,
    given: Row32,
    bytes: u32,
    group: Row32,
}

/// Copies of one warp that are not done.
#[derive(Default)]
pub struct WarpCopies {
    entries: Vec<Entry>,
    /// The number of each lane's open group.
    group: [u32; LANES],
    /// The same for bulk copies.
    pub bulk_group: [u32; LANES],
}

/// A copy that lanes ask for.
pub struct Request {
    /// Lanes.
    pub mask: u32,
    /// Targets, as addresses of this process.
    pub to: Row64,
    /// Sources, as addresses of this process.
    pub from: Row64,
    /// Bytes of each source.
    pub given: Row32,
    /// Bytes of each target.
    pub bytes: u32,
}

impl WarpCopies {
    /// Whether all are done.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lanes ask for a copy.
    pub fn ask(&mut self, request: Request) {
        let Request { mask, to, from, given, bytes } = request;
        let copying = Copying { from, given, bytes, group: self.group };
        self.entries.push(Entry { mask, to, what: What::Copy(Box::new(copying)) });
    }

    /// Lanes ask for an arrival after their copies.
    pub fn ask_arrival(&mut self, mask: u32, at: &Row64) {
        self.entries.push(Entry { mask, to: *at, what: What::Arrive });
    }

    /// Lanes close their groups.
    pub fn commit(&mut self, mask: u32) {
        lanes(mask).for_each(|lane| self.group[lane] += 1);
    }

    /// The first groups that lanes need not wait for, where `left` of them may be open.
    pub fn limits(&self, left: u32) -> Row32 {
        self.group.map(|open| open.saturating_sub(left))
    }

    /// Performs copies of lanes, for each those of groups before a limit, and arrivals at mbarriers where
    /// nothing before is left to do.
    pub fn perform(&mut self, mask: u32, limits: &Row32) -> Vec<Performed> {
        let mut performed = Vec::new();
        let mut blocked = 0;
        for entry in &mut self.entries {
            let mine = entry.mask & mask;
            let done = match &entry.what {
                What::Copy(own) => {
                    let due = |lane: &usize| own.group[*lane] < limits[*lane];
                    lanes(mine).filter(due).map(|lane| 1 << lane).sum()
                }
                What::Arrive => mine & !blocked,
            };
            performed.extend(lanes(done).map(|lane| entry.perform(lane)));
            entry.mask &= !done;
            blocked |= entry.mask;
        }
        self.entries.retain(|entry| entry.mask != 0);
        performed
    }

    /// Performs all copies before arrivals at an mbarrier, and these.
    pub fn perform_before(&mut self, at: u64) -> Vec<Performed> {
        let mut performed = Vec::new();
        for lane in 0..LANES {
            let own = |entry: &Entry| {
                matches!(entry.what, What::Arrive)
                    && entry.mask >> lane & 1 != 0
                    && entry.to[lane] == at
            };
            let Some(last) = self.entries.iter().rposition(own) else { continue };
            for entry in self.entries[..=last].iter_mut().filter(|own| own.mask >> lane & 1 != 0) {
                performed.push(entry.perform(lane));
                entry.mask &= !(1 << lane);
            }
        }
        self.entries.retain(|entry| entry.mask != 0);
        performed
    }
}

/// What was done for a lane.
pub enum Performed {
    /// It arrives at an mbarrier.
    Arrival(usize, u64),
    /// Bytes were copied: target, how many of them; source, how many of it.
    Copy(usize, (u64, u64), (u64, u64)),
}

impl Entry {
    /// Does it for a lane.
    fn perform(&self, lane: usize) -> Performed {
        let What::Copy(own) = &self.what else { return Performed::Arrival(lane, self.to[lane]) };
        let mut data = [0; 16];
        // SAFETY: both ranges were found valid when the copy was asked for, and live as long as the block.
        unsafe {
            bytes::read(own.from[lane], &mut data[..own.given[lane] as usize]);
            bytes::write(self.to[lane], &data[..own.bytes as usize]);
        }
        let (to, from) = (self.to[lane], own.from[lane]);
        Performed::Copy(lane, (to, own.bytes.into()), (from, own.given[lane].into()))
    }
}
