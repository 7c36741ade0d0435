//! Sets of addresses.

use crate::graph::order::Range;

/// A set of addresses, as ranges that may overlap.
#[derive(Clone, Debug, Default)]
pub(super) struct RangeSet(Vec<Range>);

/// Whether the ranges have an address in common.
pub(super) fn meet(a: &Range, b: &Range) -> bool {
    a.start < b.end && b.start < a.end
}

impl RangeSet {
    pub(super) fn meets(&self, range: &Range) -> bool {
        self.0.iter().any(|own| meet(own, range))
    }

    pub(super) fn add(&mut self, range: Range) {
        if range.start < range.end && !self.0.iter().any(|own| own.holds(&range)) {
            self.0.retain(|own| !range.holds(own));
            self.0.push(range);
        }
    }

    pub(super) fn remove(&mut self, range: &Range) {
        let rest = |own: Range| {
            let before = Range { end: own.end.min(range.start), ..own };
            let after = Range { start: own.start.max(range.end), ..own };
            [before, after].into_iter().filter(|part| part.start < part.end)
        };
        self.0 = std::mem::take(&mut self.0).into_iter().flat_map(rest).collect();
    }

    /// Adds what `other` and `within` have in common. Whether anything of it is new.
    pub(super) fn add_common(&mut self, other: &Self, within: &[Range]) -> bool {
        let mut new = Self::default();
        for a in &other.0 {
            for b in within.iter().filter(|b| meet(a, b)) {
                new.add(Range { start: a.start.max(b.start), end: a.end.min(b.end) });
            }
        }
        let mut missing = new.clone();
        self.0.iter().for_each(|own| missing.remove(own));
        new.0.into_iter().for_each(|range| self.add(range));
        !missing.0.is_empty()
    }
}

impl FromIterator<Range> for RangeSet {
    fn from_iter<I: IntoIterator<Item = Range>>(ranges: I) -> Self {
        let mut own = Self::default();
        ranges.into_iter().for_each(|range| own.add(range));
        own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> Range {
        Range { start, end }
    }

    /// Random sets of small addresses, against bits.
    #[test]
    fn sets_hold_what_was_added_and_not_removed() {
        let mut state = 11u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..50 {
            let (mut set, mut bits) = (RangeSet::default(), [false; 40]);
            for _ in 0..30 {
                let start = random(36);
                let (own, add) = (range(start, start + random(5)), random(3) > 0);
                if add {
                    set.add(own)
                } else {
                    set.remove(&own)
                }
                bits[own.start as usize..own.end as usize].fill(add);
                for (at, &bit) in (0..).zip(&bits) {
                    assert_eq!(set.meets(&range(at, at + 1)), bit, "{at} of {set:?}");
                }
            }
        }
    }

    #[test]
    fn what_two_sets_have_in_common_is_new_once() {
        let mut carried = RangeSet::default();
        let live: RangeSet = [range(0, 10), range(20, 30)].into_iter().collect();
        assert!(carried.add_common(&live, &[range(5, 25)]));
        assert!(!carried.add_common(&live, &[range(5, 25)]));
        let has = |at| carried.meets(&range(at, at + 1));
        assert_eq!(
            [4, 5, 9, 10, 19, 20, 24, 25].map(has),
            [false, true, true, false, false, true, true, false]
        );
    }
}
