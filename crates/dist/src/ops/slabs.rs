//! How a length is divided among ranks.

use std::ops::Range;

use super::shares::same_len;
use crate::communicator::Communicator;
use crate::error::DistResult;

/// A length that is divided among ranks: each has a consecutive share, in the order of the ranks. Shares may differ, and may be 0
/// where the operation does not say otherwise.
///
/// ```
/// use ferrowarp_dist::ops::Slabs;
///
/// let slabs = Slabs::even(10, 4);
/// assert_eq!(slabs.shares(), [3, 3, 2, 2]);
/// assert_eq!(slabs.range(2), 6..8);
/// assert_eq!(slabs.rank_of(5), 1);
/// assert_eq!(Slabs::of_shares(&[0, 7, 1]).len(), 8);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slabs {
    /// Where the shares begin, and the length.
    bounds: Vec<usize>,
}

impl Slabs {
    /// Shares that differ by one at most: the first ranks have the longer ones.
    ///
    /// # Panics
    /// If there are no ranks.
    #[must_use]
    pub fn even(len: usize, ranks: u32) -> Self {
        let ranks = ranks as usize;
        let shares = (0..ranks).map(|rank| len / ranks + usize::from(rank < len % ranks));
        Self::of_shares(&shares.collect::<Vec<_>>())
    }

    /// These shares, one for each rank.
    ///
    /// # Panics
    /// If there are none, or their sum overflows.
    #[must_use]
    pub fn of_shares(shares: &[usize]) -> Self {
        assert!(!shares.is_empty(), "a length is divided among one rank or more");
        let mut bounds = vec![0_usize];
        for share in shares {
            let begin = bounds[bounds.len() - 1];
            bounds.push(begin.checked_add(*share).expect("the sum of the shares is a length"));
        }
        Self { bounds }
    }

    /// The length that is divided.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bounds[self.bounds.len() - 1]
    }

    /// Whether the length is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many ranks share it.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        (self.bounds.len() - 1) as u32
    }

    /// The indices of a rank's share.
    ///
    /// # Panics
    /// If there is no such rank.
    #[must_use]
    pub fn range(&self, rank: u32) -> Range<usize> {
        self.bounds[rank as usize]..self.bounds[rank as usize + 1]
    }

    /// The length of each share.
    #[must_use]
    pub fn shares(&self) -> Vec<usize> {
        self.bounds.windows(2).map(|ends| ends[1] - ends[0]).collect()
    }

    /// Where the shares begin, in the order of the ranks, and the length: `[ranks + 1]`.
    #[must_use]
    pub fn bounds(&self) -> &[usize] {
        &self.bounds
    }

    /// The rank in whose share an index is.
    ///
    /// # Panics
    /// If the index is not below the length.
    #[must_use]
    pub fn rank_of(&self, index: usize) -> u32 {
        assert!(index < self.len(), "index {index} is not below the length {}", self.len());
        (self.bounds.partition_point(|bound| *bound <= index) - 1) as u32
    }

    /// Each share times `factor`: of rows as elements, say.
    #[must_use]
    pub fn scaled(&self, factor: usize) -> Self {
        Self { bounds: self.bounds.iter().map(|bound| bound * factor).collect() }
    }

    /// An error unless there is a share for each rank of a communicator, and together they are `len`.
    pub(crate) fn check(
        &self,
        operation: &'static str,
        ranks: &Communicator,
        what: &'static str,
        len: usize,
    ) -> DistResult<()> {
        let size = ranks.size() as usize;
        same_len(operation, "the list of shares", size, self.bounds.len() - 1)?;
        same_len(operation, what, len, self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_is_in_the_share_of_its_rank() {
        for shares in [vec![3, 0, 0, 4, 1, 0], vec![0, 0, 9], vec![5], vec![0, 1]] {
            let slabs = Slabs::of_shares(&shares);
            assert_eq!(slabs.shares(), shares);
            for index in 0..slabs.len() {
                assert!(
                    slabs.range(slabs.rank_of(index)).contains(&index),
                    "{index} of {shares:?}"
                );
            }
        }
    }

    #[test]
    fn even_shares_differ_by_one_at_most() {
        assert_eq!(Slabs::even(2, 4).shares(), [1, 1, 0, 0]);
        assert_eq!(Slabs::even(0, 2).shares(), [0, 0]);
        assert_eq!(Slabs::even(9, 3).shares(), [3; 3]);
        assert_eq!(Slabs::even(7, 3).scaled(10).range(1), 30..50);
    }
}
