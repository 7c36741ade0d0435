//! Ranges of bytes of a text, and a text that is put together from them.

use std::ops::Range;

/// The same bytes as ranges in order that neither overlap nor touch.
pub(super) fn union(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = ranges.into_iter().filter(|r| !r.is_empty()).collect();
    ranges.sort_unstable_by_key(|range| (range.start, range.end));
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => all.push(range),
        }
    }
    all
}

/// The same bytes in the same order, where two that follow each other are one range if they touch.
pub(super) fn joined(ranges: impl IntoIterator<Item = Range<usize>>) -> Vec<Range<usize>> {
    let mut all: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match all.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => all.push(range),
        }
    }
    all
}

/// What is in the first and not in the second; both are unions.
pub(super) fn subtract(
    from: impl IntoIterator<Item = Range<usize>>,
    cut: &[Range<usize>],
) -> Vec<Range<usize>> {
    let mut rest = Vec::new();
    for range in from {
        let mut start = range.start;
        let first = cut.partition_point(|cut| cut.end <= range.start);
        for cut in cut[first..].iter().take_while(|cut| cut.start < range.end) {
            rest.push(start..cut.start.max(start));
            start = cut.end;
        }
        rest.push(start..range.end.max(start));
    }
    rest.retain(|range| !range.is_empty());
    rest
}

/// A text with pieces of another one, in their order.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub text: String,
    /// Pieces of the other text, and where they begin in this one.
    pieces: Vec<(Range<usize>, usize)>,
}

impl Moved {
    /// Takes a piece, which lies behind those that were taken before.
    pub(super) fn keep(&mut self, from: &str, range: Range<usize>) {
        let at = self.text.len();
        self.text.push_str(&from[range.clone()]);
        self.pieces.push((range, at));
    }

    /// Where the bytes of a range are now, as far as they were taken.
    pub(super) fn of(&self, range: &Range<usize>) -> Vec<Range<usize>> {
        let first = self.pieces.partition_point(|(piece, _)| piece.end <= range.start);
        let pieces = self.pieces[first..].iter().take_while(|(piece, _)| piece.start < range.end);
        let moved = pieces.map(|(piece, at)| {
            let (start, end) = (range.start.max(piece.start), range.end.min(piece.end));
            at + start - piece.start..at + end - piece.start
        });
        moved.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_cut() {
        assert_eq!(union([5..7, 0..2, 2..3, 6..9, 4..4]), [0..3, 5..9]);
        assert_eq!(subtract([0..10, 20..30], &[2..3, 8..22, 30..40]), [0..2, 3..8, 22..30]);
        assert_eq!(subtract([3..5, 7..8], &[0..6, 7..9]), []);
        assert_eq!(subtract([3..5, 7..8], &[]), [3..5, 7..8]);
        assert_eq!(joined([5..7, 7..8, 0..2, 3..4]), [5..8, 0..2, 3..4]);
    }

    #[test]
    fn what_was_moved_is_found() {
        let mut moved = Moved::default();
        moved.keep("abcdefgh", 1..3);
        moved.text.push('-');
        moved.keep("abcdefgh", 4..7);
        assert_eq!(moved.text, "bc-efg");
        assert_eq!(moved.of(&(0..8)), [0..2, 3..6]);
        assert_eq!(moved.of(&(2..5)), [1..2, 3..4]);
        assert_eq!(moved.of(&(7..8)), []);
    }
}
