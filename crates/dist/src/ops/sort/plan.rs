//! Which buckets, or parts of buckets, go to which rank, and in which batch: the same plan on all ranks.

use std::ops::Range;

use super::moves::Moves;
use super::narrow::Search;

/// Buckets of the keys: by their eight highest bits.
pub(super) const BUCKETS: usize = 256;

/// How many keys of each bucket each rank has, and where: in a table of its own, in the order of the buckets, in which the buckets that
/// all of its share of the result has whole have room for the keys of all ranks, in the order of the ranks.
#[derive(Debug)]
pub(super) struct Buckets {
    /// Of each rank.
    lens: Vec<Vec<usize>>,
    /// Where each bucket begins in the result, and where the last one ends.
    sums: Vec<usize>,
    /// Of each rank where its own keys of each bucket begin in its table, and how long the table is.
    starts: Vec<Vec<usize>>,
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

    /// The buckets of batches that follow each other.
    pub(super) fn joined(batches: &[Self]) -> Self {
        Self { buckets: batches.iter().flat_map(|batch| batch.buckets.clone()).collect() }
    }

    /// Of each bucket the range of a rank's keys.
    fn ranges(&self, rank: usize) -> Vec<Range<usize>> {
        self.buckets.iter().map(|ranges| ranges[rank].clone()).collect()
    }

    /// Of whole buckets of a rank's share: the room of each in its table.
    pub(super) fn rooms(&self, own: usize) -> impl Iterator<Item = Range<usize>> {
        self.buckets.iter().map(move |ranges| {
            let start = ranges[own].start - ranges[..own].iter().map(Range::len).sum::<usize>();
            start..start + ranges.iter().map(Range::len).sum::<usize>()
        })
    }

    /// Of whole buckets of the share of rank `to`: which rows of its own table rank `from` gives, and where they begin in the table of
    /// rank `to`.
    pub(super) fn given(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.buckets.iter().zip(self.rooms(to)).map(move |(ranges, room)| {
            let before = ranges[..from].iter().map(Range::len).sum::<usize>();
            (ranges[from].clone(), room.start + before)
        })
    }
}

/// What rank `own` sends and receives where each rank gets a batch of whole buckets. What it receives goes to the room of each bucket in its table,
/// where its own keys are.
pub(super) fn moves_to_rooms(of_ranks: &[&Batch], own: usize) -> Moves {
    let mut moves = moves_to(of_ranks, own, of_ranks[own].rooms(own).map(|room| room.start));
    (moves.sent[own], moves.received[own]) = (Vec::new(), Vec::new());
    moves
}

/// What rank `own` sends and receives where each rank gets a batch. It receives the buckets one after the other, of each the keys of
/// all ranks in the order of the ranks.
pub(super) fn moves(of_ranks: &[&Batch], own: usize) -> Moves {
    let mut next = 0;
    let packed = of_ranks[own].lens().into_iter().map(|len| {
        next += len;
        next - len
    });
    moves_to(of_ranks, own, packed)
}

/// As [`moves`], where the buckets begin at `starts`.
fn moves_to(of_ranks: &[&Batch], own: usize, starts: impl Iterator<Item = usize>) -> Moves {
    let ranks = of_ranks.len();
    let sent = of_ranks.iter().map(|batch| batch.ranges(own)).collect();
    let batch = of_ranks[own];
    let first = |rank: usize| batch.buckets.first().map_or(0, |ranges| ranges[rank].start);
    let mut received = vec![Vec::new(); ranks];
    for (ranges, mut next) in batch.buckets.iter().zip(starts) {
        for (rank, range) in ranges.iter().enumerate() {
            received[rank].push(next..next + range.len());
            next += range.len();
        }
    }
    Moves { sent, first: (0..ranks).map(first).collect(), received }
}

impl Buckets {
    /// Of each rank how many keys each bucket has, and which share of the result it gets.
    pub(super) fn new(lens: Vec<Vec<usize>>, shares: &[Range<usize>]) -> Self {
        let mut sums = vec![0];
        for bucket in 0..BUCKETS {
            sums.push(sums[bucket] + lens.iter().map(|own| own[bucket]).sum::<usize>());
        }
        let mut buckets = Self { lens, sums, starts: Vec::new() };
        buckets.starts =
            (0..).zip(shares).map(|(rank, share)| buckets.starts(rank, share)).collect();
        buckets
    }

    /// Where a rank's keys of each bucket begin in its table, and how long the table is.
    fn starts(&self, rank: usize, share: &Range<usize>) -> Vec<usize> {
        let mut next = 0;
        let start = |bucket: usize| {
            let (begin, own) = (next, self.lens[rank][bucket]);
            if self.is_whole(share, bucket) {
                next += self.len(bucket);
                begin + self.lens[..rank].iter().map(|lens| lens[bucket]).sum::<usize>()
            } else {
                next += own;
                begin
            }
        };
        let mut starts: Vec<_> = (0..BUCKETS).map(start).collect();
        starts.push(next);
        starts
    }

    /// Whether all keys of a bucket are in a share of the result.
    fn is_whole(&self, share: &Range<usize>, bucket: usize) -> bool {
        share.start <= self.sums[bucket] && self.sums[bucket + 1] <= share.end
    }

    /// Where a rank's keys of each bucket begin in its table.
    pub(super) fn places(&self, rank: usize) -> [u64; BUCKETS] {
        std::array::from_fn(|bucket| self.starts[rank][bucket] as u64)
    }

    /// The length of a rank's table.
    pub(super) fn table_len(&self, rank: usize) -> usize {
        self.starts[rank][BUCKETS]
    }

    pub(super) fn range(&self, rank: usize, bucket: usize) -> Range<usize> {
        let start = self.starts[rank][bucket];
        start..start + self.lens[rank][bucket]
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
        let ranks = 0..self.lens.len();
        let Some(bucket) = self.within(end) else {
            let between = self.sums.iter().position(|sum| *sum == end).unwrap_or(0);
            let open = ranks.map(|rank| self.starts[rank][between]..self.starts[rank][between]);
            return Search::within(open.collect(), end, most);
        };
        let open: Vec<_> = ranks.map(|rank| self.range(rank, bucket)).collect();
        // The search counts what is in front of the open keys in the ranks' tables.
        let in_front: usize = open.iter().map(|range| range.start).sum();
        Search::within(open, in_front + end - self.sums[bucket], most)
    }

    /// The buckets all of whose keys are in a share of the result, in batches of about as many keys.
    pub(super) fn batches(&self, share: &Range<usize>, batches: usize) -> Vec<Batch> {
        let is_whole = |bucket: &usize| self.is_whole(share, *bucket);
        let whole: Vec<_> = (0..BUCKETS).filter(is_whole).filter(|b| self.len(*b) > 0).collect();
        let total: usize = whole.iter().map(|bucket| self.len(*bucket)).sum();
        let (mut all, mut before) = (vec![Batch::default(); batches], 0);
        for bucket in whole {
            let batch = (before as u128 * batches as u128 / total as u128) as usize;
            let ranges = (0..self.lens.len()).map(|rank| self.range(rank, bucket));
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
                let ranks = 0..self.lens.len();
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

    /// So many keys of some buckets, and none of the others.
    fn lens(some: &[(usize, usize)]) -> Vec<usize> {
        let mut lens = vec![0; BUCKETS];
        some.iter().for_each(|(bucket, len)| lens[*bucket] = *len);
        lens
    }

    /// Two ranks, of which the first gets that many of the keys.
    fn two_ranks(first: usize) -> (Buckets, [Range<usize>; 2]) {
        let shares = [0..first, first..20];
        let lens = [lens(&[(0, 5), (3, 2), (9, 3)]), lens(&[(3, 4), (9, 1), (255, 5)])];
        (Buckets::new(lens.to_vec(), &shares), shares)
    }

    /// Where ranges begin and end.
    fn ends(ranges: &[Range<usize>]) -> Vec<(usize, usize)> {
        ranges.iter().map(|range| (range.start, range.end)).collect()
    }

    #[test]
    fn ends_are_within_a_bucket_or_between_two() {
        let (buckets, _) = two_ranks(11);
        assert_eq!(
            [0, 5, 8, 11, 20].map(|end| buckets.within(end)),
            [None, None, Some(3), None, None]
        );
        assert_eq!(buckets.divided([5, 11, 20].into_iter()), Some(vec![]));
        // Six of twenty keys are too many.
        assert_eq!(buckets.divided([8].into_iter()), None);
        // The first rank has room for the other's four keys of bucket 3.
        let search = buckets.search(11, 64);
        assert_eq!((search.stride, search.open[0].low, search.open[1].low), (0, 11, 4));
    }

    #[test]
    fn every_key_goes_to_one_rank_in_one_batch() {
        // The first six keys of bucket 3 and above are divided after 8 of 20: 1 and 2 keys of it go to rank 0.
        let (buckets, shares) = two_ranks(8);
        assert_eq!([0, 1].map(|rank| buckets.table_len(rank)), [10, 13]);
        let cuts = [vec![6, 10], vec![2, 13]];
        assert_eq!(shares.clone().map(|share| buckets.edge_lens(&share)), [[0, 3], [3, 0]]);
        let edges = [0, 1].map(|to| buckets.edge_batches(to, &shares[to], &cuts));
        let of = |ranges: [Range<usize>; 2]| Batch { buckets: vec![ranges.to_vec()] };
        assert_eq!(edges[0], [Batch::default(), of([5..6, 0..2])]);
        assert_eq!(edges[1], [of([6..7, 2..4]), Batch::default()]);
        let whole = shares.clone().map(|share| buckets.batches(&share, 3));
        assert_eq!(whole[0].iter().map(Batch::lens).collect::<Vec<_>>().concat(), [5]);
        assert_eq!(whole[1].iter().map(Batch::lens).collect::<Vec<_>>().concat(), [4, 5]);
        // Rank 1's batches have a bucket of 3 + 1 keys, none, and one of 0 + 5. Its own keys are behind room for the other's.
        let batches = [&whole[0][0], &whole[1][0]];
        let packed = moves(&batches, 1);
        assert_eq!((packed.len(), &packed.first), (4, &vec![7, 7]));
        assert_eq!(packed.sent.concat(), [0..0, 7..8]);
        assert_eq!(packed.received.concat(), [0..3, 3..4]);
        let rooms = moves_to_rooms(&batches, 1);
        assert_eq!((rooms.len(), &rooms.first), (3, &vec![7, 7]));
        assert_eq!(
            (ends(&rooms.sent.concat()), ends(&rooms.received.concat())),
            (vec![(0, 0)], vec![(4, 7)])
        );
        assert_eq!(ends(&whole[1][0].rooms(1).collect::<Vec<_>>()), [(4, 8)]);
        assert_eq!(ends(&moves_to_rooms(&batches, 0).sent.concat()), [(7, 10)]);
        assert_eq!(whole[1][0].given(0, 1).collect::<Vec<_>>(), [(7..10, 4)]);
        assert_eq!(whole[1][0].given(1, 1).collect::<Vec<_>>(), [(7..8, 7)]);
        assert_eq!(ends(&whole[0][0].rooms(0).collect::<Vec<_>>()), [(0, 5)]);
    }

    #[test]
    fn a_share_within_one_bucket_has_one_edge() {
        let share = 0..10;
        let buckets = Buckets::new(vec![lens(&[(7, 10)])], std::slice::from_ref(&share));
        assert_eq!(buckets.edge_lens(&(2..5)), [3, 0]);
        assert_eq!(buckets.edge_lens(&(0..5)), [0, 5]);
        assert_eq!(buckets.edge_lens(&(5..5)), [0, 0]);
        assert_eq!(buckets.edge_lens(&(0..10)), [0, 0]);
    }
}
