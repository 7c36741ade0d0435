//! Which group of a warp runs next.

use super::{Group, Wait, Warp};

/// Instructions after which a passed-over group gets its turn, where the others touch memory that
/// lanes communicate by.
pub(super) const QUANTUM_POLLING: u64 = 512;
/// The same where they do not.
pub(super) const QUANTUM: u64 = 1 << 15;

impl Warp {
    /// The group to run next.
    pub(super) fn pick(&mut self) -> Option<usize> {
        if let [only] = self.groups.as_slice() {
            return (only.wait == Wait::Ready).then_some(0);
        }
        self.merge();
        let best = self.first_in_order()?;
        self.starving(best).or(Some(best))
    }

    fn first_in_order(&self) -> Option<usize> {
        let order = |index: &usize| {
            let group = &self.groups[*index];
            (u32::MAX - self.depth(group.frame), group.pc)
        };
        (0..self.groups.len())
            .filter(|index| self.groups[*index].wait == Wait::Ready)
            .min_by_key(order)
    }

    pub(super) fn depth(&self, frame: u32) -> u32 {
        self.frames[frame as usize].as_ref().map_or(0, |frame| frame.depth)
    }

    /// The group that has its turn out of order, if one has.
    fn starving(&mut self, best: usize) -> Option<usize> {
        if let Some((lane, until)) = self.favoured {
            let own = |group: &Group| group.wait == Wait::Ready && group.mask >> lane & 1 != 0;
            match self.groups.iter().position(own) {
                Some(index) if self.tick < until => return Some(index),
                _ => self.favoured = None,
            }
        }
        let ready = |index: &usize| self.groups[*index].wait == Wait::Ready && *index != best;
        let oldest =
            (0..self.groups.len()).filter(ready).min_by_key(|index| self.groups[*index].stamp)?;
        if self.tick - self.groups[oldest].stamp < QUANTUM {
            return None;
        }
        let lane = self.groups[oldest].mask.trailing_zeros();
        self.favoured = Some((lane, self.tick + QUANTUM));
        Some(oldest)
    }

    /// Joins groups that are at the same place.
    fn merge(&mut self) {
        let mut index = 0;
        while index < self.groups.len() {
            let own = self.groups[index];
            let same = |other: &Group| {
                (other.frame, other.pc, other.wait) == (own.frame, own.pc, own.wait)
            };
            match self.groups[..index].iter().position(same) {
                Some(into) => {
                    self.groups.swap_remove(index);
                    let into = &mut self.groups[into];
                    into.mask |= own.mask;
                    into.votes |= own.votes;
                    into.stamp = into.stamp.max(own.stamp);
                }
                None => index += 1,
            }
        }
    }

    /// The next place where another group waits to be joined.
    pub(super) fn stop(&self, group: &Group) -> u32 {
        let ahead = |other: &&Group| {
            other.wait == Wait::Ready && other.frame == group.frame && other.pc > group.pc
        };
        self.groups.iter().filter(ahead).map(|other| other.pc).min().unwrap_or(u32::MAX)
    }
}
