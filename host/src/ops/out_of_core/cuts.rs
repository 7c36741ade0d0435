//! Cuts through sorted runs: the elements that come first in the order of all of them.
//!
//! A merge of many runs need not be a merge: where each run is cut so that the parts before the cuts are the first elements of
//! all, these parts are sorted by themselves (P. Varman, S. Scheufler, B. Iyer and G. Ricard, "Merging Multiple
//! Lists on Hierarchical-Memory Multiprocessors", 1991). The cuts are found by a binary search for the key of the last
//! element, and so exactly: buckets have the lengths that are asked for, whatever the keys are.

use std::ops::Range;

/// Buckets of sorted runs, one after the other.
pub struct Cuts<'a, W, F> {
    runs: Vec<&'a [W]>,
    /// The key that a run is sorted by.
    key: F,
    /// The largest key.
    last: u64,
    /// Where the next bucket begins in each run, and a key that it does not go below.
    begins: Vec<usize>,
    least: u64,
}

impl<'a, W: Copy, F: Fn(W) -> u64> Cuts<'a, W, F> {
    pub fn new(runs: Vec<&'a [W]>, last: u64, key: F) -> Self {
        let begins = vec![0; runs.len()];
        Self { runs, key, last, begins, least: 0 }
    }

    /// The next `len` elements in the order of all runs: a part of each run. Equal ones come from the first runs first, so that a
    /// stable sort of the parts, one after the other, is a stable sort of all.
    pub fn next(&mut self, len: usize) -> Vec<Range<usize>> {
        let rank = self.begins.iter().sum::<usize>() + len;
        // Elements up to the key `high` are enough, those below the key `low` are not: of each run `from` and `to` as many.
        let (mut low, mut high) = (self.least, self.last);
        let mut from = self.begins.clone();
        let mut to: Vec<usize> = self.runs.iter().map(|run| run.len()).collect();
        while low < high {
            let middle = low.midpoint(high);
            let up_to = self.up_to(middle, &from, &to);
            if up_to.iter().sum::<usize>() >= rank {
                (high, to) = (middle, up_to);
            } else {
                (low, from) = (middle + 1, up_to);
            }
        }
        self.least = low;
        let mut missing = rank - from.iter().sum::<usize>();
        let end = |(from, to): (usize, usize)| {
            let taken = missing.min(to - from);
            missing -= taken;
            from + taken
        };
        let ends: Vec<usize> = from.into_iter().zip(to).map(end).collect();
        let begins = std::mem::replace(&mut self.begins, ends.clone());
        begins.into_iter().zip(ends).map(|(begin, end)| begin..end).collect()
    }

    /// How many elements of each run have at most this key: between `from` and `to`.
    fn up_to(&self, key: u64, from: &[usize], to: &[usize]) -> Vec<usize> {
        let count = |((run, &from), &to): ((&&[W], &usize), &usize)| {
            from + run[from..to].partition_point(|&element| (self.key)(element) <= key)
        };
        self.runs.iter().zip(from).zip(to).map(count).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Elements are a key and where they come from; buckets are sorted by the key alone.
    #[track_caller]
    fn check(runs: &[Vec<u8>], bucket: usize) {
        let tagged: Vec<Vec<(u8, usize)>> = runs
            .iter()
            .enumerate()
            .map(|(i, run)| run.iter().enumerate().map(|(j, &key)| (key, 1000 * i + j)).collect())
            .collect();
        let mut expected = tagged.concat();
        expected.sort_by_key(|element| element.0);
        let slices: Vec<&[(u8, usize)]> = tagged.iter().map(Vec::as_slice).collect();
        let mut cuts = Cuts::new(slices.clone(), 255, |element: (u8, usize)| element.0.into());
        for chunk in expected.chunks(bucket) {
            let parts = cuts.next(chunk.len());
            let parts = slices.iter().zip(parts).map(|(run, part)| &run[part]);
            let mut found = parts.collect::<Vec<_>>().concat();
            found.sort_by_key(|element| element.0);
            assert_eq!(found, chunk);
        }
    }

    #[test]
    fn buckets_follow_one_another_and_are_stable() {
        let run = |seed: usize, len: usize, keys: usize| {
            let mut run: Vec<u8> =
                (0..len).map(|i| ((i * 7919 + seed * 31) % 9973 % keys) as u8).collect();
            run.sort_unstable();
            run
        };
        for keys in [1, 2, 7, 256] {
            for lens in [vec![5], vec![100; 4], vec![0, 33, 1, 0, 257], vec![31; 9]] {
                let runs: Vec<_> =
                    lens.iter().enumerate().map(|(seed, &len)| run(seed, len, keys)).collect();
                for bucket in [1, 3, 32, 100, 1000] {
                    check(&runs, bucket);
                }
            }
        }
    }

    #[test]
    fn runs_that_do_not_overlap_and_the_ends_of_the_keys() {
        check(&[vec![200; 50], vec![0; 50], vec![255; 50], vec![100; 3]], 40);
        check(&[vec![0, 0, 255], vec![0, 255, 255]], 2);
    }
}
