//! Which buckets, or parts of buckets, go to which rank, and in which batch: the same plan on all ranks.

use std::ops::Range;

use super::moves::Moves;
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

/// Buckets of one share, which follow each other: of each bucket the range of each rank's keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    buckets: Vec<Vec<Range<usize>>>,
}

impl Batch {
    /// How many keys each bucket has.
    pub(super) fn lens(&self) -> Vec<usize> {
        let len = |ranges: &Vec<Range<usize>>| ranges.iter().map(Range::len).sum();
        self.buckets.iter().map(len).collect()
    }

    /// How many keys all of its buckets have.
    pub(super) fn len(&self) -> usize {
        self.lens().iter().sum()
    }

    /// Of each bucket the range of a rank's keys.
    fn ranges(&self, rank: usize) -> Vec<Range<usize>> {
        self.buckets.iter().map(|ranges| ranges[rank].clone()).collect()
    }
}

/// What rank `own` sends and receives where each rank gets a batch. It receives the buckets one after the other, of each the keys of
/// all ranks in the order of the ranks.
pub(super) fn moves(of_ranks: &[&Batch], own: usize) -> Moves {
    let ranks = of_ranks.len();
    let sent = of_ranks.iter().map(|batch| batch.ranges(own)).collect();
    let batch = of_ranks[own];
    let first = |rank: usize| batch.buckets.first().map_or(0, |ranges| ranges[rank].start);
    let (mut received, mut next) = (vec![Vec::new(); ranks], 0);
    for ranges in &batch.buckets {
        for (rank, range) in ranges.iter().enumerate() {
            received[rank].push(next..next + range.len());
            next += range.len();
        }
    }
    Moves { sent, first: (0..ranks).map(first).collect(), received }
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

    /// The buckets all of whose keys are in a share of the result, in batches of about as many keys.
    pub(super) fn batches(&self, share: &Range<usize>, batches: usize) -> Vec<Batch> {
        let is_whole = |bucket: &usize| {
            share.start <= self.sums[*bucket] && self.sums[bucket + 1] <= share.end
        };
        let whole: Vec<_> = (0..BUCKETS).filter(is_whole).filter(|b| self.len(*b) > 0).collect();
        let total: usize = whole.iter().map(|bucket| self.len(*bucket)).sum();
        let (mut all, mut before) = (vec![Batch::default(); batches], 0);
        for bucket in whole {
            let batch = (before as u128 * batches as u128 / total as u128) as usize;
            let ranges = (0..self.starts.len()).map(|rank| self.range(rank, bucket));
            all[batch].buckets.push(ranges.collect());
            before += self.len(bucket);
        }
        all
    }

    /// How many keys of a share are in buckets that other shares have a part of, too: at its beginning, and at its end.
    pub(super) fn edge_lens(&self, share: &Range<usize>) -> [usize; 2] {
        self.edges(share).map(|bucket| {
            bucket.map_or(0, |bucket| {
                share.end.min(self.sums[bucket + 1]) - share.start.max(self.sums[bucket])
            })
        })
    }

    /// The buckets at the beginning and at the end of a share that other shares have a part of.
    fn edges(&self, share: &Range<usize>) -> [Option<usize>; 2] {
        if share.is_empty() {
            return [None; 2];
        }
        let (first, last) = (self.within(share.start), self.within(share.end));
        [first, last.filter(|last| Some(*last) != first)]
    }

    /// The keys of those buckets that go to rank `to`, which has that share: `cuts` are, of each rank, where its keys for each rank
    /// end.
    pub(super) fn edge_batches(
        &self,
        to: usize,
        share: &Range<usize>,
        cuts: &[Vec<usize>],
    ) -> [Batch; 2] {
        self.edges(share).map(|bucket| {
            let ranges = |bucket| {
                let ranks = 0..self.starts.len();
                ranks.map(|from| self.part(from, to, bucket, &cuts[from])).collect()
            };
            Batch { buckets: bucket.into_iter().map(ranges).collect() }
        })
    }

    /// Which keys of a bucket go from rank `from` to rank `to`, as a range of what `from` has.
    fn part(&self, from: usize, to: usize, bucket: usize, cuts: &[usize]) -> Range<usize> {
        let all = self.range(from, bucket);
        let first = if to == 0 { 0 } else { cuts[to - 1] };
        let (start, end) = (all.start.max(first), all.end.min(cuts[to]));
        start..end.max(start)
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
        let (buckets, shares) = (two_ranks(), [0..8, 8..20]);
        let cuts = [vec![6, 10], vec![2, 10]];
        assert_eq!(shares.clone().map(|share| buckets.edge_lens(&share)), [[0, 3], [3, 0]]);
        let edges = [0, 1].map(|to| buckets.edge_batches(to, &shares[to], &cuts));
        let of = |ranges: [Range<usize>; 2]| Batch { buckets: vec![ranges.to_vec()] };
        assert_eq!(edges[0], [Batch::default(), of([5..6, 0..2])]);
        assert_eq!(edges[1], [of([6..7, 2..4]), Batch::default()]);
        let whole = shares.clone().map(|share| buckets.batches(&share, 3));
        assert_eq!(whole[0].iter().map(Batch::lens).collect::<Vec<_>>().concat(), [5]);
        assert_eq!(whole[1].iter().map(Batch::lens).collect::<Vec<_>>().concat(), [4, 5]);
        // Rank 1's batches have a bucket of 3 + 1 keys, none, and one of 0 + 5.
        let moves = moves(&[&whole[0][0], &whole[1][0]], 1);
        assert_eq!((moves.len(), &moves.first), (4, &vec![7, 4]));
        assert_eq!(moves.sent.concat(), [0..0, 4..5]);
        assert_eq!(moves.received.concat(), [0..3, 3..4]);
    }

    #[test]
    fn a_share_within_one_bucket_has_one_edge() {
        let starts = [starts(&[(7, 10)])];
        let buckets = Buckets::new(starts.iter().map(|starts| (&starts[..], 10)));
        assert_eq!(buckets.edge_lens(&(2..5)), [3, 0]);
        assert_eq!(buckets.edge_lens(&(0..5)), [0, 5]);
        assert_eq!(buckets.edge_lens(&(5..5)), [0, 0]);
        assert_eq!(buckets.edge_lens(&(0..10)), [0, 0]);
    }
}
