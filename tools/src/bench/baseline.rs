//! What moved since an earlier run.

use super::report::{PeerRow, Report, Row};
use super::stats::Summary;

/// A case in two runs.
#[derive(Clone, Copy, Debug)]
pub struct Change<'a> {
    /// The case before.
    pub before: &'a Row,
    /// The case now.
    pub now: &'a Row,
}

/// Which way a time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// It is shorter than nine tenths of the earlier samples, as nine tenths of its own are.
    Faster,
    /// The other way round.
    Slower,
    /// The spreads overlap.
    Within,
}

impl Change<'_> {
    /// How many times as fast as before ours is.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.before.ours.median_ms / self.now.ours.median_ms
    }

    /// Whether ours moved by more than the spread of both runs.
    #[must_use]
    pub fn moved(&self) -> Moved {
        moved(&self.before.ours, &self.now.ours)
    }

    /// How many times as fast as before the peers are, in the middle of them: what the machine did.
    #[must_use]
    pub fn peers_factor(&self) -> Option<f64> {
        let same = |now: &PeerRow| {
            let before = self.before.peers.iter().find(|before| before.name == now.name)?;
            Some(before.times.median_ms / now.times.median_ms)
        };
        let factors: Vec<_> = self.now.peers.iter().filter_map(same).collect();
        Summary::of(&factors).map(|summary| summary.median_ms)
    }
}

fn moved(before: &Summary, now: &Summary) -> Moved {
    if now.slow_ms < before.fast_ms {
        Moved::Faster
    } else if now.fast_ms > before.slow_ms {
        Moved::Slower
    } else {
        Moved::Within
    }
}

/// The cases that both runs have.
#[must_use]
pub fn changes<'a>(before: &'a Report, now: &'a Report) -> Vec<Change<'a>> {
    let pair = |now: &'a Row| {
        let same = |row: &&Row| row.case == now.case && row.shape == now.shape;
        Some(Change { before: before.rows.iter().find(same)?, now })
    };
    now.rows.iter().filter_map(pair).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::report::tests::{report, row};

    #[test]
    fn what_overlaps_has_not_moved() {
        let summary = |fast_ms, slow_ms| Summary {
            median_ms: 1.0,
            fast_ms,
            slow_ms,
            quartiles_ms: [fast_ms, slow_ms],
            samples: 9,
        };
        assert_eq!(moved(&summary(0.9, 1.1), &summary(1.0, 1.2)), Moved::Within);
        assert_eq!(moved(&summary(0.9, 1.1), &summary(1.2, 1.3)), Moved::Slower);
        assert_eq!(moved(&summary(0.9, 1.1), &summary(0.7, 0.8)), Moved::Faster);
    }

    #[test]
    fn cases_are_paired_by_name_and_shape() {
        let before = report(vec![row("a/b/f32", &[8], 2.0), row("a/b/f32", &[9], 3.0)]);
        let now = report(vec![row("a/b/f32", &[9], 1.5), row("a/c/f32", &[8], 1.0)]);
        let changes = changes(&before, &now);
        assert_eq!(changes.len(), 1);
        assert_eq!((changes[0].factor(), changes[0].moved()), (2.0, Moved::Faster));
        // The peers of `row` take twice the time of ours.
        assert_eq!(changes[0].peers_factor(), Some(2.0));
    }
}
