//! Which part of an array, of the planes of a grid or of the rows of a matrix each rank has.

use std::ops::Range;

use ferrowarp::AsStream;

use crate::communicator::Communicator;
use crate::error::{DistError, DistResult};

/// The shares of what is split over the ranks: how many elements, rows, planes or layers each rank has. They are consecutive, in the
/// order of the ranks, and the same on all ranks. A share may be empty where the operation does not say otherwise.
///
/// ```
/// use ferrowarp_dist::ops::Shares;
///
/// let shares = Shares::even(10, 4);
/// assert_eq!(shares.lens(), [3, 3, 2, 2]);
/// assert_eq!(shares.range(2), 6..8);
/// assert_eq!(shares.rank_of(5), 1);
/// assert_eq!(Shares::given(vec![0, 7, 1]).total(), 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shares {
    lens: Vec<usize>,
    /// Where the shares begin, and the total.
    bounds: Vec<usize>,
}

impl Shares {
    /// Shares of these lengths, one for each rank.
    ///
    /// # Panics
    /// If their sum overflows.
    #[must_use]
    pub fn given(lens: Vec<usize>) -> Self {
        let mut bounds = vec![0_usize];
        for len in &lens {
            let begin = bounds[bounds.len() - 1];
            bounds.push(begin.checked_add(*len).expect("the sum of the shares is a length"));
        }
        Self { lens, bounds }
    }

    /// `total` elements in shares that differ by one at most; the first ranks have the longer ones.
    #[must_use]
    pub fn even(total: usize, ranks: u32) -> Self {
        let ranks = ranks as usize;
        let lens = (0..ranks).map(|rank| total / ranks + usize::from(rank < total % ranks));
        Self::given(lens.collect())
    }

    /// Asks all ranks for the length of their share, of which this rank's is `own`. All ranks call it. Waits for them.
    ///
    /// # Errors
    /// As [`Communicator::all_gather_host`].
    pub fn gather(ranks: &Communicator, on: &impl AsStream, own: usize) -> DistResult<Self> {
        let lens = ranks.attempt(|| ranks.all_gather_host(on, &[own as u64]))?;
        Ok(Self::given(lens.into_iter().map(|len| len as usize).collect()))
    }

    /// The length of each share.
    #[must_use]
    pub fn lens(&self) -> &[usize] {
        &self.lens
    }

    /// The length of a rank's share.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn len_of(&self, rank: u32) -> usize {
        self.lens[rank as usize]
    }

    /// The elements of all ranks before this one: where its share begins.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn start_of(&self, rank: u32) -> usize {
        self.range(rank).start
    }

    /// The indices of a rank's share.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn range(&self, rank: u32) -> Range<usize> {
        self.bounds[rank as usize]..self.bounds[rank as usize + 1]
    }

    /// The elements of all ranks.
    #[must_use]
    pub fn total(&self) -> usize {
        self.bounds[self.lens.len()]
    }

    /// The longest share.
    #[must_use]
    pub fn longest(&self) -> usize {
        self.lens.iter().copied().max().unwrap_or(0)
    }

    /// How many ranks there are.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.lens.len() as u32
    }

    /// Where the shares begin, in the order of the ranks, and the total: `[ranks + 1]`.
    #[must_use]
    pub fn bounds(&self) -> &[usize] {
        &self.bounds
    }

    /// The rank in whose share an index is.
    ///
    /// # Panics
    /// If the index is not below the total.
    #[must_use]
    pub fn rank_of(&self, index: usize) -> u32 {
        assert!(index < self.total(), "index {index} is not below the total, {}", self.total());
        (self.bounds.partition_point(|bound| *bound <= index) - 1) as u32
    }

    /// Each share times `factor`: of rows as elements, say.
    ///
    /// # Panics
    /// If the total overflows.
    #[must_use]
    pub fn scaled(&self, factor: usize) -> Self {
        let scaled = |len: &usize| len.checked_mul(factor).expect("a share is a length");
        Self::given(self.lens.iter().map(scaled).collect())
    }

    /// An error unless there is a share for each rank.
    pub(super) fn check(&self, ranks: &Communicator, operation: &'static str) -> DistResult<()> {
        same_len(operation, "the list of shares", ranks.size() as usize, self.lens.len())
    }

    /// An error unless there is a share for each rank, and together they are `total`.
    pub(super) fn check_total(
        &self,
        ranks: &Communicator,
        operation: &'static str,
        total: usize,
    ) -> DistResult<()> {
        self.check(ranks, operation)?;
        same_len(operation, "the sum of the shares", total, self.total())
    }
}

/// An error unless two lengths agree.
pub(super) fn same_len(
    operation: &'static str,
    what: &'static str,
    expected: usize,
    found: usize,
) -> DistResult<()> {
    match expected == found {
        true => Ok(()),
        false => Err(DistError::Length { operation, what, expected, found }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_shares_differ_by_one_at_most() {
        assert_eq!(Shares::even(10, 4).lens(), [3, 3, 2, 2]);
        assert_eq!(Shares::even(2, 3).lens(), [1, 1, 0]);
        assert_eq!(Shares::even(0, 2).lens(), [0, 0]);
        for total in 0..40 {
            assert_eq!(Shares::even(total, 7).total(), total);
        }
        assert_eq!(Shares::even(7, 3).scaled(10).range(1), 30..50);
    }

    #[test]
    fn shares_begin_where_those_before_end() {
        let shares = Shares::given(vec![3, 0, 5]);
        assert_eq!([0, 1, 2].map(|rank| shares.start_of(rank)), [0, 3, 3]);
        assert_eq!((shares.total(), shares.longest(), shares.len_of(2)), (8, 5, 5));
        assert_eq!((shares.bounds(), shares.ranks()), (&[0, 3, 3, 8][..], 3));
    }

    #[test]
    fn an_index_is_in_the_share_of_its_rank() {
        for lens in [vec![3, 0, 0, 4, 1, 0], vec![0, 0, 9], vec![5], vec![0, 1]] {
            let shares = Shares::given(lens);
            for index in 0..shares.total() {
                let rank = shares.rank_of(index);
                assert!(shares.range(rank).contains(&index), "{index} of {shares:?}");
            }
        }
    }
}
