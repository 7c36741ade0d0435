//! The search for the end of a share of the result in the sorted keys of all ranks, by the samples of each round.
//!
//! A round has a *stride*: of each rank's open keys every `stride`th is a sample, so that a sample stands for the `stride` keys that
//! end with it. Samples are ordered by key, then by rank, then by position, as the result is. Let `wanted` open keys belong in front
//! of the end, and `p` be the number of ranks.
//!
//! - At most `j * stride + (p - 1) * (stride - 1)` open keys are not after the sample number `j`. If that is at most `wanted`, they are
//!   all in front of the end.
//! - At least `j * stride` open keys are not after it. If that is at least `wanted`, all keys after it are behind the end.
//!
//! So at most `(2 p + 1) * stride` keys stay open, and with a stride of 1 none.

use std::ops::Range;

/// The keys of a rank that may be on either side of the end: from `low` to below `high` of its sorted share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Open {
    pub(super) low: usize,
    pub(super) high: usize,
}

impl Open {
    pub(super) fn len(self) -> usize {
        self.high - self.low
    }

    /// How many samples it gives.
    pub(super) fn samples(self, stride: usize) -> usize {
        self.len().checked_div(stride).unwrap_or(0)
    }
}

/// The search for one end.
#[derive(Debug)]
pub(super) struct Search {
    /// Of each rank.
    pub(super) open: Vec<Open>,
    /// Of the next round; 0 when the end is found: then `low` of each rank is its part of it.
    pub(super) stride: usize,
    /// How many keys are in front of the end.
    end: usize,
    /// The most samples of a rank in a round.
    most: usize,
}

impl Search {
    /// The search for the place behind the first `end` keys of ranks that have `lens`. Rounds take at most `most` samples of a
    /// rank, at least four for each rank and four more, with which each round leaves fewer keys open.
    pub(super) fn new(lens: &[usize], end: usize, most: usize) -> Self {
        let all = |len: &usize| match end {
            0 => 0..0,
            _ if end == lens.iter().sum::<usize>() => *len..*len,
            _ => 0..*len,
        };
        Self::within(lens.iter().map(all).collect(), end, most)
    }

    /// As [`new`](Self::new), where it is known which keys of each rank may be on either side.
    pub(super) fn within(open: Vec<Range<usize>>, end: usize, most: usize) -> Self {
        let most = most.max(4 * open.len() + 4);
        let open = open.into_iter().map(|range| Open { low: range.start, high: range.end });
        let mut search = Self { open: open.collect(), stride: 0, end, most };
        search.set_stride();
        search
    }

    fn set_stride(&mut self) {
        let longest = self.open.iter().map(|open| open.len()).max().unwrap_or(0);
        self.stride = longest.div_ceil(self.most);
    }

    /// Takes the samples of all ranks as words in their order, those of the first rank first.
    pub(super) fn narrow(&mut self, words: &[u64]) {
        let mut samples = self.with_ranks(words);
        // Stable: of equal words the earlier rank, and the earlier position, stays in front.
        samples.sort_by_key(|(word, _)| *word);
        let (ranks, stride) = (self.open.len(), self.stride);
        let in_front: usize = self.open.iter().map(|open| open.low).sum();
        let wanted = self.end - in_front;
        let surely = wanted.saturating_sub((ranks - 1) * (stride - 1)) / stride;
        let at_most = wanted.div_ceil(stride);
        let below = self.of_each_rank(&samples[..surely.min(samples.len())]);
        let up_to = self.of_each_rank(&samples[..at_most.min(samples.len())]);
        for (rank, open) in self.open.iter_mut().enumerate() {
            if at_most <= samples.len() {
                open.high = open.high.min(open.low + up_to[rank] * stride + stride - 1);
            }
            open.low += below[rank] * stride;
        }
        self.set_stride();
    }

    /// The words, each with its rank.
    fn with_ranks(&self, words: &[u64]) -> Vec<(u64, usize)> {
        let counts = self.open.iter().map(|open| open.samples(self.stride));
        let ranks = counts.enumerate().flat_map(|(rank, count)| std::iter::repeat_n(rank, count));
        words.iter().copied().zip(ranks).collect()
    }

    /// How many of the samples are of each rank.
    fn of_each_rank(&self, samples: &[(u64, usize)]) -> Vec<usize> {
        let mut counts = vec![0; self.open.len()];
        samples.iter().for_each(|(_, rank)| counts[*rank] += 1);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches as the ranks do, and returns the end in each rank's keys, and the rounds.
    fn find(keys: &[Vec<u64>], end: usize, most: usize) -> (Vec<usize>, usize) {
        let lens: Vec<_> = keys.iter().map(Vec::len).collect();
        let mut search = Search::new(&lens, end, most);
        let mut rounds = 0;
        while search.stride > 0 {
            let stride = search.stride;
            let of_rank = |(keys, open): (&Vec<u64>, &Open)| {
                let samples = keys[open.low..open.high].iter().skip(stride - 1).step_by(stride);
                samples.copied().collect::<Vec<_>>()
            };
            let words: Vec<_> = keys.iter().zip(&search.open).flat_map(of_rank).collect();
            search.narrow(&words);
            rounds += 1;
            assert!(rounds < 100, "it does not end");
        }
        (search.open.iter().map(|open| open.low).collect(), rounds)
    }

    /// As a plain loop finds it: all keys with rank and position, sorted.
    fn expected(keys: &[Vec<u64>], end: usize) -> Vec<usize> {
        let mut all: Vec<_> = (0..keys.len())
            .flat_map(|rank| keys[rank].iter().enumerate().map(move |(at, key)| (*key, rank, at)))
            .collect();
        all.sort_unstable();
        (0..keys.len()).map(|own| all[..end].iter().filter(|key| key.1 == own).count()).collect()
    }

    /// Sorted keys: `step` is how far apart neighbours may be, 1 for all equal ones.
    fn keys(lens: &[usize], step: u64, seed: u64) -> Vec<Vec<u64>> {
        let mut state = seed;
        let mut next = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % step
        };
        lens.iter()
            .map(|len| {
                let mut keys: Vec<_> = (0..*len).map(|_| next()).collect();
                keys.sort_unstable();
                keys
            })
            .collect()
    }

    #[test]
    fn every_end_is_found_exactly() {
        let shares: [&[usize]; 6] =
            [&[40, 40], &[0, 65], &[33, 0, 1], &[7, 300, 2, 0, 91], &[1; 7], &[64, 63, 62]];
        for (seed, lens) in shares.iter().enumerate() {
            for step in [1, 2, 10, 1 << 30] {
                let keys = keys(lens, step, seed as u64);
                for end in 0..=lens.iter().sum() {
                    let (found, _) = find(&keys, end, 0);
                    assert_eq!(
                        found,
                        expected(&keys, end),
                        "{lens:?}, step {step}, seed {seed}, end {end}"
                    );
                }
            }
        }
    }

    #[test]
    fn three_rounds_are_enough_for_many_keys() {
        let keys = keys(&[1 << 20, 1 << 20], 1 << 40, 7);
        let (found, rounds) = find(&keys, 1 << 20, 1024);
        assert_eq!(found, expected(&keys, 1 << 20));
        assert!(rounds <= 3, "{rounds}");
    }
}
