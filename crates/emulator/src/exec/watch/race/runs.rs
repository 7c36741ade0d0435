//! The lanes of an access, as few runs of lanes that lie side by side or on the same place.

use crate::machine::{LANES, Row64};

/// Lanes that touch side by side, or the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Lanes.
    pub lanes: u32,
    /// The lowest of them.
    pub first: u32,
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Bytes of each lane, one lane after the other; 0 where all touch the whole range.
    pub width: u32,
}

impl Run {
    /// A range that one lane touches.
    pub fn of_lane(lane: usize, start: u64, bytes: u64) -> Self {
        Self { lanes: 1 << lane, first: lane as u32, start, end: start + bytes, width: 0 }
    }

    /// The lane that touches one of its bytes; the lowest of several.
    pub fn lane_at(&self, address: u64) -> u32 {
        self.first + (address - self.start).checked_div(u64::from(self.width)).unwrap_or(0) as u32
    }
}

/// Parts an access of `bytes` a lane into runs.
pub fn each_run<E>(
    at: &Row64,
    mask: u32,
    bytes: u32,
    mut act: impl FnMut(Run) -> Result<(), E>,
) -> Result<(), E> {
    if mask == u32::MAX && is_dense(at, bytes) {
        let end = at[LANES - 1] + u64::from(bytes);
        return act(Run { lanes: mask, first: 0, start: at[0], end, width: bytes });
    }
    let mut rest = mask;
    while rest != 0 {
        let run = next_run(at, rest, bytes);
        rest &= !run.lanes;
        act(run)?;
    }
    Ok(())
}

fn is_dense(at: &Row64, bytes: u32) -> bool {
    let mut differs = 0;
    for (lane, own) in at.iter().enumerate() {
        differs |= own ^ (at[0].wrapping_add(lane as u64 * u64::from(bytes)));
    }
    differs == 0
}

/// The run of the lowest lane.
fn next_run(at: &Row64, rest: u32, bytes: u32) -> Run {
    let first = rest.trailing_zeros();
    let start = at[first as usize];
    let same = same_place(at, rest, start);
    if same.count_ones() > 1 {
        return Run { lanes: same, first, start, end: start + u64::from(bytes), width: 0 };
    }
    let mut run = 1 << first;
    let mut last = first;
    for lane in first + 1..LANES as u32 {
        let steps = u64::from(lane - first) * u64::from(bytes);
        if rest >> lane & 1 == 0 || at[lane as usize] != start + steps {
            break;
        }
        run |= 1 << lane;
        last = lane;
    }
    let end = at[last as usize] + u64::from(bytes);
    let width = if last == first { 0 } else { bytes };
    Run { lanes: run, first, start, end, width }
}

fn same_place(at: &Row64, rest: u32, start: u64) -> u32 {
    let mut same = 0;
    for (lane, own) in at.iter().enumerate() {
        same |= u32::from(*own == start) << lane;
    }
    same & rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(at: impl Fn(u64) -> u64, mask: u32, bytes: u32) -> Vec<Run> {
        let row: Row64 = std::array::from_fn(|lane| at(lane as u64));
        let mut out = Vec::new();
        let done: Result<(), ()> = each_run(&row, mask, bytes, |run| {
            out.push(run);
            Ok(())
        });
        assert!(done.is_ok());
        out
    }

    #[test]
    fn a_warp_side_by_side_is_one_run() {
        let own = runs(|lane| 1000 + 4 * lane, u32::MAX, 4);
        assert_eq!(own, [Run { lanes: u32::MAX, first: 0, start: 1000, end: 1128, width: 4 }]);
        let some = runs(|lane| 1000 + 8 * lane, 0xf0, 8);
        assert_eq!(some, [Run { lanes: 0xf0, first: 4, start: 1032, end: 1064, width: 8 }]);
    }

    #[test]
    fn equal_places_and_rows_and_strides_are_told_apart() {
        let same = runs(|_| 96, 0xffff, 4);
        assert_eq!(same, [Run { lanes: 0xffff, first: 0, start: 96, end: 100, width: 0 }]);
        let rows = runs(|lane| lane / 16 * 512 + lane % 16 * 4, u32::MAX, 4);
        assert_eq!(rows.len(), 2);
        assert_eq!(rows[1], Run { lanes: 0xffff_0000, first: 16, start: 512, end: 576, width: 4 });
        let apart = runs(|lane| lane * 132, u32::MAX, 4);
        assert_eq!(apart.len(), 32);
        assert_eq!(apart[3], Run { lanes: 8, first: 3, start: 396, end: 400, width: 0 });
        let gap = runs(|lane| lane * 4, 0b1011, 4);
        assert_eq!(gap.len(), 2);
    }
}
