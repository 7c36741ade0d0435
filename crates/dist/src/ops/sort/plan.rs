//! Which buckets, or parts of buckets, go to which rank, and in which batch: the same plan on all ranks.

use std::ops::Range;

use super::narrow::Search;

/// Buckets of the keys: by their eight highest bits.
pub(super) const BUCKETS: usize = 256;

/// Where the buckets begin in the keys of each rank, which are in the order of the buckets.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Of each rank one more than there are buckets.
    starts: Vec<Vec<usize>>,
    /// Of all ranks together.
    sums: Vec<usize>,
}

impl Buckets {
    /// Of each rank where each bucket but the first begins, and how many keys it has.
    pub(super) fn new<'a>(ranks: impl Iterator<Item = (&'a [u64], usize)>) -> Self {
        let of_rank = |(starts, len): (&[u64], usize)| {
            let starts = starts.iter().map(|start| *start as usize);
            std::iter::once(0).chain(starts).chain([len]).collect()
        };
        let starts: Vec<Vec<usize>> = ranks.map(of_rank).collect();
        let sums = (0..=BUCKETS).map(|bucket| starts.iter().map(|own| own[bucket]).sum()).collect();
        Self { starts, sums }
    }

    pub(super) fn range(&self, rank: usize, bucket: usize) -> Range<usize> {
        self.starts[rank][bucket]..self.starts[rank][bucket + 1]
    }

    fn len(&self, bucket: usize) -> usize {
        self.sums[bucket + 1] - self.sums[bucket]
    }

    /// The bucket that the end of a share is within; `None` if it is between two.
    pub(super) fn within(&self, end: usize) -> Option<usize> {
        (0..BUCKETS).find(|bucket| self.sums[*bucket] < end && end < self.sums[bucket + 1])
    }

    /// The buckets that ends of shares are within, if they are few keys: they are sorted twice.
    pub(super) fn divided(&self, ends: impl Iterator<Item = usize>) -> Option<Vec<usize>> {
        let mut divided: Vec<_> = ends.filter_map(|end| self.within(end)).collect();
        divided.dedup();
        let keys: usize = divided.iter().map(|bucket| self.len(*bucket)).sum();
        (keys <= self.sums[BUCKETS] / 8).then_some(divided)
    }

    /// The search for an end, within the bucket that it is in.
    pub(super) fn search(&self, end: usize, most: usize) -> Search {
        let bucket = self.within(end);
        let between = self.sums.iter().position(|sum| *sum == end).unwrap_or(0);
        let ranks = 0..self.starts.len();
        let open = ranks.map(|rank| match bucket {
            Some(bucket) => self.range(rank, bucket),
            None => self.starts[rank][between]..self.starts[rank][between],
        });
        Search::within(open.collect(), end, most)
    }
}

/// Who sends what to whom.
pub(super) struct Plan {
    buckets: Buckets,
    /// Of each rank where its keys for each rank end.
    cuts: Vec<Vec<usize>>,
    batches: usize,
}

impl Plan {
    pub(super) fn new(buckets: Buckets, cuts: Vec<Vec<usize>>, batches: usize) -> Self {
        Self { buckets, cuts, batches }
    }

    /// Which keys of a bucket go from rank `from` to rank `to`, as a range of what `from` has.
    pub(super) fn part(&self, from: usize, to: usize, bucket: usize) -> Range<usize> {
        let (all, cuts) = (self.buckets.range(from, bucket), &self.cuts[from]);
        let first = if to == 0 { 0 } else { cuts[to - 1] };
        let (start, end) = (all.start.max(first), all.end.min(cuts[to]));
        start..end.max(start)
    }

    /// How many keys of a bucket come to rank `to`.
    pub(super) fn received(&self, to: usize, bucket: usize) -> usize {
        (0..self.cuts.len()).map(|from| self.part(from, to, bucket).len()).sum()
    }

    /// The buckets that come to rank `to` in each batch, about as many keys in each.
    pub(super) fn batches(&self, to: usize) -> Vec<Vec<usize>> {
        let lens = (0..BUCKETS).map(|bucket| self.received(to, bucket));
        let lens: Vec<usize> = lens.collect();
        let total: usize = lens.iter().sum();
        let (mut batches, mut before) = (vec![Vec::new(); self.batches], 0);
        for (bucket, len) in lens.into_iter().enumerate().filter(|(_, len)| *len > 0) {
            batches[(before as u128 * self.batches as u128 / total as u128) as usize].push(bucket);
            before += len;
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the buckets but the first begin, if some have these numbers of keys and the others none.
    fn starts(lens: &[(usize, u64)]) -> Vec<u64> {
        let before = |bucket| lens.iter().filter(move |(other, _)| *other < bucket);
        (1..BUCKETS).map(|bucket| before(bucket).map(|(_, len)| len).sum()).collect()
    }

    fn two_ranks() -> Buckets {
        let starts = [starts(&[(0, 5), (3, 2), (9, 3)]), starts(&[(3, 4), (9, 1), (255, 5)])];
        Buckets::new(starts.iter().map(|starts| (&starts[..], 10)))
    }

    #[test]
    fn ends_are_within_a_bucket_or_between_two() {
        let buckets = two_ranks();
        assert_eq!(
            [0, 5, 8, 11, 20].map(|end| buckets.within(end)),
            [None, None, Some(3), None, None]
        );
        assert_eq!(buckets.divided([5, 11, 20].into_iter()), Some(vec![]));
        // Six of twenty keys are too many.
        assert_eq!(buckets.divided([8].into_iter()), None);
        let search = buckets.search(11, 64);
        assert_eq!((search.stride, search.open[0].low, search.open[1].low), (0, 7, 4));
    }

    #[test]
    fn every_key_goes_to_one_rank_in_one_batch() {
        // The first six keys of bucket 3 and above are divided after 8 of 20: 1 and 2 keys of it go to rank 0.
        let plan = Plan::new(two_ranks(), vec![vec![6, 10], vec![2, 10]], 3);
        assert_eq!([plan.part(0, 0, 3), plan.part(1, 0, 3)], [5..6, 0..2]);
        assert_eq!([plan.part(0, 1, 3), plan.part(1, 1, 3)], [6..7, 2..4]);
        let of_rank = |to: usize| plan.batches(to).concat();
        assert_eq!((of_rank(0), of_rank(1)), (vec![0, 3], vec![3, 9, 255]));
        let keys = |to| (0..BUCKETS).map(|bucket| plan.received(to, bucket)).sum::<usize>();
        assert_eq!((keys(0), keys(1)), (8, 12));
    }
}
